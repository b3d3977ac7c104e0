// The life of a process (gossip/life) under virtual time: its inputs from membership and links, and the
// effects of its actions.
#include "lab/sim/sim_process.h"
#include <string.h>

#define START_TIMEOUT_NS (10 * SIM_SECOND)

// -- what it reads of its exchange

static size_t edges(const void *owner)
{
    const struct sim_node *node = owner;

    return node->train.exchange ? gossip_exchange_edges(node->train.exchange) : 0;
}

static void edge(const void *owner, size_t index, struct gossip_edge_info *info)
{
    gossip_exchange_edge_info(((const struct sim_node *)owner)->train.exchange, index, info);
}

struct gossip_life_edges sim_life_edges(const struct sim_node *node)
{
    return (struct gossip_life_edges){.owner = node, .count = edges, .at = edge};
}

// -- effects of its actions

static void end(struct sim_node *node, int status)
{
    if (status == GOSSIP_LIFE_ABANDONED) {
        node->world->counts.conflicts++;
        sim_world_trace(node->world, node->host, "conflict", NULL, 0, 0);
        SIM_TELL(node, conflict, node);
    } else {
        sim_link_leave(node);
        node->disk.starts--; // an intended end is not counted
    }
    node->status = status;
    node->stop = true;
}

static void order(struct sim_node *node, const struct gossip_life_action *action)
{
    const struct gossip_order given = gossip_life_order(action);

    sim_train_order(node, &given);
}

static void tell_shards(struct sim_node *node, const struct gossip_life_action *action)
{
    const struct sim_learner *learner = node->world->options.learner;

    if (learner->shards)
        learner->shards(learner->learner.owner, node->host, action->numbers, action->count);
}

static void carry_out(struct sim_node *node, const struct gossip_life_action *action)
{
    switch (action->kind) {
    case GOSSIP_LIFE_TELL:
        sim_world_trace(node->world, node->host, "news", NULL, action->notice, action->a);
        break;
    case GOSSIP_LIFE_FLAGS: // these three: gossip/host
    case GOSSIP_LIFE_ANNOUNCE:
    case GOSSIP_LIFE_LINKS:
        BASE_ASSERT(false);
        break;
    case GOSSIP_LIFE_GATHER: // no learner of the simulator gathers: README.md
        break;
    case GOSSIP_LIFE_DEPART:
        if (!node->world->options.known)
            sim_world_trace(node->world, node->host, "tell", NULL, GOSSIP_MEMBERSHIP_LEAVE, node->self);
        gossip_control_depart(node->control);
        break;
    case GOSSIP_LIFE_ASK:
    case GOSSIP_LIFE_AMONG:
    case GOSSIP_LIFE_NEWS:
    case GOSSIP_LIFE_END_FETCH:
    case GOSSIP_LIFE_FORGET:
        sim_average_order(node, action);
        break;
    case GOSSIP_LIFE_START:
        if (action->away) // its model moves towards the others', but not the others' towards its own
            SIM_TELL(node, lost, node);
        order(node, action);
        break;
    case GOSSIP_LIFE_SETTING:
    case GOSSIP_LIFE_FETCH_AGAIN:
    case GOSSIP_LIFE_PAUSE:
    case GOSSIP_LIFE_STOP_AT:
    case GOSSIP_LIFE_UNITE:
    case GOSSIP_LIFE_LEAVE:
    case GOSSIP_LIFE_ALONE:
        order(node, action);
        break;
    case GOSSIP_LIFE_SHARDS:
        tell_shards(node, action);
        break;
    case GOSSIP_LIFE_END:
        end(node, action->status);
        break;
    case GOSSIP_LIFE_MOVE: // the shards of simulated nodes are fixed
        BASE_ASSERT(false);
        break;
    }
}

void sim_life_act(struct sim_node *node, const struct gossip_life_action *action)
{
    node->life.acting = true;
    carry_out(node, action);
    node->life.acting = false;
}

// -- events

void sim_life_notice(struct sim_node *node)
{
    const enum gossip_life_state state = sim_life_state(node);

    if (state == node->life.seen || !node->life.rules)
        return;
    node->life.seen = state;
    sim_world_trace(node->world, node->host, "state", gossip_life_state_name(state), node->train.rounds.round,
                    0);
    SIM_TELL(node, phase, node);
}

// Events caused by an action are handled after all actions of its step.
void sim_life_tell(struct sim_node *node, struct gossip_life_event event)
{
    event.now_ns = sim_node_now(node);
    gossip_control_live(node->control, &event);
    if (!node->life.acting)
        sim_node_act(node, GOSSIP_CONTROL_LIFE_ONLY);
}

enum gossip_life_state sim_life_state(const struct sim_node *node)
{
    return node->life.rules ? gossip_life_state(node->life.rules) : GOSSIP_LIFE_ENDED;
}

bool sim_life_others(const struct sim_node *node)
{
    return node->life.rules && gossip_life_others(node->life.rules);
}

void sim_life_start(struct sim_node *node)
{
    const struct sim_options *o = &node->world->options;
    struct gossip_life_options options = o->life;
    options.self = *sim_member_id(node, node->self);
    options.trains = o->learner;
    options.resumed = node->train.resumed;
    options.sync = o->exchange.sync;
    options.local = o->local;
    options.alone_stops = o->learner && o->learner->alone;
    options.round = node->train.rounds.round;
    options.step = node->train.rounds.step;
    options.steps = o->steps;
    options.local_steps = o->local_steps ? o->local_steps : 1;
    options.reach = node->train.exchange ? gossip_exchange_reach(node->train.exchange) : 0;
    options.behind = node->train.exchange ? gossip_exchange_behind(node->train.exchange) : 0;
    options.start_timeout_ns = options.start_timeout_ns ? options.start_timeout_ns : START_TIMEOUT_NS;
    options.linger_ns = options.linger_ns ? options.linger_ns : UINT64_MAX;
    options.now_ns = sim_node_now(node);

    BASE_ASSERT(!gossip_control_begin(node->control, &options));
    node->life.rules = gossip_control_life(node->control);
    node->life.seen = gossip_life_state(node->life.rules);
}
