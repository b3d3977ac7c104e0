// The results as JSON for the script of the page. Where an inner object is NULL, json_pack returns NULL, too.
#include "lab/record/results_private.h"
#include "lab/report/page.h"

#include <math.h>

#define EVENTS_MAX 200u  // listed for a case; further ones are only counted
#define EDGES_MAX  6000u // drawn for a graph
#define NODES_MAX  1024u // the same

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

// [mean, lowest, highest, runs, half of the 95% confidence interval]
static json_t *band_json(const struct lab_band *band)
{
    if (!band->seen)
        return json_null();
    return json_pack("[o, o, o, i, o]", real(band->mean), real(band->low), real(band->high), (int)band->seen,
                     real(band->half));
}

static json_t *values_json(const struct lab_case *c)
{
    json_t *object = json_object();
    for (enum lab_value value = 0; value < LAB_VALUES; value++)
        json_object_set_new(object, lab_value_name(value), band_json(&c->values[value]));
    return object;
}

static json_t *target_json(const struct lab_target *target)
{
    json_t *object = json_pack("{s:f, s:i}", "accuracy", target->accuracy, "of", (int)target->of);
    for (enum lab_reach reach = 0; reach < LAB_REACHES; reach++)
        json_object_set_new(object, lab_results_costs[reach], band_json(&target->cost[reach]));
    return object;
}

static json_t *targets_json(const struct lab_case *c)
{
    json_t *array = json_array();
    for (size_t i = 0; i < c->n_targets; i++)
        json_array_append_new(array, target_json(&c->targets[i]));
    return array;
}

// Three lists: the mean, and the ends of its 95% confidence interval; a single list for a single run.
static json_t *line_json(const struct lab_case *c, enum lab_line line)
{
    json_t *mean = json_array(), *low = json_array(), *high = json_array();
    for (size_t i = 0; i < c->curve.count; i++) {
        const struct lab_band *band = &c->curve.points[i].value[line];
        json_array_append_new(mean, real(band->mean));
        json_array_append_new(low, real(band->mean - band->half));
        json_array_append_new(high, real(band->mean + band->half));
    }
    if (c->n_records > 1)
        return json_pack("[o, o, o]", mean, low, high);
    json_decref(low);
    json_decref(high);
    return json_pack("[o]", mean);
}

static json_t *curve_json(const struct lab_case *c)
{
    json_t *object = json_object();
    for (enum lab_axis axis = 0; axis < LAB_AXES; axis++) {
        json_t *array = json_array();
        for (size_t i = 0; i < c->curve.count; i++)
            json_array_append_new(array, real(c->curve.points[i].at[axis]));
        json_object_set_new(object, lab_axis_name(axis), array);
    }
    for (enum lab_line line = 0; line < LAB_LINES; line++)
        json_object_set_new(object, lab_line_name(line), line_json(c, line));
    return object;
}

static void copy_keys(const json_t *from, const char *const *keys, size_t count, json_t *to)
{
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(from, keys[i]);
        json_object_set(to, keys[i], value ? value : json_null());
    }
}

static json_t *event_json(const struct lab_record *record, const json_t *event)
{
    static const char *const keys[] = {"event",   "node",     "groups",  "at",        "for",     "happened",
                                       "instead", "detected", "rewired", "recovered", "accuracy"};
    json_t *object = json_object();
    copy_keys(event, keys, sizeof keys / sizeof *keys, object);
    json_t *seed = json_object_get(record->row, "seed");
    json_object_set(object, "seed", seed ? seed : json_null());
    return object;
}

// *more: events that are not in the list.
static json_t *events_json(const struct lab_case *c, size_t *more)
{
    json_t *array = json_array();
    *more = 0;
    for (size_t i = 0; i < c->n_records; i++) {
        const json_t *event;
        size_t j;
        json_array_foreach(json_object_get(c->records[i]->summary, "events"), j, event) {
            if (json_array_size(array) < EVENTS_MAX)
                json_array_append_new(array, event_json(c->records[i], event));
            else
                ++*more;
        }
    }
    return array;
}

// Leaves out the lists of a graph that is too large to draw.
static json_t *graph_json(const json_t *graph)
{
    const json_t *nodes = json_object_get(graph, "nodes"), *edges = json_object_get(graph, "edges");
    bool drawn = json_array_size(nodes) <= NODES_MAX && json_array_size(edges) <= EDGES_MAX;
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:b}", "kind", lab_json_text(graph, "kind", "graph"), "n_nodes",
                  (int)json_array_size(nodes), "n_edges", (int)json_array_size(edges), "drawn", drawn);
    static const char *const keys[] = {"nodes", "edges", "gone"};
    if (drawn)
        copy_keys(graph, keys, sizeof keys / sizeof *keys, object);
    return object;
}

// The graph of the first run that has one, found or added among those of the page; null: none.
static json_t *place_graph(const struct lab_case *c, json_t *graphs)
{
    const json_t *graph = NULL;
    for (size_t i = 0; i < c->n_records && !graph; i++)
        graph = json_object_get(c->records[i]->summary, "graph");
    if (!json_is_object(graph))
        return json_null();
    json_t *made = graph_json(graph), *other;
    size_t i;
    json_array_foreach(graphs, i, other) {
        if (!json_equal(made, other))
            continue;
        json_decref(made);
        return json_integer((json_int_t)i);
    }
    json_array_append_new(graphs, made);
    return json_integer((json_int_t)json_array_size(graphs) - 1);
}

static json_t *first_of(const struct lab_case *c, const char *key)
{
    json_t *value = c->n_records ? json_object_get(c->records[0]->row, key) : NULL;
    return value ? json_incref(value) : json_null();
}

static json_t *against_json(const struct lab_case *c)
{
    return json_pack("{s:o, s:o}", "accuracy", band_json(&c->against[LAB_AGAINST_ACCURACY]), "worst",
                     band_json(&c->against[LAB_AGAINST_WORST]));
}

static json_t *case_json(const struct lab_case *c, json_t *graphs)
{
    size_t more = 0;
    json_t *events = events_json(c, &more);
    return json_pack("{s:s, s:O, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o}", "label",
                     c->label, "settings", c->settings, "runs", (int)c->runs, "complete", (int)c->n_records,
                     "status", first_of(c, "status"), "method", first_of(c, "method"), "engine",
                     first_of(c, "engine"), "nodes", first_of(c, "nodes"), "values", values_json(c),
                     "against", against_json(c), "targets", targets_json(c), "curve", curve_json(c), "events",
                     events, "more_events", (int)more, "graph", place_graph(c, graphs));
}

// Accuracy of central training, over all runs with that baseline.
static struct lab_band central(const struct lab_run_results *results)
{
    double values[64];
    size_t count = 0;
    for (size_t i = 0; i < results->n_records && count < 64; i++)
        values[count++] =
            lab_json_number(json_object_get(results->records[i].summary, "central"), "accuracy");
    return lab_band_of(values, count);
}

json_t *lab_page_json(const struct lab_run_results *results)
{
    json_t *cases = json_array(), *graphs = json_array();
    const struct lab_band reference = central(results);
    for (size_t i = 0; i < results->n_cases && cases; i++) {
        if (json_array_append_new(cases, case_json(&results->cases[i], graphs))) {
            json_decref(cases);
            cases = NULL;
        }
    }
    return json_pack("{s:i, s:s, s:b, s:b, s:O, s:O, s:O, s:o, s:i, s:o, s:o}", "format", 2, "title",
                     results->title, "regression", results->regression, "sweep", results->sweep, "shared",
                     results->shared, "varied", results->varied, "notes", results->notes, "central",
                     band_json(&reference), "reference",
                     results->reference < results->n_cases ? (int)results->reference : -1, "cases", cases,
                     "graphs", graphs);
}
