// The view of a process and its place in it.
#include "lab/sim/sim_process.h"

void sim_graph_stop(struct sim_node *node)
{
    sim_plans_drop(node->world, node->graph.plan);
    node->graph.plan = NULL;
}

const struct gossip_graph *sim_graph(const struct sim_node *node)
{
    return node->control ? gossip_control_graph(node->control) : NULL;
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
    if (node->average)
        gossip_average_view(node->average, gossip_graph_keep(graph));
    sim_world_trace(node->world, node->host, "view", NULL, count, gossip_graph_neighbours(graph));
    gossip_graph_drop(graph);
    SIM_TELL(node, plan, node);
}
