#include "lab/record/results.h"

#include "base/array.h"
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/record/results_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const json_t *inside(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

static json_t *copy(const json_t *value) // null: missing
{
    return value ? json_deep_copy(value) : json_null();
}

static const json_t *either(const json_t *one, const json_t *other)
{
    return json_is_number(one) ? one : other;
}

// The median over the events of the median over the nodes that saw the event.
static json_t *median_of_events(const json_t *summary, const char *what)
{
    const json_t *events = json_object_get(summary, "events"), *event;
    size_t count = 0, i;
    double *seconds = calloc(json_array_size(events) + 1, sizeof *seconds);
    if (!seconds)
        return NULL;
    json_array_foreach(events, i, event) {
        const json_t *value = inside(event, what, "median");
        if (json_is_number(value))
            seconds[count++] = json_number_value(value);
    }
    double median = base_median(seconds, count);
    free(seconds);
    return count ? json_real(median) : json_null();
}

// The number in the summary or, where it has none, the mean over per_node.
static json_t *mean_of_nodes(const json_t *summary, const char *key)
{
    const json_t *nodes = json_object_get(summary, "per_node"), *node;
    double sum = 0;
    size_t count = 0, i;
    if (json_is_number(json_object_get(summary, key)))
        return copy(json_object_get(summary, key));
    json_array_foreach(nodes, i, node) {
        const json_t *value = json_object_get(node, key);
        sum += json_number_value(value);
        count += json_is_number(value);
    }
    return count ? json_real(sum / (double)count) : json_null();
}

static json_t *least_of_nodes(const json_t *summary, const char *key)
{
    const json_t *node, *least = NULL;
    size_t i;
    json_array_foreach(json_object_get(summary, "per_node"), i, node) {
        const json_t *value = json_object_get(node, key);
        if (json_is_number(value) && (!least || json_number_value(value) < json_number_value(least)))
            least = value;
    }
    return copy(least);
}

// The highest test loss of a node that ended well.
static json_t *worst_loss(const json_t *summary)
{
    const json_t *node, *worst = NULL;
    size_t i;
    json_array_foreach(json_object_get(summary, "per_node"), i, node) {
        const json_t *loss = json_object_get(node, "loss");
        if (json_is_true(json_object_get(node, "succeeded")) && json_is_number(loss) &&
            (!worst || json_number_value(loss) > json_number_value(worst)))
            worst = loss;
    }
    return copy(worst);
}

static json_t *target_json(const json_t *target)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "accuracy", copy(json_object_get(target, "accuracy")),
        "averaged_bytes", copy(inside(target, "averaged", "bytes")), "averaged_time",
        copy(inside(target, "averaged", "time")), "averaged_step", copy(inside(target, "averaged", "step")),
        "worst_bytes", copy(inside(target, "worst", "bytes")), "worst_time",
        copy(inside(target, "worst", "time")), "worst_step", copy(inside(target, "worst", "step")));
}

static json_t *targets_json(const json_t *summary)
{
    const json_t *targets = json_object_get(summary, "targets"), *target;
    json_t *array = json_array();
    size_t i;
    json_array_foreach(targets, i, target)
        json_array_append_new(array, target_json(target));
    return array;
}

static json_t *figures_json(const json_t *s)
{
    const json_t *node = json_object_get(s, "node");
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "nodes", copy(json_object_get(s, "nodes")), "accuracy", copy(inside(s, "averaged", "accuracy")),
        "loss", copy(inside(s, "averaged", "loss")), "worst_loss", worst_loss(s), "worst",
        copy(inside(node, "worst", "accuracy")), "mean", copy(inside(node, "mean", "accuracy")), "best",
        copy(inside(node, "best", "accuracy")), "consensus", copy(json_object_get(s, "consensus")), "bytes",
        copy(inside(s, "bytes", "sent")), "dense_over_sent", copy(inside(s, "bytes", "dense_over_sent")),
        "seconds", copy(either(inside(s, "seconds", "virtual"), inside(s, "seconds", "cluster"))),
        "wall_seconds", copy(inside(s, "seconds", "total")), "round", mean_of_nodes(s, "round"), "step",
        mean_of_nodes(s, "step"), "own_steps", mean_of_nodes(s, "own_steps"), "own_steps_least",
        least_of_nodes(s, "own_steps"), "own_examples", mean_of_nodes(s, "own_examples"), "exchanges",
        mean_of_nodes(s, "exchanges"), "detected", median_of_events(s, "detected"), "rewired",
        median_of_events(s, "rewired"), "false_deaths", copy(json_object_get(s, "false_deaths")), "targets",
        targets_json(s));
}

json_t *lab_results_row(const json_t *run, const json_t *summary)
{
    const json_t *status = json_object_get(summary, "status");
    json_t *row =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run", copy(json_object_get(run, "label")), "kind",
                  copy(json_object_get(summary, "kind")), "engine", copy(json_object_get(summary, "engine")),
                  "method", copy(json_object_get(summary, "method")), "status",
                  copy(status ? status : json_object_get(run, "status")), "seed",
                  copy(json_object_get(run, "seed")), "settings", copy(json_object_get(run, "settings")));
    json_t *figures = figures_json(summary);
    if (row && (!figures || json_object_update(row, figures))) {
        json_decref(row);
        row = NULL;
    }
    json_decref(figures);
    const char *measure = json_string_value(json_object_get(summary, "measure"));
    if (row && measure && strcmp(measure, "accuracy") != 0)
        json_object_set_new(row, "measure", json_string(measure)); // the meaning of "accuracy", "worst", ...
    return row;
}

static json_t *load(const char *directory, const char *name, json_error_t *error)
{
    char *path = lab_path("%s/%s", directory, name);
    json_t *object = json_load_file(path, 0, error);
    free(path);
    return object;
}

// A waiting run has no summary, or that of an earlier sweep.
static json_t *summary_of(const char *directory, const json_t *run)
{
    const char *label = json_string_value(json_object_get(run, "label"));
    const char *status = json_string_value(json_object_get(run, "status"));
    if (!label || strchr(label, '/') || !status || strcmp(status, "waiting") == 0)
        return NULL;
    char *below = lab_path("%s/" LAB_RUNS "/%s", directory, label);
    json_t *summary = load(below, "summary.json", NULL);
    free(below);
    return summary;
}

static bool add_row(json_t *rows, const json_t *run, json_t *summary)
{
    json_t *row = lab_results_row(run, summary);
    json_decref(summary);
    return json_array_append_new(rows, row) == 0;
}

static enum base_error read_sweep(const char *directory, const json_t *sweep, json_t *rows,
                                  struct base_reason *why)
{
    const json_t *runs = json_object_get(sweep, "runs"), *run;
    size_t i;
    json_array_foreach(runs, i, run)
        if (!add_row(rows, run, summary_of(directory, run)))
            return base_fail(why, BASE_ENOMEM, "no memory for the results of '%s'", directory);
    return BASE_OK;
}

// A single run, in the form of an entry of a sweep.
static enum base_error read_single(const char *directory, json_t *rows, struct base_reason *why)
{
    json_error_t at = {.text = ""};
    json_t *summary = load(directory, "summary.json", &at);
    if (!summary)
        return base_fail(why, BASE_ENOTFOUND,
                         "'%s' holds no results: neither " LAB_SWEEP " nor a summary.json that "
                         "can be read (%s)",
                         directory, at.text);
    json_t *run = json_pack("{s:o, s:o, s:{}}", "label", copy(json_object_get(summary, "experiment")), "seed",
                            copy(inside(summary, "settings", "seed")), "settings");
    bool added = add_row(rows, run, summary);
    json_decref(run);
    return added ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for the results of '%s'", directory);
}

static enum base_error write_text(const char *directory, const char *name, const char *text,
                                  struct base_reason *why)
{
    char *path = lab_path("%s/%s", directory, name);
    const struct base_span span = {text, text ? strlen(text) : 0};
    enum base_error error = text ? base_file_write(path, 0644, &span, 1, why)
                                 : base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
    free(path);
    return error;
}

static char *lines_of(const json_t *rows)
{
    const json_t *row;
    char *text = NULL;
    size_t bytes = 0, i;
    bool good = true;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    json_array_foreach(rows, i, row)
        good = json_dumpf(row, out, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12)) == 0 &&
               fputc('\n', out) != EOF && good;
    if (fclose(out) || !good) {
        free(text);
        return NULL;
    }
    return text;
}

static enum base_error write_rows(const char *directory, const json_t *rows, const json_t *keys,
                                  struct base_reason *why)
{
    char *lines = lines_of(rows), *csv = lab_results_csv(rows, keys);
    enum base_error error = write_text(directory, "results.jsonl", lines, why);
    if (!error)
        error = write_text(directory, "results.csv", csv, why);
    free(lines);
    free(csv);
    return error;
}

enum base_error lab_results_write(const char *directory, FILE *table, struct base_reason *why)
{
    json_error_t at = {.text = ""};
    json_t *rows = json_array(), *sweep = NULL;
    char *path = lab_path("%s/" LAB_SWEEP, directory);
    enum base_error error = BASE_OK;
    if (access(path, F_OK) != 0)
        error = read_single(directory, rows, why);
    else if (!(sweep = json_load_file(path, 0, &at)))
        error =
            base_fail(why, BASE_EFORMAT, "%s:%d: %s; expected the list of a sweep", path, at.line, at.text);
    else
        error = read_sweep(directory, sweep, rows, why);
    if (!error)
        error = write_rows(directory, rows, json_object_get(sweep, "keys"), why);
    if (!error && table)
        lab_results_print(rows, table);
    json_decref(rows);
    json_decref(sweep);
    free(path);
    return error;
}
