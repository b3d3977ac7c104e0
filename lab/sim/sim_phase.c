// From joining to leaving: when a process counts in the graph, how a late one comes by a model, when it
// begins to train, and when it goes.
#include "lab/sim/sim_process.h"
#include <stdlib.h>

#define START_TIMEOUT_NS (10 * SIM_SECOND)
#define EDGES_NS         (5 * SIM_SECOND) // how long edges are waited for where others train already
#define ALONE_NS         (5 * SIM_SECOND) // nobody is found: the first of a new cluster
#define PATIENCE_NS      (5 * SIM_SECOND) // with a donor, who answers at its next boundary
#define TELL_NS          (400 * SIM_MS)   // how long others are told that this process leaves

void sim_phase_enter(struct sim_node *node, enum sim_phase phase)
{
    node->phase = phase;
    SIM_TELL(node, phase, node);
}

static void stop_joiner(struct sim_node *node)
{
    gossip_joiner_destroy(node->joiner);
    free(node->donates);
    node->joiner = NULL;
    node->donates = NULL;
}

void sim_phase_stop(struct sim_node *node)
{
    if (node->joiner)
        stop_joiner(node);
}

void sim_phase_freeze(struct sim_node *node)
{
    // What came in since the boundary is in the published model only.
    float *model = (float *)(uintptr_t)gossip_exchange_model(node->exchange);
    const struct gossip_snapshot_vectors vectors = {
        .part = {model, node->vectors.outer, node->vectors.second_moment},
        .round = node->round,
        .step = node->step};
    struct gossip_message answer;
    struct gossip_id id;

    if (!gossip_donor_wants(node->donor))
        return;
    if (gossip_donor_freeze(node->donor, &vectors, sim_node_now(node)) != BASE_OK)
        sim_world_break(node->world, node->host, "a donor's model could not be frozen");
    while (gossip_donor_waiting(node->donor, &id, &answer))
        sim_link_send(node, sim_world_find(node->world, &id), &answer);
}

void sim_phase_ask(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_message answer;
    bool answered = false;

    if (!node->exchange || node->joiner ||
        gossip_donor_ask(node->donor, sim_member_id(node, peer), &message->as.ask, sim_node_now(node),
                         &answer, &answered) != BASE_OK)
        return;
    if (answered)
        sim_link_send(node, peer, &answer);
    if (!node->in_round && !node->stepping)
        sim_phase_freeze(node);
}

static bool is_donor(const struct sim_node *node, size_t peer)
{
    const uint8_t complete = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING; // held out, or not begun yet
    struct gossip_member_info info;

    return peer != node->self && sim_member_info(node, peer, &info) && info.state == GOSSIP_MEMBER_ALIVE &&
           (info.record->flags & complete);
}

// Links to some who could give: the lowest identities behind this node's.
static void want_donors(struct sim_node *node)
{
    size_t nodes = node->world->options.nodes;

    for (size_t i = 1, wanted = 0; node->phase == SIM_FETCHING && i < nodes && wanted < 3; i++) {
        size_t peer = (node->self + i) % nodes;
        if (is_donor(node, peer)) {
            sim_link_want(node, peer);
            wanted++;
        }
    }
}

static void tell_donors(struct sim_node *node)
{
    for (size_t i = 0; node->joiner && i < node->world->options.nodes; i++) {
        bool donates = node->peer[i].link && is_donor(node, i);
        if (donates && !node->donates[i])
            gossip_joiner_donor_up(node->joiner, sim_member_id(node, i), sim_node_now(node));
        else if (!donates && node->donates[i])
            gossip_joiner_donor_down(node->joiner, sim_member_id(node, i), sim_node_now(node));
        node->donates[i] = donates;
    }
}

void sim_phase_donors(struct sim_node *node)
{
    want_donors(node);
    tell_donors(node);
}

static void fetch(struct sim_node *node)
{
    struct gossip_message message;
    struct gossip_id id;
    uint64_t round, step;

    while (node->joiner && gossip_joiner_next(node->joiner, sim_node_now(node), &id, &message))
        sim_link_send(node, sim_world_find(node->world, &id), &message);
    if (!node->joiner || !gossip_joiner_complete(node->joiner, &round, &step))
        return;
    stop_joiner(node);
    node->round = round;
    node->step = step;
    node->origin = SIM_FROM_SNAPSHOT;
    if (node->exchange)
        sim_train_adopt(node);
    sim_phase_enter(node, SIM_READY);
    node->world->counts.fetches++;
    sim_world_trace(node->world, node->host, "fetched", NULL, round, 0);
}

void sim_phase_told(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (node->joiner && gossip_joiner_tell(node->joiner, sim_member_id(node, peer), &message->as.tell,
                                           sim_node_now(node)) != BASE_OK)
        SIM_TELL(node, refused, node, peer);
    fetch(node);
}

static void begin_fetch(struct sim_node *node)
{
    struct gossip_joiner_options options = {.parameters = node->world->options.learner->parameters,
                                            .into = &node->into,
                                            .patience_ns = PATIENCE_NS,
                                            .seed = base_rng_u64(&node->rng)};

    node->into = (struct gossip_snapshot_vectors){
        .part = {node->vectors.model, node->vectors.outer, node->vectors.second_moment}};
    node->donates = sim_must(calloc(node->world->options.nodes, sizeof *node->donates));
    BASE_ASSERT(gossip_joiner_create(&options, &node->joiner) == BASE_OK);
    sim_phase_enter(node, SIM_FETCHING);
    node->links_changed = true;
}

// Linked, and both ends have compared what they hold.
static bool edge_is_live(const struct sim_node *node, size_t peer)
{
    for (size_t i = 0; i < gossip_exchange_edges(node->exchange); i++) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->exchange, i, &info);
        if (gossip_id_compare(&info.peer, sim_member_id(node, peer)) == 0)
            return info.state == GOSSIP_EDGE_LIVE;
    }
    return false;
}

static bool edges_are_live(const struct sim_node *node)
{
    for (size_t i = 0; i < node->n_neighbours && !node->world->options.local; i++)
        if (!edge_is_live(node, node->neighbours[i]))
            return false;
    return true;
}

// As in the daemon: those who are expected, and edges to all neighbours; where others train already nobody
// else is waited for, and edges not for long.
static bool may_begin(const struct sim_node *node, const struct sim_census *census)
{
    const struct sim_options *options = &node->world->options;
    uint64_t patience_ns = options->start_timeout_ns ? options->start_timeout_ns : START_TIMEOUT_NS;
    uint64_t waited_ns = sim_node_now(node) - node->started_ns;

    if (waited_ns > patience_ns)
        return true;
    if (node->plan_self == SIZE_MAX || (node->n_view < options->start_members && !census->training))
        return false;
    return edges_are_live(node) || (census->training && waited_ns >= EDGES_NS);
}

static void join(struct sim_node *node, const struct sim_census *census)
{
    uint64_t age_ns = sim_node_now(node) - node->started_ns;

    if (!census->here && !node->resumed && age_ns <= ALONE_NS)
        return;
    if (node->world->options.learner && census->training && !node->resumed)
        begin_fetch(node);
    else
        sim_phase_enter(node, SIM_READY);
}

static bool has_donor(const struct sim_node *node)
{
    for (size_t i = 0; i < node->world->options.nodes; i++)
        if (is_donor(node, i))
            return true;
    return false;
}

// It was away, and has nothing to add to what all others have come to: it takes their model instead of what a
// checkpoint held. Meanwhile it counts, so that they stay.
static bool comes_too_late(const struct sim_node *node, const struct sim_census *census)
{
    return node->world->options.learner->alone && node->origin != SIM_FROM_SNAPSHOT &&
           sim_census_is_alone(census) && has_donor(node);
}

static void get_ready(struct sim_node *node, const struct sim_census *census)
{
    bool learns = node->world->options.learner;

    if (!node->exchange) {
        sim_member_flags(node, GOSSIP_RECORD_ELIGIBLE);
        if (learns)
            sim_train_publish(node);
        else
            sim_phase_enter(node, SIM_TRAINING);
    }
    node->consider = false;
    if (!learns || !may_begin(node, census))
        return;
    if (comes_too_late(node, census)) {
        begin_fetch(node);
        sim_graph_follow(node, false); // its edges go down
        return;
    }
    sim_member_flags(node, GOSSIP_RECORD_TRAINING);
    sim_phase_enter(node, SIM_TRAINING);
    sim_train_begin(node);
}

static void linger(struct sim_node *node, const struct sim_census *census)
{
    uint64_t linger_ns = node->world->options.linger_ns;
    bool late = linger_ns && sim_node_now(node) - node->train_ns >= linger_ns;

    if (census->busy > 0 && !late)
        return;
    node->leaving = true;
    sim_train_leave(node);
}

void sim_phase_leave(struct sim_node *node)
{
    sim_phase_enter(node, SIM_LEFT);
    sim_member_tell(node, GOSSIP_MEMBERSHIP_LEAVE, node->self);
    node->phase_ns = sim_node_now(node) + TELL_NS;
}

static void go(struct sim_node *node)
{
    for (size_t i = 0; i < node->world->options.nodes; i++)
        sim_link_close(node, i, "leaving");
    node->stop = true;
}

void sim_phase_tick(struct sim_node *node)
{
    if (node->phase == SIM_LEFT) {
        go(node);
        return;
    }
    const struct sim_census census = sim_member_census(node);
    if (node->phase == SIM_JOINING)
        join(node, &census);
    if (node->phase == SIM_FETCHING) {
        node->links_changed = true; // who can give may have changed
        fetch(node);
        if (node->joiner && node->exchange && !has_donor(node))
            sim_phase_leave(node); // they are gone, and half a model is none
    }
    if (node->phase == SIM_READY)
        get_ready(node, &census);
    else if (node->phase == SIM_FINISHED)
        linger(node, &census);
}
