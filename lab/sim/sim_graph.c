// Carries out the decisions of gossip/graph about the view and the links of a process.
#include "lab/sim/sim_process.h"

void sim_graph_start(struct sim_node *node)
{
    const bool trains = node->world->options.learner;

    BASE_ASSERT(!gossip_edges_create(node->world->options.local || !trains, &node->graph.edges));
}

void sim_graph_stop(struct sim_node *node)
{
    sim_plans_drop(node->world, node->graph.plan);
    gossip_edges_destroy(node->graph.edges);
    node->graph.plan = NULL;
    node->graph.edges = NULL;
}

const struct gossip_graph *sim_graph(const struct sim_node *node)
{
    return node->graph.edges ? gossip_edges_graph(node->graph.edges) : NULL;
}

size_t sim_graph_neighbour(const struct sim_node *node, size_t index)
{
    return sim_world_find(node->world, gossip_graph_neighbour(sim_graph(node), index));
}

void sim_graph_take_view(struct sim_node *node)
{
    struct sim_plan *before = node->graph.plan;
    struct gossip_graph *graph;
    size_t count;
    const struct gossip_record *view = gossip_control_view(node->control, &count);

    node->graph.plan = sim_plans_take(node->world, view, count);
    BASE_ASSERT(!gossip_control_plan(node->control, node->graph.plan->plan, &graph));
    sim_plans_drop(node->world, before);
    gossip_edges_follow(node->graph.edges, graph);
    sim_world_trace(node->world, node->host, "view", NULL, count, gossip_graph_neighbours(graph));
    SIM_TELL(node, plan, node);
}

void sim_graph_follow(struct sim_node *node)
{
    struct gossip_edge_change change;

    gossip_edges_fetching(node->graph.edges, node->fetch.joiner || node->train.returns);
    while (gossip_edges_next(node->graph.edges, &change)) {
        struct gossip_exchange_event event = {.kind = change.up ? GOSSIP_EXCHANGE_LINK_UP
                                                                : GOSSIP_EXCHANGE_LINK_DOWN,
                                              .peer = change.peer,
                                              .unmet = change.unmet};
        sim_train_event(node, &event);
    }
    sim_merge_follow(node);
}

static void forget(struct sim_node *node, const struct gossip_id *peer, bool dead)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = *peer, .dead = dead};

    sim_world_trace(node->world, node->host, "forget", dead ? "dead" : "stranger",
                    sim_world_find(node->world, peer), 0);
    SIM_TELL(node, lost, node);
    sim_train_event(node, &event);
}

static bool has_part_of(const struct sim_node *node, const struct gossip_id *peer)
{
    struct gossip_edge_info info;

    for (size_t i = gossip_exchange_edges(node->train.exchange); i-- > 0;) {
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        if (gossip_id_compare(&info.peer, peer) == 0)
            return true;
    }
    for (size_t i = gossip_exchange_orphans(node->train.exchange); i-- > 0;) {
        const struct gossip_orphan_record kept = gossip_exchange_orphan_at(node->train.exchange, i);
        if (gossip_id_compare(&kept.peer, peer) == 0)
            return true;
    }
    return false;
}

void sim_graph_forget_dead(struct sim_node *node, const struct gossip_id *peer)
{
    if (node->train.exchange && has_part_of(node, peer))
        forget(node, peer, true);
}

void sim_graph_forget(struct sim_node *node)
{
    struct gossip_id peer;

    while (gossip_edges_forget(node->graph.edges, node->train.exchange, &peer))
        forget(node, &peer, false);
}
