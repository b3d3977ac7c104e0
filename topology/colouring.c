// Proper edge colouring with at most one colour more than the largest degree: J. Misra, D. Gries, "A
// constructive proof of Vizing's theorem", 1992. An edge takes a colour that is free at both ends if there is
// one; otherwise a fan is rotated. Afterwards the classes are balanced: the edges of two classes form paths
// and cycles, and exchanging the colours of a path that has one more edge of the larger class moves one edge
// to the smaller class.
#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct colouring {
    const struct topology_edge *edges;
    size_t n, n_edges;
    uint32_t colours;   // largest degree + 1
    uint32_t *colour;   // [n_edges]
    uint32_t *edge_at;  // [n][colours]: edge of this colour at a vertex, or NONE
    uint32_t *first;    // [n + 1]: where the edges of each vertex begin in `incident`
    uint32_t *incident; // [2 n_edges]: edges by vertex
    uint32_t *fan;      // [largest degree]: edges at the centre, each free to take its successor's colour
    uint32_t *path;     // [n]
    uint8_t *in_fan;    // [n_edges]
    size_t *size;       // [colours]: edges of a colour
};

static uint32_t *at(const struct colouring *c, uint32_t vertex, uint32_t colour)
{
    return &c->edge_at[(size_t)vertex * c->colours + colour];
}

static bool is_free(const struct colouring *c, uint32_t vertex, uint32_t colour)
{
    return *at(c, vertex, colour) == NONE;
}

static uint32_t other_end(const struct colouring *c, uint32_t edge, uint32_t vertex)
{
    return c->edges[edge].a == vertex ? c->edges[edge].b : c->edges[edge].a;
}

// Lowest colour free at both vertices, or NONE.
static uint32_t common_free(const struct colouring *c, uint32_t a, uint32_t b)
{
    for (uint32_t colour = 0; colour < c->colours; colour++)
        if (is_free(c, a, colour) && is_free(c, b, colour))
            return colour;
    return NONE;
}

static void erase(struct colouring *c, uint32_t edge)
{
    *at(c, c->edges[edge].a, c->colour[edge]) = NONE;
    *at(c, c->edges[edge].b, c->colour[edge]) = NONE;
    c->colour[edge] = NONE;
}

static void paint(struct colouring *c, uint32_t edge, uint32_t colour)
{
    c->colour[edge] = colour;
    *at(c, c->edges[edge].a, colour) = edge;
    *at(c, c->edges[edge].b, colour) = edge;
}

// Builds the maximal fan around `centre` that begins with `edge`. Returns its length.
static size_t spread_fan(struct colouring *c, uint32_t centre, uint32_t edge)
{
    size_t length = 0;
    for (uint32_t next = edge; next != NONE;) {
        c->fan[length++] = next;
        c->in_fan[next] = 1;
        uint32_t tip = other_end(c, next, centre);
        next = NONE;
        for (uint32_t i = c->first[centre]; i < c->first[centre + 1] && next == NONE; i++) {
            uint32_t candidate = c->incident[i];
            if (c->colour[candidate] != NONE && !c->in_fan[candidate] &&
                is_free(c, tip, c->colour[candidate]))
                next = candidate;
        }
    }
    for (size_t i = 0; i < length; i++)
        c->in_fan[c->fan[i]] = 0;
    return length;
}

// Writes the path from `vertex`, at which y is free, along colours x, y, x, ... to c->path. Returns its
// length.
static size_t walk(struct colouring *c, uint32_t vertex, uint32_t x, uint32_t y)
{
    size_t length = 0;
    for (uint32_t edge = *at(c, vertex, x); edge != NONE;) {
        c->path[length++] = edge;
        vertex = other_end(c, edge, vertex);
        edge = *at(c, vertex, length % 2 ? y : x);
    }
    return length;
}

static void invert(struct colouring *c, size_t length, uint32_t x, uint32_t y)
{
    for (size_t i = 0; i < length; i++)
        erase(c, c->path[i]);
    for (size_t i = 0; i < length; i++)
        paint(c, c->path[i], i % 2 ? x : y);
}

// Gives each of the first `length` edges of the fan the colour of its successor, and the last of them
// `colour`.
static void turn_fan(struct colouring *c, size_t length, uint32_t colour)
{
    for (size_t i = 0; i + 1 < length; i++) {
        uint32_t next = c->colour[c->fan[i + 1]];
        erase(c, c->fan[i + 1]);
        paint(c, c->fan[i], next);
    }
    paint(c, c->fan[length - 1], colour);
}

static void paint_by_fan(struct colouring *c, uint32_t edge)
{
    uint32_t centre = c->edges[edge].a;
    size_t length = spread_fan(c, centre, edge), used = 1;
    uint32_t tip = other_end(c, c->fan[length - 1], centre);
    uint32_t x = common_free(c, centre, centre), y = common_free(c, tip, tip);
    BASE_ASSERT(x != NONE && y != NONE); // there are more colours than edges at a vertex
    if (!is_free(c, centre, y))
        invert(c, walk(c, centre, y, x), y, x);
    // y is now free at the centre. The rotation ends at the first vertex of the remaining fan at which y is
    // free, too.
    while (!is_free(c, other_end(c, c->fan[used - 1], centre), y)) {
        BASE_ASSERT(used < length &&
                    is_free(c, other_end(c, c->fan[used - 1], centre), c->colour[c->fan[used]]));
        used++;
    }
    turn_fan(c, used, y);
}

static enum base_error allocate(struct colouring *c)
{
    c->fan = calloc(c->colours, sizeof *c->fan);
    c->path = calloc(c->n + 1, sizeof *c->path);
    c->size = calloc(c->colours, sizeof *c->size);
    c->edge_at = malloc((c->n * c->colours + 1) * sizeof *c->edge_at);
    return c->fan && c->path && c->size && c->edge_at ? BASE_OK : BASE_ENOMEM;
}

static enum base_error begin(struct colouring *c)
{
    uint32_t degree_max = 0;
    c->first = calloc(c->n + 2, sizeof *c->first);
    c->incident = calloc(2 * c->n_edges + 1, sizeof *c->incident);
    c->in_fan = calloc(c->n_edges + 1, sizeof *c->in_fan);
    if (!c->first || !c->incident || !c->in_fan)
        return BASE_ENOMEM;
    for (size_t i = 0; i < c->n_edges; i++) {
        c->first[c->edges[i].a]++;
        c->first[c->edges[i].b]++;
    }
    for (size_t v = 0; v <= c->n; v++) { // where the edges of each vertex end; filling moves this to where
                                         // they begin
        degree_max = c->first[v] > degree_max ? c->first[v] : degree_max;
        c->first[v] += v ? c->first[v - 1] : 0;
    }
    c->colours = degree_max + 1;
    for (size_t i = c->n_edges; i-- > 0;) {
        c->colour[i] = NONE;
        c->incident[--c->first[c->edges[i].a]] = (uint32_t)i;
        c->incident[--c->first[c->edges[i].b]] = (uint32_t)i;
    }
    enum base_error error = allocate(c);
    if (!error)
        memset(c->edge_at, 0xff, c->n * c->colours * sizeof *c->edge_at);
    return error;
}

// Moves up to `count` edges from class `large` to class `small`: a path of odd length has one edge of `large`
// more than of `small`.
static size_t move_edges(struct colouring *c, uint32_t large, uint32_t small, size_t count)
{
    size_t moved = 0;
    for (uint32_t v = 0; v < c->n && moved < count; v++) {
        if (is_free(c, v, large) || !is_free(c, v, small))
            continue;
        size_t length = walk(c, v, large, small);
        if (length % 2 == 0)
            continue;
        invert(c, length, large, small);
        moved++;
    }
    return moved;
}

// Balances the classes. Returns the number of colours in use: a colour without edges would be a round without
// meetings.
static uint32_t even_out(struct colouring *c)
{
    size_t *size = c->size;
    for (size_t i = 0; i < c->n_edges; i++)
        size[c->colour[i]]++;
    uint32_t used = c->colours;
    while (used && size[used - 1] == 0)
        used--;
    for (;;) {
        uint32_t large = 0, small = 0;
        for (uint32_t i = 1; i < used; i++) {
            large = size[i] > size[large] ? i : large;
            small = size[i] < size[small] ? i : small;
        }
        if (size[large] < size[small] + 2)
            return used;
        size_t moved = move_edges(c, large, small, (size[large] - size[small]) / 2);
        BASE_ASSERT(moved);
        size[large] -= moved;
        size[small] += moved;
    }
}

enum base_error topology_colour(size_t n, const struct topology_edge *edges, size_t n_edges, uint32_t *colour,
                                uint32_t *colours)
{
    struct colouring c = {.edges = edges, .n = n, .n_edges = n_edges, .colour = colour};
    enum base_error error = begin(&c);
    for (uint32_t i = 0; !error && i < n_edges; i++) {
        uint32_t shared = common_free(&c, edges[i].a, edges[i].b);
        if (shared == NONE)
            paint_by_fan(&c, i);
        else
            paint(&c, i, shared);
    }
    *colours = error ? 0 : even_out(&c);
    free(c.first);
    free(c.incident);
    free(c.in_fan);
    free(c.fan);
    free(c.path);
    free(c.size);
    free(c.edge_at);
    return error;
}
