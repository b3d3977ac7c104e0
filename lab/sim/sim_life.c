// The life of a process (gossip/life) under virtual time: its inputs from membership and links, and the
// effects of its actions.
#include "lab/sim/sim_process.h"
#include <string.h>

#define START_TIMEOUT_NS (10 * SIM_SECOND)

// -- inputs of the life

static size_t members(const void *owner)
{
    return sim_member_count(owner);
}

static void member(const void *owner, size_t index, struct gossip_member_info *info)
{
    sim_member_at(owner, index, info);
}

static bool linked(const void *owner, const struct gossip_id *id)
{
    const struct sim_node *node = owner;

    return node->peer[sim_world_find(node->world, id)].link;
}

static bool listed(const void *owner, const struct gossip_id *peer)
{
    const struct sim_node *node = owner;

    for (size_t i = 0; i < node->entries; i++) {
        const struct gossip_entry *entry = gossip_links_entry(node->links.rules, i);
        if (entry->known && gossip_id_compare(&entry->id, peer) == 0)
            return true;
    }
    return false;
}

static size_t edges(const void *owner)
{
    const struct sim_node *node = owner;

    return node->train.exchange ? gossip_exchange_edges(node->train.exchange) : 0;
}

static bool edge(const void *owner, size_t index, struct gossip_id *peer)
{
    struct gossip_edge_info info;

    gossip_exchange_edge_info(((const struct sim_node *)owner)->train.exchange, index, &info);
    *peer = info.peer;
    return (info.state == GOSSIP_EDGE_LIVE || info.begins) && !info.silent;
}

static bool apart(const void *owner, size_t index, uint64_t scaling[2])
{
    struct gossip_edge_info info;

    gossip_exchange_edge_info(((const struct sim_node *)owner)->train.exchange, index, &info);
    if (!info.other_scaling)
        return false;
    scaling[0] = info.scaling;
    scaling[1] = info.other_scaling;
    return true;
}

static void self(const void *owner, struct gossip_life_self *self)
{
    const struct sim_node *node = owner;
    const struct gossip_life_edges known = {.owner = node, .count = edges, .at = edge, .apart = apart};

    *self = (struct gossip_life_self){.links_ended = true}; // links end with the process
    if (!node->world->options.known)
        gossip_life_see_membership(self, node->member.membership);
    gossip_life_see_graph(self, sim_graph(node), &known);
    for (size_t i = 0; i < node->entries; i++)
        if (node->entry[i] != node->host)
            gossip_life_see_entry(self, sim_graph(node), gossip_links_entry(node->links.rules, i));
}

static void census(const void *owner, struct gossip_life_census *census)
{
    sim_known_census(owner, census);
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
    node->stop = true;
}

static void want_links(struct sim_node *node, const struct gossip_life_action *action)
{
    node->life.n_kept = action->count;
    for (size_t i = 0; i < action->count; i++)
        node->life.kept[i] = action->ids[i];
    node->news.links_changed = true;
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

static void set_flags(struct sim_node *node, const struct gossip_life_action *action)
{
    sim_member_flags(node, action->set, action->clear);
    if (!((action->set | action->clear) & GOSSIP_RECORD_TRAINING))
        return;
    node->life.trains = action->set & GOSSIP_RECORD_TRAINING;
    sim_graph_claim_slot(node);
}

static void act(struct sim_node *node, const struct gossip_life_action *action)
{
    switch (action->kind) {
    case GOSSIP_LIFE_FLAGS:
        set_flags(node, action);
        break;
    case GOSSIP_LIFE_ANNOUNCE:
        sim_member_stop_at(node, action->round);
        break;
    case GOSSIP_LIFE_TELL:
        sim_world_trace(node->world, node->host, "news", NULL, action->notice, action->a);
        break;
    case GOSSIP_LIFE_LINKS:
        want_links(node, action);
        break;
    case GOSSIP_LIFE_GATHER: // no learner of the simulator gathers: README.md
        break;
    case GOSSIP_LIFE_DEPART:
        sim_member_tell(node, GOSSIP_MEMBERSHIP_LEAVE, node->self);
        break;
    case GOSSIP_LIFE_ASK:
        sim_fetch_donors(node, action);
        break;
    case GOSSIP_LIFE_NEWS:
        sim_train_news(node, action);
        break;
    case GOSSIP_LIFE_END_FETCH:
        sim_train_fetched(node, false, 0, 0);
        break;
    case GOSSIP_LIFE_FORGET:
        sim_graph_forget_dead(node, &action->peer);
        break;
    case GOSSIP_LIFE_START:
        if (action->away) // its model moves towards the others', but not the others' towards its own
            SIM_TELL(node, lost, node);
        order(node, action);
        break;
    case GOSSIP_LIFE_FETCH_AGAIN:
    case GOSSIP_LIFE_PAUSE:
    case GOSSIP_LIFE_STOP_AT:
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

// -- events

static struct gossip_life_world world_of(const struct sim_node *node, struct gossip_life_edges *known)
{
    *known = (struct gossip_life_edges){.owner = node, .count = edges, .at = edge, .apart = apart};
    return (struct gossip_life_world){.owner = node,
                                      .edges = known,
                                      .members = members,
                                      .member = member,
                                      .linked = linked,
                                      .listed = listed,
                                      .self = self,
                                      .census = node->world->options.known ? census : NULL};
}

bool sim_life_keeps_graph(const struct sim_node *node)
{
    struct gossip_life_edges known;
    const struct gossip_life_world world = world_of(node, &known);

    return gossip_life_keeps_graph(node->life.rules, &world);
}

static void step(struct sim_node *node, const struct gossip_life_event *event)
{
    struct gossip_life_edges known;
    const struct gossip_life_world world = world_of(node, &known);
    const enum gossip_life_state before = gossip_life_state(node->life.rules);
    struct gossip_life_action action;

    node->news.consider = false;
    gossip_life_step(node->life.rules, event, &world);
    if (gossip_life_state(node->life.rules) != before) {
        sim_world_trace(node->world, node->host, "state",
                        gossip_life_state_name(gossip_life_state(node->life.rules)), node->train.rounds.round,
                        0);
        SIM_TELL(node, phase, node);
    }
    while (gossip_life_next(node->life.rules, &action))
        act(node, &action);
}

// Events caused by an action are handled after all actions of its step.
void sim_life_tell(struct sim_node *node, struct gossip_life_event event)
{
    if (!node->life.rules)
        return;
    event.now_ns = sim_node_now(node);
    if (event.kind == GOSSIP_LIFE_PROGRESS || (event.kind == GOSSIP_LIFE_FETCHED && event.ok))
        sim_member_progress(node);
    BASE_ASSERT(node->life.n_events < SIM_LIFE_EVENTS);
    node->life.event[node->life.n_events++] = event;
    if (node->life.n_events > 1)
        return;
    for (size_t i = 0; i < node->life.n_events; i++)
        step(node, &node->life.event[i]);
    node->life.n_events = 0;
}

// Only a look puts off the next one: if every event did, short rounds would put it off for ever.
void sim_life_look(struct sim_node *node)
{
    node->life.look_ns = sim_node_now(node) + SIM_LOOK_NS;
    if (!node->life.n_events)
        sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_LOOK});
}

enum gossip_life_state sim_life_state(const struct sim_node *node)
{
    return node->life.rules ? gossip_life_state(node->life.rules) : GOSSIP_LIFE_ENDED;
}

// Also wakes for inputs that change without an event: answers of members, rounds of other nodes.
uint64_t sim_life_deadline(const struct sim_node *node)
{
    if (!node->life.rules)
        return UINT64_MAX;
    const uint64_t due_ns = gossip_life_deadline(node->life.rules);
    const bool rests = !node->world->options.learner && sim_life_state(node) == GOSSIP_LIFE_WAITING;

    return rests || due_ns < node->life.look_ns ? due_ns : node->life.look_ns;
}

bool sim_life_others(const struct sim_node *node)
{
    return node->life.rules && gossip_life_others(node->life.rules);
}

bool sim_life_waits(const struct sim_node *node)
{
    const enum gossip_life_state state = sim_life_state(node);

    return state == GOSSIP_LIFE_WAITING || state == GOSSIP_LIFE_PAUSED || state == GOSSIP_LIFE_FETCHING;
}

void sim_life_start(struct sim_node *node)
{
    const struct sim_options *o = &node->world->options;
    const struct gossip_life_options options = {
        .self = *sim_member_id(node, node->self),
        .trains = o->learner,
        .resumed = node->train.resumed,
        .sync = o->exchange.sync,
        .local = o->local,
        .alone_stops = o->learner && o->learner->alone,
        .round = node->train.rounds.round,
        .step = node->train.rounds.step,
        .steps = o->steps,
        .local_steps = o->local_steps ? o->local_steps : 1,
        .reach = node->train.exchange ? gossip_exchange_reach(node->train.exchange) : 0,
        .start_members = o->start_members,
        .partition = o->partition,
        .start_timeout_ns = o->start_timeout_ns ? o->start_timeout_ns : START_TIMEOUT_NS,
        .linger_ns = o->linger_ns ? o->linger_ns : UINT64_MAX,
        .forget_after_ns = o->forget_ns,
        .shards = o->takeover_ns ? (uint32_t)o->nodes : 0,
        .takeover_after_ns = o->takeover_ns ? o->takeover_ns : UINT64_MAX,
        .now_ns = sim_node_now(node)};

    node->life.look_ns = options.now_ns;
    sim_member_progress(node);
    node->life.n_events = node->life.n_kept = 0;
    BASE_ASSERT(!gossip_life_create(&options, &node->life.rules));
}

void sim_life_stop(struct sim_node *node)
{
    gossip_life_destroy(node->life.rules);
    node->life.rules = NULL;
    node->life.n_events = 0;
    node->life.trains = false;
}
