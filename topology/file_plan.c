// The plan of a graph from a file, how it closes around absent members, and other functions of the graph.
#include "base/hash.h"
#include "topology/file_private.h"
#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>

enum base_error topology_graph_widest(const struct topology_graph *graph, size_t *node, size_t *degree)
{
    size_t *count = calloc(graph->n + 1, sizeof *count), widest = 0;
    if (!count)
        return BASE_ENOMEM;
    for (size_t i = 0; i < graph->n_edges; i++) {
        count[graph->edges[i].from]++;
        count[graph->edges[i].to]++;
    }
    for (size_t i = 1; i < graph->n; i++)
        widest = count[i] > count[widest] ? i : widest;
    *node = widest;
    *degree = count[widest] / graph->directions;
    free(count);
    return BASE_OK;
}

uint64_t topology_graph_hash(const struct topology_graph *graph)
{
    uint64_t hash = 0x6772617068ull;
    for (size_t i = 0; i < graph->n_edges; i++) {
        const uint32_t ends[2] = {graph->edges[i].from, graph->edges[i].to};
        for (size_t end = 0; end < 2; end++)
            hash = base_hash_bytes(hash, graph->names[ends[end]], strlen(graph->names[ends[end]]));
    }
    return hash;
}

// at[node]: the position of its member, or TOPOLOGY_NO_NODE if the member is absent. A member that the file
// does not name meets no other; of several members with one name, the one with the lowest id has its place.
static void place(const struct topology_plan *plan, const struct topology_member *members,
                  const struct topology_graph *graph, uint32_t *at)
{
    memset(at, 0xff, graph->n * sizeof *at);
    for (size_t i = 0; i < plan->n; i++) {
        uint32_t node = topology_graph_find(graph, members[i].name);
        if (node == TOPOLOGY_NO_NODE)
            continue;
        const struct topology_member *other =
            at[node] == TOPOLOGY_NO_NODE ? NULL : &members[plan->order[at[node]]];
        if (!other || memcmp(members[i].id, other->id, sizeof other->id) < 0)
            at[node] = plan->position[i];
    }
}

static int compare_sides(const void *left, const void *right)
{
    const struct topology_edge *x = left, *y = right;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

// Closes the graph over each connected part of absent members: the members at its rim are joined into a path
// in the order of the ring. So connected members stay connected, and only the rim gets new edges.
static enum base_error close_over(const struct topology_graph *graph, const uint32_t *at,
                                  struct topology_edges *edges)
{
    size_t rims = 0;
    uint32_t *parent = topology_parts_alone(graph->n);
    struct topology_edge *rim = malloc((graph->n_edges + 1) * sizeof *rim); // part, position
    enum base_error error = parent && rim ? BASE_OK : BASE_ENOMEM;
    for (size_t i = 0; !error && i < graph->n_edges; i++) {
        const struct topology_given *e = &graph->edges[i];
        if (at[e->from] == TOPOLOGY_NO_NODE && at[e->to] == TOPOLOGY_NO_NODE)
            parent[topology_part_of(parent, e->from)] = topology_part_of(parent, e->to);
    }
    for (size_t i = 0; !error && i < graph->n_edges; i++) {
        uint32_t gone = graph->edges[i].from, here = graph->edges[i].to;
        if (at[gone] != TOPOLOGY_NO_NODE) {
            gone = graph->edges[i].to;
            here = graph->edges[i].from;
        }
        if (at[gone] == TOPOLOGY_NO_NODE && at[here] != TOPOLOGY_NO_NODE)
            rim[rims++] = (struct topology_edge){.a = topology_part_of(parent, gone), .b = at[here]};
    }
    if (rims)
        qsort(rim, rims, sizeof *rim, compare_sides);
    for (size_t i = 1; i < rims; i++)
        if (rim[i].a == rim[i - 1].a)
            topology_join(edges, rim[i - 1].b, rim[i].b);
    free(parent);
    free(rim);
    return error;
}

static enum base_error make(struct topology_plan *plan, const struct topology_options *options,
                            const struct topology_member *members)
{
    const struct topology_graph *graph = options->graph;
    struct topology_edges edges = {0};
    uint32_t *at = malloc((graph->n + 1) * sizeof *at);
    if (!at)
        return BASE_ENOMEM;
    place(plan, members, graph, at);
    for (size_t i = 0; i < graph->n_edges; i++)
        if (at[graph->edges[i].from] != TOPOLOGY_NO_NODE && at[graph->edges[i].to] != TOPOLOGY_NO_NODE)
            topology_join(&edges, at[graph->edges[i].from], at[graph->edges[i].to]);
    enum base_error error = close_over(graph, at, &edges);
    free(at);
    if (error) {
        free(edges.list);
        return error;
    }
    return topology_graph_make(plan, &edges);
}

const struct topology_family topology_file = {.make = make, TOPOLOGY_TABLE};
