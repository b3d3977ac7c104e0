// What this node gives with its published model to nodes that ask for a copy: the learner's vectors at the
// end of a rendezvous, and copies of them while the learner is away.
#include "base/array.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
#include <stdlib.h>
#include <string.h>

void node_worker_drop_kept(struct node_worker *worker)
{
    BASE_ASSERT(!worker->kept.part[GOSSIP_PART_MODEL]); // the published one, which the exchange owns
    free(worker->kept.part[GOSSIP_PART_OUTER]);
    free(worker->kept.part[GOSSIP_PART_SECOND]);
    free(worker->kept.blob);
    worker->kept = (struct gossip_snapshot_vectors){0};
    worker->keeps = false;
}

// kernels: in whose memory it is; NULL: ordinary memory. The copy is in ordinary memory.
static void *copy_of(const void *from, size_t bytes, const struct kernels *kernels, bool *complete)
{
    void *copy = from ? malloc(bytes) : NULL;
    *complete = *complete && (copy || !from);
    if (copy && kernels)
        kernels->download(copy, from, bytes);
    else if (copy)
        memcpy(copy, from, bytes);
    return copy;
}

static void copy_vectors(struct node_worker *worker, const struct node_round *round)
{
    const struct kernels *kernels = gossip_exchange_kernels(worker->options.exchange);
    const size_t bytes = gossip_exchange_parameters(worker->options.exchange) * sizeof(float);
    const struct gossip_learner_vectors *vectors = &round->at.vectors;
    struct gossip_snapshot_vectors *kept = &worker->kept;
    BASE_ASSERT(!worker->keeps);
    worker->keeps = true;
    kept->part[GOSSIP_PART_OUTER] = copy_of(vectors->outer, bytes, NULL, &worker->keeps);
    kept->part[GOSSIP_PART_SECOND] = copy_of(vectors->second_moment, bytes, kernels, &worker->keeps);
    kept->blob = copy_of(vectors->blob, sizeof *kept->blob, NULL, &worker->keeps);
}

// Steps may last minutes (a compiler, an evaluation), and a node that joins meanwhile needs a model. A second
// moment that is a moment and an eighth of the steps old will do, so that copies take no more than a
// hundredth of the time.
static bool is_old(const struct node_worker *worker, const struct node_round *round, uint64_t now_ns)
{
    return !worker->keeps || !round->at.meet.meets || now_ns >= worker->kept_ns ||
           round->step - worker->kept_step > worker->kept_step / 8;
}

void node_worker_keep(struct node_worker *worker, const struct node_round *round)
{
    const uint64_t now_ns = node_clock_ns();
    if (round->at.meet.unusable)
        return; // what is kept is finite
    if (is_old(worker, round, now_ns)) {
        node_worker_drop_kept(worker);
        copy_vectors(worker, round);
        worker->kept_step = round->step;
        worker->kept_ns = now_ns + base_max(NODE_SECOND_NS, 100 * (node_clock_ns() - now_ns));
    } else if (worker->kept.blob) {
        *worker->kept.blob = *round->at.vectors.blob;
    }
    worker->kept.round = round->at.meet.round;
    worker->kept.step = round->step;
}

bool node_worker_rests(const void *owner, struct gossip_snapshot_vectors *vectors)
{
    const struct node_worker *worker = owner;
    const struct node_round *round = worker->lent;
    *vectors = worker->kept;
    if (round)
        *vectors = (struct gossip_snapshot_vectors){
            .part = {[GOSSIP_PART_OUTER] = round->at.vectors.outer,
                     [GOSSIP_PART_SECOND] = round->at.vectors.second_moment},
            .read = {[GOSSIP_PART_SECOND] = gossip_exchange_kernels(worker->options.exchange)->download},
            .blob = round->at.vectors.blob,
            .round = round->at.meet.round,
            .step = round->step};
    return round || worker->keeps;
}
