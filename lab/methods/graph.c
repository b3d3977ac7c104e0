#include "lab/methods/graph.h"

#include <stdlib.h>

static enum base_error no_memory(struct base_reason *why, size_t n)
{
    return base_fail(why, BASE_ENOMEM, "no memory for the graph of %zu nodes", n);
}

static int compare_numbers(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return a < b ? -1 : a > b;
}

void rounds_edges_free(struct rounds_edges *edges)
{
    free(edges->first);
    free(edges->peers);
    *edges = (struct rounds_edges){0};
}

bool rounds_edges_join(const struct rounds_edges *edges, size_t a, size_t b)
{
    return bsearch(&b, edges->peers + edges->first[a], rounds_edges_degree(edges, a), sizeof *edges->peers,
                   compare_numbers) != NULL;
}

double rounds_edges_metropolis(const struct rounds_edges *edges, size_t a, size_t b)
{
    size_t of_a = rounds_edges_degree(edges, a), of_b = rounds_edges_degree(edges, b);
    return 1.0 / (1.0 + (double)(of_a > of_b ? of_a : of_b));
}

static size_t count_peers(const struct rounds_graph *graph, struct rounds_edges *edges)
{
    size_t nobody[1], total = 0;
    for (size_t i = 0; i < graph->n; i++) {
        edges->first[i] = total;
        if (graph->member[i] != TOPOLOGY_NOBODY)
            total += topology_plan_neighbours(graph->plan, graph->member[i], nobody, 0);
    }
    edges->first[graph->n] = total;
    return total;
}

static void list_peers(const struct rounds_graph *graph, size_t node, struct rounds_edges *edges)
{
    size_t *peers = edges->peers + edges->first[node], degree = rounds_edges_degree(edges, node);
    if (!degree)
        return;
    topology_plan_neighbours(graph->plan, graph->member[node], peers, degree);
    for (size_t k = 0; k < degree; k++)
        peers[k] = graph->node[peers[k]];
    qsort(peers, degree, sizeof *peers, compare_numbers);
}

static enum base_error make_edges(const struct rounds_graph *graph, struct rounds_edges *edges)
{
    *edges = (struct rounds_edges){.first = malloc((graph->n + 1) * sizeof *edges->first)};
    size_t total = edges->first ? count_peers(graph, edges) : 0;
    if (edges->first && total > ROUNDS_PEERS_MAX)
        return BASE_OK;
    edges->peers = edges->first ? malloc((total + 1) * sizeof *edges->peers) : NULL;
    for (size_t i = 0; edges->peers && i < graph->n; i++)
        list_peers(graph, i, edges);
    return edges->peers ? BASE_OK : BASE_ENOMEM;
}

enum base_error rounds_graph_create(const struct lab_experiment *e, struct rounds_graph *graph,
                                    struct base_reason *why)
{
    struct node_config view;
    size_t n = e->experiment.nodes;
    lab_experiment_view(e, &view);
    struct rounds_edges none;
    struct rounds_graph g = {.n = n};
    g.topology = (struct lab_topology){
        .options = {.kind = (enum topology_kind)view.topology.kind,
                    .seed = view.topology.seed,
                    .rings = (unsigned)view.topology.rings,
                    .base_k = (unsigned)view.topology.base_k},
        .n = n,
        .group_size = e->experiment.group_size ? (size_t)e->experiment.group_size : 1,
    };
    bool file = view.topology.kind == TOPOLOGY_FILE;
    bool *gone = calloc(n, sizeof *gone);
    g.member = malloc(n * sizeof *g.member);
    g.node = malloc(n * sizeof *g.node);
    g.partner = malloc(n * sizeof *g.partner);
    g.weight = malloc(n * sizeof *g.weight);
    enum base_error error = gone && g.member && g.node && g.partner && g.weight ? BASE_OK : no_memory(why, n);
    if (!error)
        error = lab_topology_make(&g.topology, file ? view.topology.file : NULL, why);
    if (!error)
        error = rounds_graph_rewire(&g, gone, &none, why);
    free(gone);
    if (error)
        rounds_graph_drop(&g);
    *graph = g;
    return error;
}

void rounds_graph_drop(struct rounds_graph *graph)
{
    topology_plan_destroy(graph->plan);
    lab_topology_drop(&graph->topology);
    free(graph->member);
    free(graph->node);
    rounds_edges_free(&graph->edges);
    free(graph->partner);
    free(graph->weight);
    *graph = (struct rounds_graph){0};
}

// members: [n]
static enum base_error make_plan(struct rounds_graph *graph, const bool *gone,
                                 struct topology_member *members, struct topology_plan **plan)
{
    graph->living = 0;
    for (size_t i = 0; i < graph->n; i++) {
        graph->member[i] = TOPOLOGY_NOBODY;
        if (gone[i])
            continue;
        graph->node[graph->living] = i;
        graph->member[i] = graph->living;
        members[graph->living++] = graph->topology.members[i];
    }
    return topology_plan_create(&graph->topology.options, members, graph->living, plan);
}

enum base_error rounds_graph_rewire(struct rounds_graph *graph, const bool *gone, struct rounds_edges *before,
                                    struct base_reason *why)
{
    struct topology_plan *plan = NULL;
    struct rounds_edges edges = {0};
    struct topology_member *members = calloc(graph->n + 1, sizeof *members);
    enum base_error error = members ? make_plan(graph, gone, members, &plan) : BASE_ENOMEM;
    free(members);
    if (error)
        return base_fail(why, error, "no plan of %zu nodes: %s", graph->living, base_error_name(error));
    topology_plan_destroy(graph->plan);
    graph->plan = plan;
    error = make_edges(graph, &edges);
    if (error) {
        rounds_edges_free(&edges);
        return no_memory(why, graph->n);
    }
    *before = graph->edges;
    graph->edges = edges;
    return BASE_OK;
}

void rounds_graph_list(struct rounds_graph *graph, uint64_t round)
{
    for (size_t i = 0; i < graph->n; i++) {
        size_t member = graph->member[i], partner = TOPOLOGY_NOBODY;
        if (member != TOPOLOGY_NOBODY)
            partner = topology_plan_partner(graph->plan, member, round);
        bool meets = partner != TOPOLOGY_NOBODY;
        graph->partner[i] = meets ? graph->node[partner] : TOPOLOGY_NOBODY;
        graph->weight[i] = meets ? topology_plan_weight(graph->plan, member, round) : 0;
    }
}
