// The graph of all meetings: its degrees, its diameter, and its mixing matrix with Metropolis-Hastings
// weights.
#include "topology/lanczos.h"
#include "topology/parts.h"
#include "topology/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 400u

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

// Breadth-first search from up to 64 members at once: bit b of a word stands for the b-th start.
struct search {
    const struct graph *graph;
    uint64_t *seen, *here, *next; // [n] starts that have reached a member: so far, in this step, in the next
    uint32_t *now, *then;         // [n] members where `here`, `next` are not 0
};

static void drop_search(struct search *s)
{
    free(s->seen);
    free(s->here);
    free(s->next);
    free(s->now);
    free(s->then);
}

static enum base_error make_search(const struct graph *graph, struct search *s)
{
    size_t room = graph->n + 1;
    *s = (struct search){.graph = graph,
                         .seen = malloc(room * sizeof *s->seen),
                         .here = calloc(room, sizeof *s->here),
                         .next = calloc(room, sizeof *s->next),
                         .now = malloc(room * sizeof *s->now),
                         .then = malloc(room * sizeof *s->then)};
    if (s->seen && s->here && s->next && s->now && s->then)
        return BASE_OK;
    drop_search(s);
    return BASE_ENOMEM;
}

// For few members with new bits: each passes them to its peers. Returns the number of members with new bits,
// listed in `then`.
static size_t tell(struct search *s, size_t count)
{
    const struct graph *graph = s->graph;
    size_t found = 0;
    for (size_t at = 0; at < count; at++) {
        size_t from = s->now[at];
        for (size_t e = graph->first[from]; e < graph->first[from + 1]; e++) {
            size_t to = graph->peers[e];
            uint64_t fresh = s->here[from] & ~s->seen[to];
            if (fresh && !s->next[to])
                s->then[found++] = (uint32_t)to;
            s->next[to] |= fresh;
            s->seen[to] |= fresh;
        }
    }
    return found;
}

// For many: each member that lacks bits reads those of its peers, until it lacks none.
static size_t ask(struct search *s, uint64_t everybody)
{
    const struct graph *graph = s->graph;
    size_t found = 0;
    for (size_t to = 0; to < graph->n; to++) {
        uint64_t heard = 0, lacks = everybody & ~s->seen[to];
        for (size_t e = graph->first[to]; (heard & lacks) != lacks && e < graph->first[to + 1]; e++)
            heard |= s->here[graph->peers[e]];
        if (!(heard & lacks))
            continue;
        s->next[to] = heard & lacks;
        s->seen[to] |= heard & lacks;
        s->then[found++] = (uint32_t)to;
    }
    return found;
}

// One step from the `count` members of `now`. Returns the number of members that it reaches; they are then in
// `now`.
static size_t step(struct search *s, size_t count, uint64_t everybody)
{
    size_t found = count < s->graph->n / 8 ? tell(s, count) : ask(s, everybody);
    uint64_t *words = s->here;
    uint32_t *members = s->now;
    for (size_t at = 0; at < count; at++)
        s->here[s->now[at]] = 0;
    s->here = s->next;
    s->next = words;
    s->now = s->then;
    s->then = members;
    return found;
}

// The largest distance of a member from one of the members first to first + count - 1, count <= 64. *all:
// each of these reaches all members.
static size_t search(struct search *s, size_t first, size_t count, bool *all)
{
    uint64_t everybody = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    size_t distance = 0;
    memset(s->seen, 0, s->graph->n * sizeof *s->seen);
    for (size_t b = 0; b < count; b++) {
        s->seen[first + b] = s->here[first + b] = UINT64_C(1) << b;
        s->now[b] = (uint32_t)(first + b);
    }
    for (size_t here = count; (here = step(s, here, everybody)); distance++)
        ;
    *all = true;
    for (size_t i = 0; i < s->graph->n && *all; i++)
        *all = s->seen[i] == everybody;
    return distance;
}

// `alike`: the search from one member is sufficient.
static enum base_error search_all(const struct graph *graph, bool alike, struct topology_shape *shape)
{
    struct search s;
    enum base_error error = make_search(graph, &s);
    if (error)
        return error;
    for (size_t first = 0; first < (alike ? 1 : graph->n); first += 64) {
        bool all;
        size_t count = alike ? 1 : graph->n - first < 64 ? graph->n - first : 64;
        size_t reach = search(&s, first, count, &all);
        shape->diameter = reach > shape->diameter ? reach : shape->diameter;
        shape->connected = shape->connected && all;
    }
    drop_search(&s);
    return BASE_OK;
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
        error = search_all(&graph, plan->family->alike, &found);
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
    struct topology_operator matrix = {graph.n, apply_metropolis, &graph, 0};
    error = topology_lanczos(&matrix, STEPS_MAX, 1e-11, &low, &high);
    drop(&graph);
    if (!error)
        *gap = 1 - fmax(fabs(low), fabs(high));
    return error;
}
