// Graphs that do not change, as lists of edges. Each colour of a proper edge colouring is a round.
#include "base/array.h"
#include "topology/parts.h"

#include <stdlib.h>

void topology_join(struct topology_edges *edges, size_t a, size_t b)
{
    if (a == b)
        return;
    const struct topology_edge edge = {
        .a = (uint32_t)(a < b ? a : b), .b = (uint32_t)(a < b ? b : a), .serial = (uint32_t)edges->count};
    if (!base_array_add(&edges->list, &edges->count, &edge, sizeof edge))
        edges->failed = true;
}

static int compare_ends(const struct topology_edge *x, const struct topology_edge *y)
{
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static int compare_serials(const void *left, const void *right)
{
    const struct topology_edge *x = left, *y = right;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static int compare_edges(const void *left, const void *right)
{
    int ends = compare_ends(left, right);
    return ends ? ends : compare_serials(left, right);
}

// Removes repeated edges; the first of each stays, and the order is kept.
static void drop_repeats(struct topology_edges *edges)
{
    size_t kept = 0;
    if (edges->count == 0)
        return;
    qsort(edges->list, edges->count, sizeof *edges->list, compare_edges);
    for (size_t i = 0; i < edges->count; i++)
        if (kept == 0 || compare_ends(&edges->list[kept - 1], &edges->list[i]) != 0)
            edges->list[kept++] = edges->list[i];
    edges->count = kept;
    qsort(edges->list, edges->count, sizeof *edges->list, compare_serials);
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

// The shorter side s of the most square torus of n members, or 0 if there is none: s is at least 3, because
// along a side of two every edge would occur twice.
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

// Joins all i with i + offset, modulo n, cycle by cycle.
static void join_cycles(struct topology_edges *edges, size_t n, size_t offset)
{
    size_t cycles = offset;
    for (size_t rest = n; rest;) { // the greatest common divisor
        size_t next = cycles % rest;
        cycles = rest;
        rest = next;
    }
    for (size_t c = 0; c < cycles; c++)
        for (size_t i = 0, at = c; i < n / cycles; i++, at = (at + offset) % n)
            topology_join(edges, at, (at + offset) % n);
}

// s rows of n / s members, in the order of the ring. If there is no s: one row that wraps around, a twisted
// torus.
static enum base_error make_torus(struct topology_plan *plan, const struct topology_options *options,
                                  const struct topology_member *members)
{
    struct topology_edges edges = {0};
    size_t n = plan->n, rows = shorter_side(n), columns = rows ? n / rows : root(n);
    (void)options;
    (void)members;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < columns; i++)
            topology_join(&edges, row * columns + i, row * columns + (i + 1) % columns);
    if (n && rows == 0)
        join_cycles(&edges, n, 1);
    if (n)
        join_cycles(&edges, n, columns % n);
    return topology_graph_make(plan, &edges);
}

const struct topology_family topology_torus = {.make = make_torus, .alike = true, TOPOLOGY_TABLE};

static enum base_error make_exponential(struct topology_plan *plan, const struct topology_options *options,
                                        const struct topology_member *members)
{
    struct topology_edges edges = {0};
    (void)options;
    (void)members;
    for (size_t offset = 1; offset < plan->n; offset *= 2)
        join_cycles(&edges, plan->n, offset);
    return topology_graph_make(plan, &edges);
}

const struct topology_family topology_exponential = {.make = make_exponential, .alike = true, TOPOLOGY_TABLE};
