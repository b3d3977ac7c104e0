#include "node/average/snapshot.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/plural.h"
#include <stdlib.h>
#include <string.h>

struct node_snapshot {
    struct node_snapshot_options options;
    size_t parameters;
    struct gossip_donor *donor;
    bool still; // the latest rendezvous made no exchange, and the learner is not back yet
    struct gossip_snapshot_vectors kept; // owned, while its learner waits; its model is the published one
    struct gossip_joiner *joiner;        // while fetching
    struct node_round *round;            // to be filled, borrowed
};

enum base_error node_snapshot_create(const struct node_snapshot_options *options,
                                     struct node_snapshot **snapshot)
{
    struct node_snapshot *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        return BASE_ENOMEM;
    fresh->options = *options;
    fresh->parameters = gossip_exchange_parameters(options->exchange);
    if (gossip_donor_create(fresh->parameters, &fresh->donor)) {
        free(fresh);
        return BASE_ENOMEM;
    }
    *snapshot = fresh;
    return BASE_OK;
}

static void free_orphans(struct node_snapshot *snapshot)
{
    BASE_ASSERT(!snapshot->kept.part[GOSSIP_PART_MODEL]); // the published one, which the exchange owns
    free(snapshot->kept.part[GOSSIP_PART_OUTER]);
    free(snapshot->kept.part[GOSSIP_PART_SECOND]);
    free(snapshot->kept.blob);
    snapshot->kept = (struct gossip_snapshot_vectors){0};
    snapshot->still = false;
}

void node_snapshot_destroy(struct node_snapshot *snapshot)
{
    if (!snapshot)
        return;
    node_snapshot_end(snapshot);
    free_orphans(snapshot);
    gossip_donor_destroy(snapshot->donor);
    free(snapshot);
}

static void give(struct node_snapshot *snapshot, const struct gossip_snapshot_vectors *vectors,
                 uint64_t now_ns)
{
    struct gossip_message answer;
    struct gossip_id peer;

    if (!gossip_donor_wants(snapshot->donor))
        return;
    enum base_error error = gossip_donor_freeze(snapshot->donor, vectors, now_ns);
    if (error)
        base_log(BASE_LOG_WARN, "snapshot", "no snapshot was made: %s",
                 error == BASE_ESTATE ? "this node's model is not finite" : base_error_name(error));
    while (gossip_donor_waiting(snapshot->donor, &peer, &answer))
        snapshot->options.send(snapshot->options.owner, &peer, &answer);
}

// How vectors of the exchange are read.
static const struct kernels *kernels_of(const struct node_snapshot *snapshot)
{
    return gossip_exchange_kernels(snapshot->options.exchange);
}

// In ordinary memory. False: out of memory.
static bool keep(struct node_snapshot *snapshot, const struct gossip_snapshot_vectors *vectors,
                 enum gossip_snapshot_part part)
{
    const size_t bytes = snapshot->parameters * sizeof(float);
    const float *values = vectors->part[part];

    if (!values)
        return true;
    BASE_ASSERT(!snapshot->kept.part[part]);
    snapshot->kept.part[part] = malloc(bytes);
    if (!snapshot->kept.part[part])
        return false;
    if (vectors->read[part])
        vectors->read[part](snapshot->kept.part[part], values, bytes);
    else
        memcpy(snapshot->kept.part[part], values, bytes);
    return true;
}

static bool keep_blob(struct node_snapshot *snapshot, const struct gossip_blob *blob)
{
    if (!blob)
        return true;
    BASE_ASSERT(!snapshot->kept.blob);
    snapshot->kept.blob = malloc(sizeof *blob);
    if (snapshot->kept.blob)
        *snapshot->kept.blob = *blob;
    return snapshot->kept.blob;
}

void node_snapshot_round(struct node_snapshot *snapshot, const struct node_round *round, uint64_t now_ns)
{
    BASE_ASSERT(!snapshot->joiner); // a fetch ends before its rendezvous does
    free_orphans(snapshot);
    if (round->fetch)
        return;
    const struct kernels *kernels = kernels_of(snapshot);
    struct gossip_snapshot_vectors vectors = {.part = {round->model, round->outer, round->second_moment},
                                              .read = {kernels->download, NULL, kernels->download},
                                              .blob = round->blob,
                                              .round = round->meet.round,
                                              .step = round->step};
    give(snapshot, &vectors, now_ns);
    if (round->meet.meets)
        return;
    snapshot->still = keep(snapshot, &vectors, GOSSIP_PART_OUTER) &&
                      keep(snapshot, &vectors, GOSSIP_PART_SECOND) && keep_blob(snapshot, round->blob);
    snapshot->kept.round = vectors.round;
    snapshot->kept.step = vectors.step;
}

void node_snapshot_asked(struct node_snapshot *snapshot, const struct gossip_id *peer,
                         const struct gossip_snapshot_ask *ask, uint64_t now_ns)
{
    struct gossip_message answer;
    bool answered = false;

    // While this node fetches a model itself, nodes that ask wait for it, and it does not wait for them.
    if (snapshot->joiner)
        gossip_joiner_donor_asks(snapshot->joiner, peer, now_ns);
    if (gossip_donor_ask(snapshot->donor, peer, ask, now_ns, &answer, &answered)) {
        snapshot->options.close(snapshot->options.owner, peer, "it asks for a block that does not exist");
        return;
    }
    if (answered)
        snapshot->options.send(snapshot->options.owner, peer, &answer);
    if (!snapshot->still)
        return; // waiting nodes are answered at the next rendezvous
    struct gossip_snapshot_vectors vectors = snapshot->kept;
    // Updates still arrive while the learner waits; the published model includes them.
    vectors.part[GOSSIP_PART_MODEL] = (float *)(uintptr_t)gossip_exchange_model(snapshot->options.exchange);
    vectors.read[GOSSIP_PART_MODEL] = kernels_of(snapshot)->download;
    give(snapshot, &vectors, now_ns);
}

enum base_error node_snapshot_fetch(struct node_snapshot *snapshot, struct node_round *round)
{
    struct gossip_snapshot_vectors into = {.part = {round->model, round->outer, round->second_moment},
                                           .blob = round->blob};
    struct gossip_joiner_options options = {
        .self = snapshot->options.self,
        .parameters = snapshot->parameters,
        .into = &into,
        .patience_ns = GOSSIP_SNAPSHOT_PATIENCE_NS,
        .starve_ns = GOSSIP_SNAPSHOT_STARVE_NS,
        .seed = base_hash_bytes(0, snapshot->options.self.bytes, sizeof snapshot->options.self.bytes)};

    BASE_ASSERT(!snapshot->joiner);
    round->fetched = false;
    enum base_error error = gossip_joiner_create(&options, &snapshot->joiner);
    if (error)
        return error;
    gossip_donor_thaw(snapshot->donor); // what it holds is obsolete
    free_orphans(snapshot);
    snapshot->round = round;
    return BASE_OK;
}

bool node_snapshot_fetching(const struct node_snapshot *snapshot)
{
    return snapshot->joiner;
}

void node_snapshot_end(struct node_snapshot *snapshot)
{
    BASE_ASSERT(!snapshot->joiner == !snapshot->round);
    gossip_joiner_destroy(snapshot->joiner);
    snapshot->joiner = NULL;
    snapshot->round = NULL;
}

void node_snapshot_told(struct node_snapshot *snapshot, const struct gossip_id *peer,
                        const struct gossip_snapshot_tell *tell, uint64_t now_ns)
{
    if (!snapshot->joiner || !gossip_joiner_tell(snapshot->joiner, peer, tell, now_ns))
        return;
    snapshot->options.close(snapshot->options.owner, peer, "a block of a snapshot that does not fit");
}

void node_snapshot_donors(struct node_snapshot *snapshot, const struct gossip_id *donors, size_t n,
                          uint64_t round_limit, uint64_t step_limit, uint64_t now_ns)
{
    if (!snapshot->joiner)
        return; // reported too late
    gossip_joiner_limits(snapshot->joiner, round_limit, step_limit);
    gossip_joiner_donors(snapshot->joiner, donors, n, now_ns);
}

void node_snapshot_gone(struct node_snapshot *snapshot, const struct gossip_id *peer, uint64_t now_ns)
{
    if (snapshot->joiner)
        gossip_joiner_donor_down(snapshot->joiner, peer, now_ns);
}

bool node_snapshot_complete(struct node_snapshot *snapshot)
{
    struct gossip_joiner_progress progress;
    uint64_t number, step;

    if (!snapshot->joiner || !gossip_joiner_complete(snapshot->joiner, &number, &step))
        return false;
    BASE_ASSERT(snapshot->round && !snapshot->round->fetched);
    gossip_joiner_progress(snapshot->joiner, &progress);
    base_log(BASE_LOG_INFO, "snapshot", "fetched: round %llu, step %llu, %zu blocks, %llu bytes, %zu donor%s",
             (unsigned long long)number, (unsigned long long)step, progress.blocks,
             (unsigned long long)progress.bytes, progress.donors_used, base_plural(progress.donors_used));
    snapshot->round->round = number;
    snapshot->round->step = step;
    snapshot->round->fetched = true;
    node_snapshot_end(snapshot);
    return true;
}

void node_snapshot_tick(struct node_snapshot *snapshot, uint64_t now_ns)
{
    struct gossip_message ask;
    struct gossip_id peer;
    uint64_t silent_ns;

    gossip_donor_tick(snapshot->donor, now_ns);
    while (snapshot->joiner && gossip_joiner_next(snapshot->joiner, now_ns, &peer, &ask))
        snapshot->options.send(snapshot->options.owner, &peer, &ask);
    if (snapshot->joiner && gossip_joiner_starved(snapshot->joiner, now_ns, &silent_ns))
        snapshot->options.starved(snapshot->options.owner, silent_ns);
}

uint64_t node_snapshot_deadline(const struct node_snapshot *snapshot)
{
    uint64_t donor_ns = gossip_donor_deadline(snapshot->donor);
    uint64_t joiner_ns = snapshot->joiner ? gossip_joiner_deadline(snapshot->joiner) : UINT64_MAX;
    return donor_ns < joiner_ns ? donor_ns : joiner_ns;
}
