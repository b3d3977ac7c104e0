#include "lab/summary/summary.h"

#include "base/file.h"
#include "compress/select.h"
#include "lab/summary/summary_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void lab_data_describe(const struct node_config *config, char *text, size_t capacity)
{
    char kind[32], partition[32];
    lab_choice_name("data.kind", config->data.kind, kind, sizeof kind);
    lab_choice_name("data.partition", config->data.partition, partition, sizeof partition);
    if (config->data.partition == NODE_PARTITION_DIRICHLET)
        snprintf(text, capacity, "%s, dirichlet %g", kind, config->data.alpha);
    else
        snprintf(text, capacity, "%s, %s", kind, partition);
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *choice(const char *key, int index)
{
    char text[32];
    return json_string(lab_choice_name(key, index, text, sizeof text));
}

static json_t *score_json(const struct lab_score *score)
{
    json_t *object = json_pack("{s:o, s:o}", "accuracy", lab_json_real(score->accuracy), "loss",
                               lab_json_real(score->loss));
    if (object && score->regression)
        json_object_set_new(object, "rmse", lab_json_real(score->rmse));
    return object;
}

static json_t *gone_json(const struct lab_node *node)
{
    if (node->gone == LAB_HERE)
        return json_null();
    return json_string(node->gone == LAB_KILLED ? "killed" : "left");
}

// null without events: then all rounds count.
static json_t *goodput_json(const struct lab_cluster *cluster, const struct lab_goodput *goodput)
{
    if (!cluster->schedule->count)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "share", lab_json_real(goodput->share), "counted",
                     integer(goodput->counted), "living", integer(goodput->living));
}

static json_t *total_goodput_json(const struct lab_summary *s)
{
    struct lab_goodput total;
    size_t least;
    lab_goodput_total(s->cluster, s->histories, &total, &least);
    return goodput_json(s->cluster, &total);
}

static json_t *node_json(const struct lab_summary *s, size_t index)
{
    const struct lab_node *node = &s->cluster->nodes[index];
    struct lab_goodput goodput;
    lab_goodput_of(s->cluster, index, s->histories, &goodput);
    char status[LAB_STATUS_BYTES];
    const struct lab_row row = lab_tail_row(&node->tail);
    lab_process_describe(&node->process, status);
    json_t *object =
        json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name", node->name, "status", status,
                  "succeeded", lab_node_ended_well(node), "accuracy", lab_json_real(row.accuracy), "loss",
                  lab_json_real(row.test_loss), "training_loss", lab_json_real(row.loss), "consensus",
                  lab_json_real(row.consensus), "round", integer(row.round), "step", integer(row.step));
    json_t *more = json_pack("{s:o, s:s?, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i}",
                             "gone", gone_json(node), "attacker", node->attack, "own_accuracy",
                             row.merged ? lab_json_real(row.own_accuracy) : json_null(), "starts",
                             (int)node->starts, "own_steps", integer(row.own_steps), "own_examples",
                             row.own_examples == LAB_NOT_COUNTED ? json_null() : integer(row.own_examples),
                             "exchanges", integer(row.exchanges), "bytes_sent", integer(row.bytes_sent),
                             "bytes_received", integer(row.bytes_received), "packet_bytes",
                             integer(row.delta_bytes), "dense_bytes", integer(row.dense_bytes), "goodput",
                             goodput_json(s->cluster, &goodput), "bad_metrics_lines", (int)node->tail.bad,
                             "port", (int)node->port, "http_port", (int)node->http_port);
    if (object && more)
        json_object_update(object, more); // without memory, some keys are missing
    json_decref(more);
    return object;
}

static json_t *nodes_json(const struct lab_summary *s)
{
    json_t *array = json_array();
    for (size_t i = 0; i < s->cluster->count; i++)
        json_array_append_new(array, node_json(s, i));
    return array;
}

static json_t *run_json(const struct lab_baseline_run *run)
{
    if (!run)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:s}", "accuracy", lab_json_real(run->score.accuracy),
                     "loss", lab_json_real(run->score.loss), "steps", integer(run->steps), "examples",
                     integer(run->examples), "seconds", lab_json_real(run->seconds), "done", run->done,
                     "error", run->why.text);
}

static json_t *lone_json(const struct lab_baselines *baselines)
{
    struct lab_spread spread;
    json_t *runs = json_array();
    if (!lab_baseline_find(baselines, LAB_LONE)) {
        json_decref(runs);
        return json_null();
    }
    for (size_t i = 0; i < baselines->count; i++)
        if (baselines->runs[i].kind == LAB_LONE)
            json_array_append_new(runs, run_json(&baselines->runs[i]));
    lab_lone_spread(baselines, &spread);
    return json_pack("{s:o, s:o, s:o, s:o}", "worst", score_json(&spread.worst), "mean",
                     score_json(&spread.mean), "best", score_json(&spread.best), "shards", runs);
}

static json_t *bytes_json(const struct lab_cluster *cluster, const struct lab_totals *totals)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "sent", integer(totals->bytes_sent), "sent_per_node",
                     integer(totals->bytes_sent / cluster->count), "received",
                     integer(totals->bytes_received), "packets", integer(totals->delta_bytes), "dense",
                     integer(totals->dense_bytes), "dense_over_sent", lab_json_real(totals->times_less));
}

double lab_summary_ratio(const struct lab_summary *summary)
{
    const size_t d = summary->bench->parameters;
    const double ratio = summary->bench->view.average.ratio;
    return ratio > 0 ? ratio : (double)compress_select_count(ratio, d) / (double)d;
}

static json_t *settings_json(const struct node_config *c, double ratio, uint64_t seed)
{
    json_t *data =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "kind", choice("data.kind", c->data.kind), "partition",
                  choice("data.partition", c->data.partition), "alpha", lab_json_real(c->data.alpha),
                  "shards", integer(c->data.shards), "seed", integer(c->data.seed));
    json_t *train = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "optimizer", choice("train.optimizer", c->train.optimizer), "rate",
        lab_json_real(c->train.rate), "steps", integer(c->train.steps), "batch", integer(c->train.batch),
        "examples_planned", integer(c->train.steps * c->train.batch), "seed", integer(c->train.seed));
    json_t *average = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:b}", "method", choice("average.method", c->average.method), "mode",
        choice("average.mode", c->average.mode), "local_steps", integer(c->average.local_steps), "ratio",
        lab_json_real(ratio), "values", choice("average.values", c->average.values), "drift_correction",
        c->average.drift_correction);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "seed", integer(seed), "topology",
                     choice("topology.kind", c->topology.kind), "model_seed", integer(c->model.seed), "data",
                     data, "train", train, "average", average);
}

// Every key whose value is not the default, as text. The name of the run and its place are not conditions of
// it.
static json_t *changed_json(const struct node_schema *schema, const struct lab_experiment *experiment)
{
    static const char *const others[] = {"experiment.name", "experiment.out", "experiment.repeats", "sweep",
                                         "sim.threads"};
    json_t *changed = json_object();
    for (size_t i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].name;
        bool other = false;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            other = other || strcmp(key, others[k]) == 0;
        char *value = other || node_schema_is_initial(schema, experiment, key)
                          ? NULL
                          : node_schema_value(schema, experiment, key);
        if (value)
            json_object_set_new(changed, key, json_string(value));
        free(value);
    }
    return changed;
}

static json_t *head_json(const struct lab_summary *s)
{
    return json_pack(
        "{s:i, s:s, s:s, s:s?, s:o, s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:o, s:s, s:o, s:o, s:o}", "format", 2,
        "measure", lab_workbench_measures(s->bench), "kind", s->kind, "engine", s->engine, "method",
        choice("average.method", s->bench->view.average.method), "experiment", s->experiment->experiment.name,
        "status", s->status, "file", s->file, "directory", s->directory, "version", s->version, "time",
        lab_json_real(s->time), "nodes", (int)s->cluster->count, "settings",
        settings_json(&s->bench->view, lab_summary_ratio(s), s->experiment->experiment.seed), "model",
        s->bench->description, "parameters", integer(s->bench->parameters), "train_examples",
        integer(s->bench->train.examples), "test_examples", integer(s->bench->test.examples));
}

static json_t *results_json(const struct lab_summary *s)
{
    struct lab_totals totals;
    lab_totals_of(s->cluster, &totals);
    json_t *averaged = score_json(&s->average.score);
    if (averaged)
        json_object_set_new(averaged, "nodes", json_integer((json_int_t)s->average.nodes));
    json_t *node = json_pack("{s:o, s:o, s:o}", "worst", score_json(&totals.worst), "mean",
                             score_json(&totals.mean), "best", score_json(&totals.best));
    json_t *seconds = json_pack("{s:o, s:o, s:o, s:o}", "cluster", lab_json_real(s->cluster->seconds),
                                "virtual", lab_json_real(s->virtual_seconds), "baselines",
                                lab_json_real(s->baselines->seconds), "total", lab_json_real(s->seconds));
    double steps_per_second = s->cluster->seconds > 0 ? (double)s->steps / s->cluster->seconds : NAN;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:i, s:o}", "averaged",
        averaged, "node", node, "consensus", lab_json_real(s->average.consensus), "lone",
        lone_json(s->baselines), "central", run_json(lab_baseline_find(s->baselines, LAB_CENTRAL)),
        "central_total", run_json(lab_baseline_find(s->baselines, LAB_CENTRAL_TOTAL)), "bytes",
        bytes_json(s->cluster, &totals), "targets", lab_targets_json(s), "seconds", seconds,
        "steps_per_second", lab_json_real(steps_per_second), "threads", (int)s->threads, "goodput",
        total_goodput_json(s), "per_node", nodes_json(s), "events", lab_events_json(s->cluster, s->histories),
        "false_deaths", (int)lab_false_deaths(s->cluster), "graph", lab_graph_json(s));
}

enum base_error lab_summary_write(const struct lab_summary *summary, const char *path,
                                  struct base_reason *why)
{
    json_t *head = head_json(summary), *results = results_json(summary);
    char seeds[LAB_SEEDS_BYTES];
    char *simulated = lab_simulated_text(summary);
    lab_seeds_text(summary, seeds);
    if (head && simulated)
        json_object_set_new(head, "simulated", simulated[0] ? json_string(simulated) : json_null());
    if (head)
        json_object_set_new(head, "changed", changed_json(&summary->experiment->schema, summary->experiment));
    if (head)
        json_object_set_new(head, "shortfall",
                            summary->shortfall ? json_string(summary->shortfall) : json_null());
    if (head)
        json_object_set_new(head, "trouble", summary->trouble ? json_string(summary->trouble) : json_null());
    if (head)
        json_object_set_new(head, "unmerged",
                            summary->unmerged ? json_string(summary->unmerged) : json_null());
    if (head)
        json_object_set_new(head, "unlearned",
                            summary->unlearned ? json_string(summary->unlearned) : json_null());
    if (head)
        json_object_set_new(head, "seeds", json_string(seeds));
    free(simulated);
    char *text = NULL, *line = NULL;
    if (head && results && json_object_update(head, results) == 0)
        text = json_dumps(head, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    enum base_error error = BASE_OK;
    const struct base_span span = {line, line ? strlen(line) : 0};
    if (line)
        error = base_file_write(path, 0644, &span, 1, why);
    else
        error = base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
    free(line);
    free(text);
    json_decref(head);
    json_decref(results);
    return error;
}
