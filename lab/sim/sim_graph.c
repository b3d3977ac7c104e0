// From the view to a plan, from the plan to edges.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
#include <string.h>

static void make_plan(struct sim_node *node)
{
    size_t count, nodes = node->world->options.nodes, n_neighbours = 0;
    const struct gossip_record *view = gossip_membership_view(node->membership, &count);
    struct topology_member *member = sim_must(calloc(count + 1, sizeof *member));
    size_t *neighbours = sim_must(calloc(nodes, sizeof *neighbours));

    topology_plan_destroy(node->plan);
    free(node->view);
    node->plan = NULL;
    node->plan_self = SIZE_MAX;
    node->n_view = count;
    node->view = sim_must(calloc(count + 1, sizeof *node->view));
    for (size_t i = 0; i < count; i++) {
        memcpy(member[i].name, view[i].name, sizeof member[i].name);
        memcpy(member[i].id, view[i].id.bytes, sizeof member[i].id);
        member[i].slot = view[i].slot;
        node->view[i] = sim_world_find(node->world, &view[i].id);
        member[i].group = view[i].group;
        if (node->view[i] == node->self)
            node->plan_self = i;
    }
    BASE_ASSERT(topology_plan_create(&node->world->options.topology, member, count, &node->plan) == BASE_OK);
    free(member);
    if (node->plan_self != SIZE_MAX)
        n_neighbours = topology_plan_neighbours(node->plan, node->plan_self, neighbours, nodes);
    for (size_t i = 0; i < nodes; i++)
        node->peer[i].neighbour = false;
    for (size_t i = 0; i < n_neighbours; i++)
        node->peer[node->view[neighbours[i]]].neighbour = true;
    free(neighbours);
    sim_world_trace(node->world, node->host, "view", NULL, count, n_neighbours);
    SIM_TELL(node, plan, node);
}

static void claim_slot(struct sim_node *node)
{
    struct gossip_member_info info;

    if (node->world->options.topology.kind != TOPOLOGY_BUTTERFLY || node->plan_self == SIZE_MAX ||
        !node->plan)
        return;
    uint32_t slot = topology_plan_slot(node->plan, node->plan_self);
    if (sim_member_info(node, node->self, &info) && info.record->slot != slot)
        gossip_membership_slot(node->membership, slot);
}

static void edge(struct sim_node *node, enum gossip_exchange_event_kind kind, const struct gossip_id *peer)
{
    struct gossip_exchange_event event = {.kind = kind, .peer = *peer};

    sim_train_event(node, &event);
}

void sim_graph_follow(struct sim_node *node)
{
    make_plan(node);
    claim_slot(node);
    for (size_t i = 0; i < node->world->options.nodes; i++) {
        struct sim_peer *at = &node->peer[i];
        bool missing = at->neighbour && !at->link;
        at->wanted = at->neighbour;
        if (missing && !at->calling)
            node->tick_ns = sim_node_now(node);
        bool up = at->neighbour && at->link && node->exchange;
        if (up == at->edge_up || !node->exchange)
            continue;
        at->edge_up = up;
        edge(node, up ? GOSSIP_EXCHANGE_LINK_UP : GOSSIP_EXCHANGE_LINK_DOWN, sim_member_id(node, i));
    }
    sim_phase_donors(node);
    node->graph_changed = true;
}

// Whose edges are no longer needed is known at a boundary only.
void sim_graph_forget(struct sim_node *node)
{
    uint64_t now_ns = sim_node_now(node), forget_ns = node->world->options.forget_ns;

    for (size_t i = gossip_exchange_edges(node->exchange); i-- > 0;) {
        struct gossip_edge_info info;
        struct gossip_member_info member;
        gossip_exchange_edge_info(node->exchange, i, &info);
        size_t peer = sim_world_find(node->world, &info.peer);
        const struct sim_peer *at = &node->peer[peer];
        bool in_view = false, known = sim_member_info(node, peer, &member);
        for (size_t k = 0; k < node->n_view; k++)
            in_view |= node->view[k] == peer;
        bool stranger = in_view && !at->neighbour && node->graph_changed && node->plan_self != SIZE_MAX;
        bool dead = known && at->dead_ns && now_ns - at->dead_ns > forget_ns;
        bool absent = !known && now_ns - node->started_ns > forget_ns;
        if (!stranger && !dead && !absent)
            continue;
        sim_world_trace(node->world, node->host, "forget", dead ? "dead" : "stranger", peer, 0);
        SIM_TELL(node, lost, node);
        edge(node, GOSSIP_EXCHANGE_FORGET, &info.peer);
    }
    node->graph_changed = false;
}

void sim_graph_stop(struct sim_node *node)
{
    topology_plan_destroy(node->plan);
    free(node->view);
    node->plan = NULL;
    node->view = NULL;
    node->n_view = 0;
}
