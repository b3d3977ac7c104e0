// Snapshots of a model: given to late joiners, or fetched from other processes.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
#include <string.h>

// A snapshot is fetched into separate vectors, because a partial one is not usable.
static float **own_part(struct sim_node *node, size_t part)
{
    float **parts[GOSSIP_PARTS] = {[GOSSIP_PART_MODEL] = &node->vectors.model,
                                   [GOSSIP_PART_OUTER] = &node->vectors.outer,
                                   [GOSSIP_PART_SECOND] = &node->vectors.second_moment};

    return parts[part];
}

void sim_fetch_stop(struct sim_node *node, bool complete)
{
    if (node->joiner)
        gossip_joiner_destroy(node->joiner);
    for (size_t p = 0; p < GOSSIP_PARTS; p++) {
        if (complete && node->into.part[p])
            memcpy(*own_part(node, p), node->into.part[p],
                   node->world->options.learner->learner.parameters * sizeof(float));
        free(node->into.part[p]);
    }
    node->into = (struct gossip_snapshot_vectors){0};
    node->joiner = NULL;
}

void sim_fetch_freeze(struct sim_node *node)
{
    // Changes received since the boundary are only in the published model.
    float *model = (float *)(uintptr_t)gossip_exchange_model(node->exchange);
    const struct gossip_snapshot_vectors vectors = {
        .part = {model, node->vectors.outer, node->vectors.second_moment},
        .round = node->rounds.round + node->boasts,
        .step = node->rounds.step + node->boasts};
    struct gossip_message answer;
    struct gossip_id id;

    if (!gossip_donor_wants(node->donor))
        return;
    if (gossip_donor_freeze(node->donor, &vectors, sim_node_now(node)) != BASE_OK)
        sim_world_break(node->world, node->host, "a donor's model could not be frozen");
    while (gossip_donor_waiting(node->donor, &id, &answer))
        sim_link_send(node, sim_world_find(node->world, &id), &answer);
}

void sim_fetch_asked(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_message answer;
    bool answered = false;

    // A process that fetches a model itself answers after it has it.
    if (!node->exchange || node->miser ||
        gossip_donor_ask(node->donor, sim_member_id(node, peer), &message->as.ask, sim_node_now(node),
                         &answer, &answered) != BASE_OK)
        return;
    sim_world_trace(node->world, node->host, "asked", NULL, peer, answered);
    if (node->joiner)
        gossip_joiner_donor_asks(node->joiner, sim_member_id(node, peer), sim_node_now(node));
    sim_fetch_tick(node);
    if (answered)
        sim_link_send(node, peer, &answer);
    // While rounds rest there is no boundary.
    if (!node->joiner && !node->in_round && (!node->stepping || node->world->resting))
        sim_fetch_freeze(node);
}

void sim_fetch_donors(struct sim_node *node, const struct gossip_life_action *action)
{
    const struct gossip_id *ids = action->ids;
    const size_t count = action->count;

    sim_world_trace(node->world, node->host, "donors", NULL, count,
                    count ? sim_world_find(node->world, &ids[0]) : 0);
    if (!node->joiner)
        return;
    gossip_joiner_limits(node->joiner, action->round, action->step);
    gossip_joiner_donors(node->joiner, ids, count, sim_node_now(node));
    sim_fetch_tick(node);
}

void sim_fetch_linked(struct sim_node *node, size_t peer)
{
    const struct gossip_id *id = sim_member_id(node, peer);

    if (node->joiner) // requests over an older link are lost
        gossip_joiner_donor_down(node->joiner, id, sim_node_now(node));
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = *id});
}

void sim_fetch_tick(struct sim_node *node)
{
    struct gossip_message message;
    struct gossip_id id;

    while (node->joiner && gossip_joiner_next(node->joiner, sim_node_now(node), &id, &message))
        sim_link_send(node, sim_world_find(node->world, &id), &message);
}

void sim_fetch_timeout(struct sim_node *node)
{
    uint64_t silent_ns;

    if (node->donor)
        gossip_donor_tick(node->donor, sim_node_now(node));
    sim_fetch_tick(node);
    if (node->joiner && gossip_joiner_starved(node->joiner, sim_node_now(node), &silent_ns))
        sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_STARVED, .silent_ns = silent_ns});
}

static void look(struct sim_node *node)
{
    uint64_t round, step;

    sim_fetch_tick(node);
    if (!node->joiner || !gossip_joiner_complete(node->joiner, &round, &step))
        return;
    node->world->counts.fetches++;
    sim_world_trace(node->world, node->host, "fetched", NULL, round, 0);
    sim_train_fetched(node, true, round, step);
}

void sim_fetch_told(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (node->joiner && gossip_joiner_tell(node->joiner, sim_member_id(node, peer), &message->as.tell,
                                           sim_node_now(node)) != BASE_OK)
        SIM_TELL(node, refused, node, peer);
    look(node);
}

uint64_t sim_fetch_deadline(const struct sim_node *node)
{
    const uint64_t donor_ns = node->donor ? gossip_donor_deadline(node->donor) : UINT64_MAX;
    const uint64_t joiner_ns = node->joiner ? gossip_joiner_deadline(node->joiner) : UINT64_MAX;

    return donor_ns < joiner_ns ? donor_ns : joiner_ns;
}

void sim_fetch_begin(struct sim_node *node)
{
    struct gossip_joiner_options options = {.self = *sim_member_id(node, node->self),
                                            .parameters = node->world->options.learner->learner.parameters,
                                            .into = &node->into,
                                            .patience_ns = GOSSIP_SNAPSHOT_PATIENCE_NS,
                                            .starve_ns = GOSSIP_SNAPSHOT_STARVE_NS,
                                            .seed = base_rng_u64(&node->rng)};

    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        node->into.part[p] =
            *own_part(node, p) ? sim_copy(*own_part(node, p), options.parameters * sizeof(float)) : NULL;
    gossip_donor_thaw(node->donor); // its copy is obsolete
    BASE_ASSERT(gossip_joiner_create(&options, &node->joiner) == BASE_OK);
}
