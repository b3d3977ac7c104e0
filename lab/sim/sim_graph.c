// From the view to a plan, from the plan to neighbours, from these and the links to edges.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
#include <string.h>

static void edge(struct sim_node *node, enum gossip_exchange_event_kind kind, size_t peer)
{
    struct gossip_exchange_event event = {.kind = kind, .peer = *sim_member_id(node, peer)};

    sim_train_event(node, &event);
}

// The edge to one peer follows its link and the view.
static void follow_peer(struct sim_node *node, size_t peer)
{
    struct sim_peer *at = &node->peer[peer];
    bool up = at->neighbour && at->link && node->exchange && !node->joiner && !node->world->options.local;

    if (at->neighbour)
        sim_link_want(node, peer);
    if (up == at->edge_up || !node->exchange)
        return;
    at->edge_up = up;
    edge(node, up ? GOSSIP_EXCHANGE_LINK_UP : GOSSIP_EXCHANGE_LINK_DOWN, peer);
}

static void find_neighbours(struct sim_node *node)
{
    size_t nodes = node->world->options.nodes, count = 0;

    node->plan_self = sim_plan_position(node->shared, sim_member_id(node, node->self));
    if (!node->neighbours)
        node->neighbours = sim_must(calloc(nodes, sizeof *node->neighbours));
    if (node->plan_self != SIZE_MAX)
        count = topology_plan_neighbours(node->plan, node->plan_self, node->neighbours, nodes);
    node->n_neighbours = count;
    for (size_t i = 0; i < count; i++) {
        node->neighbours[i] = node->view[node->neighbours[i]];
        node->peer[node->neighbours[i]].neighbour = true;
    }
}

// Edges to those who are neighbours no longer go down before others come up.
static void make_plan(struct sim_node *node)
{
    struct sim_plan *before = node->shared;
    size_t count, n_before = node->n_neighbours;
    size_t *neighbours = sim_copy(node->neighbours, n_before * sizeof *neighbours);
    const struct gossip_record *view = sim_member_view(node, &count);

    node->shared = sim_plans_take(node->world, view, count);
    sim_plans_drop(node->world, before);
    node->plan = node->shared->plan;
    node->view = node->shared->identity;
    node->n_view = count;
    for (size_t i = 0; i < n_before; i++)
        node->peer[neighbours[i]].neighbour = false;
    find_neighbours(node);
    sim_world_trace(node->world, node->host, "view", NULL, count, node->n_neighbours);
    SIM_TELL(node, plan, node);
    for (size_t i = 0; i < n_before; i++)
        if (!node->peer[neighbours[i]].neighbour)
            follow_peer(node, neighbours[i]);
    free(neighbours);
}

static void claim_slot(struct sim_node *node)
{
    struct gossip_member_info info;

    if (node->world->options.topology.kind != TOPOLOGY_BUTTERFLY || node->plan_self == SIZE_MAX)
        return;
    uint32_t slot = topology_plan_slot(node->plan, node->plan_self);
    if (sim_member_info(node, node->self, &info) && info.record->slot != slot)
        sim_member_slot(node, slot);
}

void sim_graph_follow(struct sim_node *node, bool view_changed)
{
    if (view_changed || !node->shared) {
        make_plan(node);
        claim_slot(node);
    }
    sim_link_want_none(node);
    for (size_t i = 0; i < node->n_neighbours; i++)
        follow_peer(node, node->neighbours[i]);
    for (size_t i = 0; i < node->n_kept; i++)
        sim_link_want(node, node->kept[i]);
    node->graph_changed |= view_changed;
    node->consider = true;
}

void sim_graph_stop(struct sim_node *node)
{
    sim_plans_drop(node->world, node->shared);
    free(node->neighbours);
    node->shared = NULL;
    node->plan = NULL;
    node->view = node->neighbours = NULL;
    node->n_view = node->n_neighbours = 0;
}

// In the view, and met no more.
static bool is_stranger(const struct sim_node *node, size_t peer)
{
    return !node->peer[peer].neighbour && node->plan_self != SIZE_MAX &&
           sim_plan_position(node->shared, sim_member_id(node, peer)) != SIZE_MAX;
}

bool sim_graph_has(const struct sim_node *node, size_t peer)
{
    return node->shared && sim_plan_position(node->shared, sim_member_id(node, peer)) != SIZE_MAX;
}

// Never seen since this process came back.
static bool is_gone(const struct sim_node *node, size_t peer)
{
    struct gossip_member_info member;

    return !sim_member_info(node, peer, &member) &&
           sim_node_now(node) - node->started_ns > node->world->options.forget_ns;
}

static void forget(struct sim_node *node, size_t peer, bool dead)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_FORGET, .peer = *sim_member_id(node, peer), .dead = dead};

    sim_world_trace(node->world, node->host, "forget", dead ? "dead" : "stranger", peer, 0);
    SIM_TELL(node, lost, node);
    sim_train_event(node, &event);
}

static bool has_part_of(const struct sim_node *node, size_t peer)
{
    struct gossip_edge_info info;
    const float *correction;
    struct gossip_id id;

    for (size_t i = gossip_exchange_edges(node->exchange); i-- > 0;) {
        gossip_exchange_edge_info(node->exchange, i, &info);
        if (gossip_id_compare(&info.peer, sim_member_id(node, peer)) == 0)
            return true;
    }
    for (size_t i = gossip_exchange_kept(node->exchange); i-- > 0;) {
        gossip_exchange_kept_at(node->exchange, i, &id, &correction);
        if (gossip_id_compare(&id, sim_member_id(node, peer)) == 0)
            return true;
    }
    return false;
}

void sim_graph_forget_dead(struct sim_node *node, size_t peer)
{
    if (has_part_of(node, peer))
        forget(node, peer, true);
}

// What a dead neighbour has left is dropped when it is back, elsewhere in the graph.
static void forget_returned(struct sim_node *node)
{
    for (size_t i = gossip_exchange_kept(node->exchange); i-- > 0;) {
        struct gossip_id id;
        const float *correction;
        gossip_exchange_kept_at(node->exchange, i, &id, &correction);
        size_t peer = sim_world_find(node->world, &id);
        if (is_stranger(node, peer))
            forget(node, peer, false);
    }
}

// Whose edges are no longer needed is known at a boundary only: while a view grows, neighbours come and go.
void sim_graph_forget(struct sim_node *node)
{
    for (size_t i = gossip_exchange_edges(node->exchange); i-- > 0;) {
        struct gossip_edge_info info;
        gossip_exchange_edge_info(node->exchange, i, &info);
        size_t peer = sim_world_find(node->world, &info.peer);
        bool gone = is_gone(node, peer);
        if (gone || (node->graph_changed && is_stranger(node, peer)))
            forget(node, peer, gone);
    }
    if (node->graph_changed)
        forget_returned(node);
    node->graph_changed = false;
}
