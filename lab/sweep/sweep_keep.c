#include "lab/sweep/sweep_keep.h"

#include "base/file.h"
#include "lab/record/directory.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPERIMENT_MAX (1u << 20) // bytes

static bool summary_is_complete(const char *path, double *seconds)
{
    json_t *summary = json_load_file(path, 0, NULL);
    const char *status = json_string_value(json_object_get(summary, "status"));
    const json_t *total = json_object_get(json_object_get(summary, "seconds"), "total");
    bool complete = status && strcmp(status, "complete") == 0;
    *seconds = json_is_number(total) ? json_number_value(total) : NAN;
    json_decref(summary);
    return complete;
}

static bool holds(const char *path, const char *text)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (base_file_read(path, EXPERIMENT_MAX, &data, &bytes, NULL))
        return false;
    bool same = bytes == strlen(text) && memcmp(data, text, bytes) == 0;
    free(data);
    return same;
}

bool lab_sweep_run_is_complete(const struct lab_sweep_run *run, double *seconds)
{
    char *summary = lab_path("%s/summary.json", run->directory);
    char *experiment = lab_path("%s/experiment.yaml", run->directory);
    bool complete = holds(experiment, run->text) && summary_is_complete(summary, seconds);
    free(summary);
    free(experiment);
    return complete;
}

enum base_error lab_sweep_run_prepare(const struct lab_sweep_run *run, struct base_reason *why)
{
    const struct base_span span = {run->text, strlen(run->text)};
    return base_file_write(run->file, 0644, &span, 1, why);
}

static json_t *keys_json(const struct lab_sweep_plan *plan)
{
    json_t *keys = json_array();
    for (size_t i = 0; i < plan->n_axes; i++)
        json_array_append_new(keys, json_string(plan->axes[i].key));
    return keys;
}

static json_t *settings_json(const struct lab_sweep_plan *plan, size_t point)
{
    json_t *settings = json_object();
    for (size_t i = 0; i < plan->n_axes; i++)
        json_object_set_new(settings, plan->axes[i].key, json_string(lab_sweep_value(plan, point, i)));
    return settings;
}

static json_t *runs_json(const struct lab_sweep_plan *plan)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < plan->n_runs; i++) {
        const struct lab_sweep_run *run = &plan->runs[i];
        json_array_append_new(runs, json_pack("{s:s, s:o, s:I, s:s}", "label", run->label, "settings",
                                              settings_json(plan, run->point), "seed", (json_int_t)run->seed,
                                              "status", lab_sweep_state_name(run->state)));
    }
    return runs;
}

enum base_error lab_sweep_list_write(const struct lab_sweep_plan *plan, const char *directory,
                                     const char *name, struct base_reason *why)
{
    char *path = lab_path("%s/" LAB_SWEEP, directory), *text = NULL;
    json_t *list = json_pack("{s:i, s:s, s:o, s:o}", "format", 1, "experiment", name, "keys", keys_json(plan),
                             "runs", runs_json(plan));
    enum base_error error = BASE_ENOMEM;
    if (list)
        text = json_dumps(list, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    const struct base_span spans[] = {{text, text ? strlen(text) : 0}, {"\n", 1}};
    if (text)
        error = base_file_write(path, 0644, spans, 2, why);
    else
        error = base_fail(why, BASE_ENOMEM, "no memory to write '%s'", path);
    json_decref(list);
    free(text);
    free(path);
    return error;
}
