// Snapshots of a model: given to late joiners, or fetched from other processes.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
#include <string.h>

// A snapshot is fetched into separate vectors, because a partial one is not usable.
static float **own_part(struct sim_node *node, size_t part)
{
    float **parts[GOSSIP_PARTS] = {[GOSSIP_PART_MODEL] = &node->train.vectors.model,
                                   [GOSSIP_PART_OUTER] = &node->train.vectors.outer,
                                   [GOSSIP_PART_SECOND] = &node->train.vectors.second_moment};

    return parts[part];
}

void sim_fetch_end(struct sim_node *node, bool complete)
{
    gossip_joiner_destroy(node->fetch.joiner);
    for (size_t p = 0; p < GOSSIP_PARTS; p++) {
        if (complete && node->fetch.into.part[p])
            memcpy(*own_part(node, p), node->fetch.into.part[p],
                   node->world->options.learner->learner.parameters * sizeof(float));
        free(node->fetch.into.part[p]);
    }
    node->fetch.into = (struct gossip_snapshot_vectors){0};
    node->fetch.joiner = NULL;
}

void sim_fetch_start(struct sim_node *node)
{
    const struct sim_learner *learner = node->world->options.learner;

    if (learner)
        BASE_ASSERT(!gossip_donor_create(learner->learner.parameters, &node->fetch.donor));
}

void sim_fetch_stop(struct sim_node *node)
{
    sim_fetch_end(node, false);
    gossip_donor_destroy(node->fetch.donor);
    node->fetch.donor = NULL;
}

void sim_fetch_freeze(struct sim_node *node)
{
    // Changes received since the boundary are only in the published model.
    float *model = (float *)(uintptr_t)gossip_exchange_model(node->train.exchange);
    const struct gossip_snapshot_vectors vectors = {
        .part = {model, node->train.vectors.outer, node->train.vectors.second_moment},
        .round = node->train.rounds.round + node->faults.boasts,
        .step = node->train.rounds.step + node->faults.boasts};
    struct gossip_message answer;
    struct gossip_id id;

    if (!gossip_donor_wants(node->fetch.donor))
        return;
    if (gossip_donor_freeze(node->fetch.donor, &vectors, sim_node_now(node)))
        sim_world_break(node->world, node->host, "a donor's model could not be frozen");
    while (gossip_donor_waiting(node->fetch.donor, &id, &answer))
        sim_link_send(node, sim_world_find(node->world, &id), &answer);
}

void sim_fetch_asked(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_message answer;
    bool answered = false;

    if (!node->train.exchange || node->faults.miser ||
        gossip_donor_ask(node->fetch.donor, sim_member_id(node, peer), &message->as.ask, sim_node_now(node),
                         &answer, &answered))
        return;
    sim_world_trace(node->world, node->host, "asked", NULL, peer, answered);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_SERVED});
    if (node->fetch.joiner)
        gossip_joiner_donor_asks(node->fetch.joiner, sim_member_id(node, peer), sim_node_now(node));
    sim_fetch_tick(node);
    if (answered)
        sim_link_send(node, peer, &answer);
    // A process at rest answers at once, others at their next boundary, which does not come while rounds
    // rest. A process that fetches a model itself answers when it has it.
    if (!node->fetch.joiner && !node->train.in_round && (!node->train.stepping || node->world->resting))
        sim_fetch_freeze(node);
}

void sim_fetch_donors(struct sim_node *node, const struct gossip_life_action *action)
{
    const struct gossip_id *ids = action->ids;
    const size_t count = action->count;

    sim_world_trace(node->world, node->host, "donors", NULL, count,
                    count ? sim_world_find(node->world, &ids[0]) : 0);
    if (!node->fetch.joiner)
        return;
    gossip_joiner_limits(node->fetch.joiner, action->round, action->step);
    gossip_joiner_donors(node->fetch.joiner, ids, count, sim_node_now(node));
    sim_fetch_tick(node);
}

void sim_fetch_linked(struct sim_node *node, size_t peer)
{
    const struct gossip_id *id = sim_member_id(node, peer);

    if (node->fetch.joiner) // requests over an older link are lost
        gossip_joiner_donor_down(node->fetch.joiner, id, sim_node_now(node));
}

void sim_fetch_tick(struct sim_node *node)
{
    struct gossip_message message;
    struct gossip_id id;

    while (node->fetch.joiner && gossip_joiner_next(node->fetch.joiner, sim_node_now(node), &id, &message))
        sim_link_send(node, sim_world_find(node->world, &id), &message);
}

void sim_fetch_timeout(struct sim_node *node)
{
    uint64_t silent_ns;

    if (node->fetch.donor)
        gossip_donor_tick(node->fetch.donor, sim_node_now(node));
    sim_fetch_tick(node);
    if (node->fetch.joiner && gossip_joiner_starved(node->fetch.joiner, sim_node_now(node), &silent_ns))
        sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_STARVED, .silent_ns = silent_ns});
}

static void look(struct sim_node *node)
{
    uint64_t round, step;

    sim_fetch_tick(node);
    if (!node->fetch.joiner || !gossip_joiner_complete(node->fetch.joiner, &round, &step))
        return;
    node->world->counts.fetches++;
    sim_world_trace(node->world, node->host, "fetched", NULL, round, 0);
    sim_train_fetched(node, true, round, step);
}

void sim_fetch_told(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (node->fetch.joiner && gossip_joiner_tell(node->fetch.joiner, sim_member_id(node, peer),
                                                 &message->as.tell, sim_node_now(node)))
        SIM_TELL(node, refused, node, peer);
    look(node);
}

uint64_t sim_fetch_deadline(const struct sim_node *node)
{
    const uint64_t donor_ns = node->fetch.donor ? gossip_donor_deadline(node->fetch.donor) : UINT64_MAX;
    const uint64_t joiner_ns = node->fetch.joiner ? gossip_joiner_deadline(node->fetch.joiner) : UINT64_MAX;

    return donor_ns < joiner_ns ? donor_ns : joiner_ns;
}

void sim_fetch_begin(struct sim_node *node)
{
    struct gossip_joiner_options options = {.self = *sim_member_id(node, node->self),
                                            .parameters = node->world->options.learner->learner.parameters,
                                            .into = &node->fetch.into,
                                            .patience_ns = GOSSIP_SNAPSHOT_PATIENCE_NS,
                                            .starve_ns = GOSSIP_SNAPSHOT_STARVE_NS,
                                            .seed = base_rng_u64(&node->rng)};

    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        node->fetch.into.part[p] =
            *own_part(node, p) ? sim_copy(*own_part(node, p), options.parameters * sizeof(float)) : NULL;
    gossip_donor_thaw(node->fetch.donor); // its copy is obsolete
    BASE_ASSERT(!gossip_joiner_create(&options, &node->fetch.joiner));
}
