#include "base/array.h"
#include "base/hash.h"
#include "topology/file_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    struct topology_graph *graph;
    bool closed; // the nodes are known beforehand
    struct base_reason *why;
};

static uint32_t *slot_of(const struct topology_graph *graph, const char *name)
{
    uint32_t at = (uint32_t)base_hash_bytes(1, name, strnlen(name, LIMIT_NODE_NAME_BYTES));
    for (;; at++) {
        uint32_t *slot = &graph->index[at & (graph->index_room - 1)];
        if (*slot == TOPOLOGY_NO_NODE || strncmp(graph->names[*slot], name, LIMIT_NODE_NAME_BYTES) == 0)
            return slot;
    }
}

uint32_t topology_graph_find(const struct topology_graph *graph, const char *name)
{
    return *slot_of(graph, name);
}

static enum base_error create(struct topology_graph **graph)
{
    struct topology_graph *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return BASE_ENOMEM;
    fresh->names_room = TOPOLOGY_MEMBERS_MAX;
    fresh->index_room = 4 * TOPOLOGY_MEMBERS_MAX;
    fresh->names = calloc(fresh->names_room, sizeof *fresh->names);
    fresh->line = calloc(fresh->names_room, sizeof *fresh->line);
    fresh->index = malloc(fresh->index_room * sizeof *fresh->index);
    if (!fresh->names || !fresh->line || !fresh->index) {
        topology_graph_destroy(fresh);
        return BASE_ENOMEM;
    }
    memset(fresh->index, 0xff, fresh->index_room * sizeof *fresh->index);
    *graph = fresh;
    return BASE_OK;
}

void topology_graph_destroy(struct topology_graph *graph)
{
    if (!graph)
        return;
    free(graph->names);
    free(graph->line);
    free(graph->index);
    free(graph->edges);
    free(graph);
}

size_t topology_graph_nodes(const struct topology_graph *graph)
{
    return graph->n;
}

const char *topology_graph_name(const struct topology_graph *graph, size_t node)
{
    return graph->names[node];
}

bool topology_graph_has(const struct topology_graph *graph, const char *name)
{
    return topology_graph_find(graph, name) != TOPOLOGY_NO_NODE;
}

static uint32_t add_node(struct topology_graph *graph, const char *name, uint32_t *slot)
{
    *slot = graph->n;
    snprintf(graph->names[graph->n], LIMIT_NODE_NAME_BYTES, "%.*s", (int)LIMIT_NODE_NAME_BYTES - 1, name);
    return graph->n++;
}

static enum base_error find_node(struct reader *r, const char *name, uint32_t line, uint32_t *node)
{
    struct topology_graph *graph = r->graph;
    if (strlen(name) >= LIMIT_NODE_NAME_BYTES)
        return base_fail(r->why, BASE_ELIMIT, "%s:%u: the name '%.64s...' is longer than %u bytes", r->path,
                         line, name, LIMIT_NODE_NAME_BYTES - 1);
    uint32_t *slot = slot_of(graph, name);
    if (*slot == TOPOLOGY_NO_NODE && r->closed)
        return base_fail(r->why, BASE_ENOTFOUND, "%s:%u: there is no node '%s'; the nodes are '%s' to '%s'",
                         r->path, line, name, graph->names[0], graph->names[graph->n - 1]);
    if (*slot == TOPOLOGY_NO_NODE && graph->n == graph->names_room)
        return base_fail(r->why, BASE_ELIMIT, "%s:%u: '%s' is one node more than the limit, %u", r->path,
                         line, name, graph->names_room);
    *node = *slot == TOPOLOGY_NO_NODE ? add_node(graph, name, slot) : *slot;
    if (!graph->line[*node])
        graph->line[*node] = line;
    return BASE_OK;
}

static enum base_error add_edge(struct topology_graph *graph, struct topology_given edge)
{
    return base_array_add(&graph->edges, &graph->n_edges, &edge, sizeof edge) ? BASE_OK : BASE_ENOMEM;
}

// Reads a line, without its comment and newline; cuts it into words.
static enum base_error read_line(struct reader *r, char *text, uint32_t line)
{
    char *words[4] = {NULL}, *rest = NULL, *end = NULL;
    size_t count = 0;
    struct topology_given edge = {.line = line, .weight = 1};
    for (char *word = strtok_r(text, " \t\r", &rest); word && count < 4;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    if (count == 0)
        return BASE_OK;
    if (count == 1 || count == 4)
        return base_fail(r->why, BASE_EFORMAT, "%s:%u: expected an edge as 'name name [weight]', found %s",
                         r->path, line, count == 1 ? "one word" : "more than three words");
    if (words[2])
        edge.weight = strtod(words[2], &end);
    if (words[2] && (*end || !(edge.weight > 0) || !(edge.weight < 1e300)))
        return base_fail(r->why, BASE_EFORMAT, "%s:%u: the weight is '%.64s', expected a number above 0",
                         r->path, line, words[2]);
    enum base_error error = find_node(r, words[0], line, &edge.from);
    if (!error)
        error = find_node(r, words[1], line, &edge.to);
    if (!error && edge.from == edge.to)
        return base_fail(r->why, BASE_EFORMAT, "%s:%u: an edge from '%s' to itself", r->path, line, words[0]);
    return error ? error : add_edge(r->graph, edge);
}

static enum base_error read_lines(struct reader *r, char *text, size_t bytes)
{
    uint32_t line = 1;
    for (char *begin = text, *end = text + bytes; begin <= end; line++) {
        char *stop = memchr(begin, '\n', (size_t)(end - begin));
        stop = stop ? stop : end;
        *stop = 0;
        if (strlen(begin) != (size_t)(stop - begin))
            return base_fail(r->why, BASE_EFORMAT, "%s:%u: a zero byte; expected text", r->path, line);
        char *comment = strchr(begin, '#');
        if (comment)
            *comment = 0;
        enum base_error error = read_line(r, begin, line);
        if (error)
            return error;
        begin = stop + 1;
    }
    return BASE_OK;
}

static uint32_t lower(const struct topology_given *e)
{
    return e->from < e->to ? e->from : e->to;
}

static uint32_t upper(const struct topology_given *e)
{
    return e->from < e->to ? e->to : e->from;
}

static int compare_given(const void *left, const void *right)
{
    const struct topology_given *a = left, *b = right;
    if (lower(a) != lower(b))
        return lower(a) < lower(b) ? -1 : 1;
    if (upper(a) != upper(b))
        return upper(a) < upper(b) ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int compare_lines(const void *left, const void *right)
{
    const struct topology_given *a = left, *b = right;
    return a->line < b->line ? -1 : a->line > b->line;
}

static bool same_edge(const struct topology_given *a, const struct topology_given *b)
{
    return lower(a) == lower(b) && upper(a) == upper(b);
}

static enum base_error refuse_pair(const struct reader *r, const struct topology_given *first,
                                   const struct topology_given *second)
{
    const char *from = r->graph->names[second->from], *to = r->graph->names[second->to];
    if (first->from == second->from)
        return base_fail(r->why, BASE_EFORMAT, "%s:%u: the edge from '%s' to '%s' is already in line %u",
                         r->path, second->line, from, to, first->line);
    return base_fail(r->why, BASE_EFORMAT,
                     "%s:%u: not symmetric: '%s' to '%s' has weight %g, but '%s' to '%s' in line %u has %g",
                     r->path, second->line, from, to, second->weight, to, from, first->line, first->weight);
}

// Of begin[count], all between the same two nodes, the first edge that has the direction of `edge`, or NULL.
static const struct topology_given *same_direction(const struct topology_given *begin, size_t count,
                                                   const struct topology_given *edge)
{
    for (size_t i = 0; i < count; i++)
        if (begin[i].from == edge->from)
            return &begin[i];
    return NULL;
}

// Checks the sorted edges: no edge is given twice, and either none is given in both directions, or all are.
static enum base_error check_directions(const struct reader *r)
{
    const struct topology_given *edges = r->graph->edges, *alone = NULL, *paired = NULL;
    for (size_t i = 0, next; i < r->graph->n_edges; i = next) {
        for (next = i + 1; next < r->graph->n_edges && same_edge(&edges[i], &edges[next]); next++) {
            const struct topology_given *twin = same_direction(&edges[i], next - i, &edges[next]);
            if (twin || edges[next].weight != edges[i].weight)
                return refuse_pair(r, twin ? twin : &edges[i], &edges[next]);
        }
        if (next == i + 2)
            paired = &edges[i];
        else if (!alone || edges[i].line < alone->line)
            alone = &edges[i];
    }
    r->graph->directions = paired ? 2 : 1;
    if (!paired || !alone)
        return BASE_OK;
    return base_fail(
        r->why, BASE_EFORMAT,
        "%s:%u: not symmetric: '%s' to '%s' is given in this direction only, but others, such as that of "
        "line %u, in both; give each edge once, or all in both directions",
        r->path, alone->line, r->graph->names[alone->from], r->graph->names[alone->to], paired->line);
}

uint32_t topology_part_of(uint32_t *parent, uint32_t node)
{
    while (parent[node] != node)
        node = parent[node] = parent[parent[node]];
    return node;
}

uint32_t *topology_parts_alone(size_t n)
{
    uint32_t *parent = malloc((n + 1) * sizeof *parent);
    for (size_t i = 0; parent && i < n; i++)
        parent[i] = (uint32_t)i;
    return parent;
}

static enum base_error check_connected(const struct reader *r)
{
    struct topology_graph *graph = r->graph;
    uint32_t *parent = topology_parts_alone(graph->n);
    enum base_error error = parent ? BASE_OK : BASE_ENOMEM;
    for (size_t i = 0; !error && i < graph->n_edges; i++)
        parent[topology_part_of(parent, graph->edges[i].from)] = topology_part_of(parent, graph->edges[i].to);
    for (uint32_t i = 1; !error && i < graph->n; i++)
        if (topology_part_of(parent, i) != topology_part_of(parent, 0)) {
            if (graph->line[i])
                error =
                    base_fail(r->why, BASE_EFORMAT, "%s:%u: not connected: no path leads from '%s' to '%s'",
                              r->path, graph->line[i], graph->names[i], graph->names[0]);
            else
                error = base_fail(r->why, BASE_EFORMAT, "%s: not connected: no line names the node '%s'",
                                  r->path, graph->names[i]);
        }
    free(parent);
    return error;
}

static enum base_error take_known(struct reader *r, const struct topology_member *known, size_t n_known)
{
    for (size_t i = 0; i < n_known; i++) {
        uint32_t *slot = slot_of(r->graph, known[i].name);
        if (*slot != TOPOLOGY_NO_NODE || r->graph->n == r->graph->names_room)
            return base_fail(r->why, BASE_EINVAL, "%s: two nodes are called '%.64s', or there are too many",
                             r->path, known[i].name);
        (void)add_node(r->graph, known[i].name, slot);
    }
    return BASE_OK;
}

enum base_error topology_graph_read(const char *path, const char *text, size_t bytes,
                                    const struct topology_member *known, size_t n_known,
                                    struct topology_graph **graph, struct base_reason *why)
{
    struct reader r = {.path = path, .closed = known, .why = why};
    char *copy = malloc(bytes + 1);
    enum base_error error = copy ? create(&r.graph) : BASE_ENOMEM;
    if (error)
        goto out;
    memcpy(copy, text, bytes);
    error = take_known(&r, known, known ? n_known : 0);
    if (!error)
        error = read_lines(&r, copy, bytes);
    if (!error && r.graph->n == 0)
        error = base_fail(why, BASE_EFORMAT, "%s: no edges; expected lines 'name name'", path);
    if (!error && r.graph->n_edges)
        qsort(r.graph->edges, r.graph->n_edges, sizeof *r.graph->edges, compare_given);
    if (!error)
        error = check_directions(&r);
    if (!error)
        error = check_connected(&r);
    if (!error && r.graph->n_edges) // a plan depends on the order of the lines, not on that of the known
                                    // nodes
        qsort(r.graph->edges, r.graph->n_edges, sizeof *r.graph->edges, compare_lines);
out:
    free(copy);
    if (error)
        topology_graph_destroy(r.graph);
    else
        *graph = r.graph;
    return error;
}
