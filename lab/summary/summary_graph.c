// The graph and the times of the targets in summary.json.
#include "lab/graph/graph.h"
#include "lab/summary/summary_json.h"

#include <math.h>
#include <stdlib.h>

#define EDGES_MAX 65536u // more are not listed: a complete graph of many nodes

static json_t *edge(size_t a, size_t b)
{
    return json_pack("[i, i]", (int)a, (int)b);
}

static void add_edge(const struct lab_topology *t, size_t a, size_t b, void *edges)
{
    (void)t;
    if (json_array_size(edges) <= EDGES_MAX)
        json_array_append_new(edges, edge(a, b));
}

// The plan that all nodes make at the beginning. *t must be dropped, also after false.
static bool make_plan(const struct lab_summary *s, struct lab_topology *t)
{
    const struct node_config *c = &s->bench->view;
    struct base_reason ignored;
    uint64_t group_size = s->experiment->experiment.group_size;
    *t = (struct lab_topology){.options = {.kind = (enum topology_kind)c->topology.kind,
                                           .seed = c->topology.seed,
                                           .rings = (unsigned)c->topology.rings,
                                           .base_k = (unsigned)c->topology.base_k},
                               .n = s->cluster->count,
                               .group_size = group_size ? group_size : 1};
    return !lab_topology_make(t, t->options.kind == TOPOLOGY_FILE ? c->topology.file : NULL, &ignored);
}

// null: too many edges.
static json_t *planned_edges(const struct lab_topology *t)
{
    json_t *edges = json_array();
    if (!lab_topology_each_edge(t, add_edge, edges) && json_array_size(edges) <= EDGES_MAX)
        return edges;
    json_decref(edges);
    return json_null();
}

// The nodes in the order by hash, on which every kind of graph is based.
static json_t *order_of(const struct lab_topology *t)
{
    size_t *at = calloc(t->n, sizeof *at);
    json_t *order = json_array();
    for (size_t i = 0; i < t->n && at; i++)
        at[topology_plan_place(t->plan, i)] = i;
    for (size_t i = 0; i < t->n && at; i++)
        json_array_append_new(order, json_integer((json_int_t)at[i]));
    free(at);
    return order;
}

static json_t *given_edges(const struct lab_summary *s)
{
    if (s->n_edges > EDGES_MAX)
        return json_null();
    json_t *edges = json_array();
    for (size_t i = 0; i < s->n_edges; i++)
        json_array_append_new(edges, edge((size_t)s->edges[2 * i], (size_t)s->edges[2 * i + 1]));
    return edges;
}

// An all-reduce goes round a ring of the nodes by number, regardless of the configured graph.
static bool goes_round(const struct lab_summary *s)
{
    int method = s->bench->view.average.method;
    return method == NODE_METHOD_ALLREDUCE || method == NODE_METHOD_DILOCO;
}

json_t *lab_graph_json(const struct lab_summary *s)
{
    char kind[32] = "ring";
    struct lab_topology t;
    json_t *names = json_array(), *gone = json_array();
    bool planned = make_plan(s, &t);
    for (size_t i = 0; i < s->cluster->count; i++) {
        json_array_append_new(names, json_string(s->cluster->nodes[i].name));
        if (s->cluster->nodes[i].gone != LAB_HERE)
            json_array_append_new(gone, json_integer((json_int_t)i));
    }
    if (!goes_round(s))
        lab_choice_name("topology.kind", s->bench->view.topology.kind, kind, sizeof kind);
    json_t *order = planned && !goes_round(s) ? order_of(&t) : json_null();
    json_t *edges = s->edges ? given_edges(s) : planned ? planned_edges(&t) : json_null();
    lab_topology_drop(&t);
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", kind, "nodes", names, "order", order, "edges",
                     edges, "gone", gone);
}

void lab_targets_find(const char *path, const struct lab_targets *targets,
                      struct lab_reached reached[LAB_TARGETS_MAX])
{
    struct lab_sample point;
    FILE *file = fopen(path, "re");
    for (size_t i = 0; i < targets->count; i++)
        reached[i].averaged.accuracy = reached[i].worst.accuracy = NAN;
    while (file && lab_sample_read(file, &point) > 0)
        for (size_t i = 0; i < targets->count; i++) {
            if (isnan(reached[i].averaged.accuracy) && point.accuracy >= targets->items[i])
                reached[i].averaged = point;
            if (isnan(reached[i].worst.accuracy) && point.worst >= targets->items[i]) {
                reached[i].worst = point;
                reached[i].worst.accuracy = point.worst;
            }
        }
    if (file)
        fclose(file);
}

static json_t *reached_json(const struct lab_sample *point)
{
    if (isnan(point->accuracy))
        return json_null();
    return json_pack("{s:I, s:I, s:o, s:I}", "round", (json_int_t)point->round, "step",
                     (json_int_t)point->step, "time", lab_json_real(point->time), "bytes",
                     (json_int_t)point->bytes);
}

json_t *lab_targets_json(const struct lab_summary *s)
{
    const struct lab_targets *targets = &s->experiment->targets;
    struct lab_reached reached[LAB_TARGETS_MAX];
    json_t *array = json_array();
    lab_targets_find(s->points, targets, reached);
    for (size_t i = 0; i < targets->count; i++)
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:o}", "accuracy", lab_json_real(targets->items[i]), "averaged",
                             reached_json(&reached[i].averaged), "worst", reached_json(&reached[i].worst)));
    return array;
}
