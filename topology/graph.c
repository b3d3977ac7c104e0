// Graphs that do not change: lists of edges, each colour of a proper colouring a round.
#include "topology/parts.h"

#include <stdlib.h>

void topology_join(struct topology_edges *edges, size_t a, size_t b)
{
    if (a == b)
        return;
    if (edges->count == edges->capacity) {
        size_t capacity = edges->capacity ? 2 * edges->capacity : 64;
        struct topology_edge *list = realloc(edges->list, capacity * sizeof *list);
        if (!list) {
            edges->failed = true;
            return;
        }
        edges->list = list;
        edges->capacity = capacity;
    }
    edges->list[edges->count++] =
        (struct topology_edge){.a = (uint32_t)(a < b ? a : b), .b = (uint32_t)(a < b ? b : a)};
}

static int compare_edges(const void *left, const void *right)
{
    const struct topology_edge *x = left, *y = right;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static void drop_repeats(struct topology_edges *edges)
{
    size_t kept = 0;
    if (edges->count)
        qsort(edges->list, edges->count, sizeof *edges->list, compare_edges);
    for (size_t i = 0; i < edges->count; i++)
        if (kept == 0 || compare_edges(&edges->list[kept - 1], &edges->list[i]) != 0)
            edges->list[kept++] = edges->list[i];
    edges->count = kept;
}

enum base_error topology_graph_make(struct topology_plan *plan, struct topology_edges *edges)
{
    struct topology_meetings meetings = {0};
    uint32_t colours = 0, *colour = NULL;
    enum base_error error = edges->failed ? BASE_ENOMEM : BASE_OK;
    drop_repeats(edges);
    if (!error) {
        colour = calloc(edges->count + 1, sizeof *colour);
        error = colour ? topology_colour(plan->n, edges->list, edges->count, colour, &colours) : BASE_ENOMEM;
    }
    for (size_t i = 0; !error && i < edges->count; i++)
        topology_meet(&meetings,
                      (struct topology_meeting){edges->list[i].a, edges->list[i].b, colour[i], 0.5});
    if (!error)
        error = topology_table_make(plan, &meetings, colours);
    free(colour);
    free(edges->list);
    *edges = (struct topology_edges){0};
    return error;
}

// The longer side is at most n / 3; a torus with a side of two would have every edge twice.
static size_t shorter_side(size_t n)
{
    size_t side = 0;
    for (size_t s = 3; s * s <= n; s++)
        if (n % s == 0)
            side = s;
    return side;
}

static size_t root(size_t n)
{
    size_t s = 1;
    while ((s + 1) * (s + 1) <= n)
        s++;
    return s;
}

// Rows of s in the order of the ring, or, where no s divides n, one row that winds around: a twisted torus.
static enum base_error make_torus(struct topology_plan *plan, const struct topology_options *options,
                                  const struct topology_member *members)
{
    struct topology_edges edges = {0};
    size_t n = plan->n, rows = shorter_side(n);
    (void)options;
    (void)members;
    size_t columns = rows ? n / rows : root(n);
    for (size_t i = 0; i < n; i++) {
        size_t right = rows && (i + 1) % columns == 0 ? i + 1 - columns : (i + 1) % n;
        topology_join(&edges, i, right);
        topology_join(&edges, i, (i + columns) % n);
    }
    return topology_graph_make(plan, &edges);
}

const struct topology_family topology_torus = {.make = make_torus, TOPOLOGY_TABLE};

static enum base_error make_exponential(struct topology_plan *plan, const struct topology_options *options,
                                        const struct topology_member *members)
{
    struct topology_edges edges = {0};
    (void)options;
    (void)members;
    for (size_t i = 0; i < plan->n; i++)
        for (size_t offset = 1; offset < plan->n; offset *= 2)
            topology_join(&edges, i, (i + offset) % plan->n);
    return topology_graph_make(plan, &edges);
}

const struct topology_family topology_exponential = {.make = make_exponential, TOPOLOGY_TABLE};
