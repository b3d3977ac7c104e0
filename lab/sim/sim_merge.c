// Merging the final models (gossip/merge) under virtual time: the daemon's node/average/merge.c.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS (10 * SIM_SECOND) // where a world lingers for ever

static uint64_t patience(const struct sim_node *node)
{
    const uint64_t linger_ns = node->world->options.life.linger_ns;

    if (linger_ns == 0)
        return PATIENCE_NS;
    return gossip_merge_patience(linger_ns);
}

void sim_merge_start(struct sim_node *node)
{
    const struct sim_learner *learner = node->world->options.learner;

    if (!learner)
        return;
    const struct gossip_merge_options options = {.self = *sim_member_id(node, node->self),
                                                 .parameters = learner->learner.parameters,
                                                 .patience_ns = patience(node)};
    BASE_ASSERT(!gossip_merge_create(&options, &node->merge));
}

void sim_merge_stop(struct sim_node *node)
{
    gossip_merge_destroy(node->merge);
    node->merge = NULL;
}

static size_t model_bytes(const struct sim_node *node)
{
    return node->world->options.learner->learner.parameters * sizeof(float);
}

static void finish(struct sim_node *node)
{
    const enum gossip_merge_end end = gossip_merge_end(node->merge);

    if (node->train.rounds.doing != GOSSIP_ROUNDS_MERGE)
        return;
    sim_world_trace(node->world, node->host, "merge", gossip_merge_end_text(end), node->train.rounds.round,
                    end);
    if (end == GOSSIP_MERGE_MERGED) {
        node->world->counts.merges++;
        memcpy(node->train.vectors.model, gossip_merge_model(node->merge), model_bytes(node));
    }
    gossip_exchange_replace(node->train.exchange, node->train.vectors.model);
    gossip_merge_finish(node->merge);
    sim_train_merged(node, end == GOSSIP_MERGE_MERGED);
}

// Messages go out; a merge that has ended is reported.
static void act(struct sim_node *node)
{
    struct gossip_message message;
    struct gossip_id peer;

    while (gossip_merge_next(node->merge, &peer, &message))
        sim_link_send(node, sim_world_find(node->world, &peer), &message);
    if (gossip_merge_end(node->merge))
        finish(node);
}

// As in the daemon, the published model is merged.
void sim_merge_begin(struct sim_node *node, bool gives)
{
    gossip_exchange_freeze(node->train.exchange);
    memcpy(node->train.vectors.model, gossip_exchange_model(node->train.exchange), model_bytes(node));
    BASE_ASSERT(!gossip_merge_begin(node->merge, node->train.vectors.model, gives, sim_node_now(node)));
    act(node);
}

void sim_merge_give_up(struct sim_node *node)
{
    finish(node);
}

void sim_merge_among(struct sim_node *node, const struct gossip_life_action *action)
{
    gossip_merge_members(node->merge, action->merging, action->count, sim_node_now(node));
    act(node);
}

void sim_merge_link(struct sim_node *node, size_t peer, bool up)
{
    if (!node->merge)
        return;
    if (up)
        gossip_merge_linked(node->merge, sim_member_id(node, peer), sim_node_now(node));
    else
        gossip_merge_unlinked(node->merge, sim_member_id(node, peer), sim_node_now(node));
}

void sim_merge_follow(struct sim_node *node)
{
    if (node->merge)
        act(node);
}

bool sim_merge_heard(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (!gossip_merge_is_of(message))
        return false;
    if (!node->merge)
        return true;
    if (gossip_merge_heard(node->merge, sim_member_id(node, peer), message, sim_node_now(node))) {
        SIM_TELL(node, refused, node, peer);
        sim_link_close(node, peer, GOSSIP_CLOSE_BROKEN);
    }
    act(node);
    return true;
}

uint64_t sim_merge_deadline(const struct sim_node *node)
{
    return node->merge ? gossip_merge_deadline(node->merge) : UINT64_MAX;
}

void sim_merge_tick(struct sim_node *node)
{
    gossip_merge_tick(node->merge, sim_node_now(node));
    act(node);
}
