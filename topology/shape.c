// The graph of all meetings: its degrees, its diameter, and its mixing matrix with Metropolis-Hastings
// weights.
#include "topology/lanczos.h"
#include "topology/spectrum.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_MOST  400u
#define SEARCH_MOST 4e9 // edges looked at for a diameter

struct graph {
    size_t n, *first, *peers; // first[n + 1]
};

static void drop(struct graph *graph)
{
    free(graph->first);
    free(graph->peers);
}

static enum base_error load(const struct topology_plan *plan, struct graph *graph)
{
    *graph = (struct graph){.n = topology_plan_members(plan)};
    graph->first = calloc(graph->n + 1, sizeof *graph->first);
    for (size_t i = 0; graph->first && i < graph->n; i++)
        graph->first[i + 1] = graph->first[i] + topology_plan_neighbours(plan, i, NULL, 0);
    graph->peers = graph->first ? malloc((graph->first[graph->n] + 1) * sizeof *graph->peers) : NULL;
    if (!graph->peers) {
        drop(graph);
        return BASE_ENOMEM;
    }
    for (size_t i = 0; i < graph->n; i++)
        (void)topology_plan_neighbours(plan, i, graph->peers + graph->first[i],
                                       graph->first[i + 1] - graph->first[i]);
    return BASE_OK;
}

static size_t degree(const struct graph *graph, size_t i)
{
    return graph->first[i + 1] - graph->first[i];
}

// The largest distance from `start`; *reached: how many it reaches, itself included. far[n], queue[n]:
// scratch.
static size_t search(const struct graph *graph, size_t start, size_t *far, size_t *queue, size_t *reached)
{
    size_t count = 1;
    for (size_t i = 0; i < graph->n; i++)
        far[i] = SIZE_MAX;
    far[start] = 0;
    queue[0] = start;
    for (size_t at = 0; at < count && count < graph->n; at++)
        for (size_t e = graph->first[queue[at]]; e < graph->first[queue[at] + 1]; e++)
            if (far[graph->peers[e]] == SIZE_MAX) {
                far[graph->peers[e]] = far[queue[at]] + 1;
                queue[count++] = graph->peers[e];
            }
    *reached = count;
    return far[queue[count - 1]];
}

static enum base_error search_all(const struct graph *graph, struct topology_shape *shape)
{
    size_t *far = malloc((graph->n + 1) * sizeof *far), *queue = malloc((graph->n + 1) * sizeof *queue);
    enum base_error error = far && queue ? BASE_OK : BASE_ENOMEM;
    for (size_t i = 0; !error && i < graph->n; i++) {
        size_t reached, reach = search(graph, i, far, queue, &reached);
        shape->diameter = reach > shape->diameter ? reach : shape->diameter;
        shape->connected = shape->connected && reached == graph->n;
    }
    free(far);
    free(queue);
    return error;
}

enum base_error topology_shape_of(const struct topology_plan *plan, struct topology_shape *shape)
{
    struct graph graph;
    struct topology_shape found = {.connected = true};
    enum base_error error = load(plan, &graph);
    if (error)
        return error;
    for (size_t i = 0; i < graph.n; i++) {
        size_t own = degree(&graph, i);
        found.degree_min = i == 0 || own < found.degree_min ? own : found.degree_min;
        found.degree_max = own > found.degree_max ? own : found.degree_max;
    }
    found.edges = graph.first[graph.n] / 2;
    found.degree_mean = graph.n ? 2 * (double)found.edges / (double)graph.n : 0;
    if (graph.n > 1 && found.degree_min == graph.n - 1)
        found.diameter = 1;
    else
        error = search_all(&graph, &found);
    drop(&graph);
    if (!error)
        *shape = found;
    return error;
}

static void apply_metropolis(void *self, const double *x, double *y)
{
    const struct graph *graph = self;
    for (size_t i = 0; i < graph->n; i++) {
        y[i] = x[i];
        for (size_t e = graph->first[i]; e < graph->first[i + 1]; e++) {
            size_t j = graph->peers[e];
            y[i] += (x[j] - x[i]) / (1 + fmax((double)degree(graph, i), (double)degree(graph, j)));
        }
    }
}

enum base_error topology_gap_static(const struct topology_plan *plan, double *gap)
{
    struct graph graph;
    double low, high;
    if (topology_plan_members(plan) < 2) {
        *gap = 1;
        return BASE_OK;
    }
    enum base_error error = load(plan, &graph);
    if (error)
        return error;
    struct topology_operator matrix = {graph.n, apply_metropolis, &graph};
    error = topology_lanczos(&matrix, STEPS_MOST, 1e-11, &low, &high);
    drop(&graph);
    if (!error)
        *gap = 1 - fmax(fabs(low), fabs(high));
    return error;
}
