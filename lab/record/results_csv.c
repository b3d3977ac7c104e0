// results.csv (RFC 4180, but lines end with a newline only): the rows of results.jsonl, flat.
#include "lab/record/results_private.h"

#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct table {
    FILE *out;
    const json_t *rows, *keys;
    json_t *targets; // target accuracies of all rows, in order
    bool begun;      // the line has a field already
};

static const char *const before[] = {"run", "kind", "engine", "method", "status", "seed"};
const char *const lab_results_numbers[LAB_RESULTS_NUMBERS] = {
    "nodes",        "accuracy",  "loss",     "worst",           "mean",
    "best",         "consensus", "bytes",    "dense_over_sent", "seconds",
    "wall_seconds", "round",     "step",     "own_steps",       "own_steps_least",
    "own_examples", "exchanges", "detected", "rewired",         "false_deaths",
    "worst_loss"};
const char *const lab_results_costs[LAB_RESULTS_COSTS] = {"averaged_bytes", "averaged_time", "averaged_step",
                                                          "worst_bytes",    "worst_time",    "worst_step"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void put(struct table *t, const char *text)
{
    if (t->begun)
        fputc(',', t->out);
    t->begun = true;
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, t->out);
        return;
    }
    fputc('"', t->out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', t->out);
        fputc(*text, t->out);
    }
    fputc('"', t->out);
}

static void put_value(struct table *t, const json_t *value)
{
    char text[64] = "";
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.12g", json_real_value(value));
    put(t, json_is_string(value) ? json_string_value(value) : text);
}

static void end_line(struct table *t)
{
    fputc('\n', t->out);
    t->begun = false;
}

static bool same_number(const json_t *a, const json_t *b)
{
    double difference = json_number_value(a) - json_number_value(b);
    return difference < 1e-12 && difference > -1e-12;
}

static const json_t *find_target(const json_t *row, const json_t *accuracy)
{
    const json_t *target;
    size_t i;
    json_array_foreach(json_object_get(row, "targets"), i, target) {
        if (same_number(json_object_get(target, "accuracy"), accuracy))
            return target;
    }
    return NULL;
}

static bool has(const json_t *accuracies, const json_t *accuracy)
{
    const json_t *known;
    size_t i;
    json_array_foreach(accuracies, i, known) {
        if (same_number(known, accuracy))
            return true;
    }
    return false;
}

static void collect_targets(struct table *t)
{
    const json_t *row, *target;
    size_t i, k;
    json_array_foreach(t->rows, i, row) {
        json_array_foreach(json_object_get(row, "targets"), k, target) {
            json_t *accuracy = json_object_get(target, "accuracy");
            if (json_is_number(accuracy) && !has(t->targets, accuracy))
                json_array_append(t->targets, accuracy);
        }
    }
}

static void put_head(struct table *t)
{
    char name[128];
    const json_t *value;
    size_t i;
    for (size_t k = 0; k < COUNT(before); k++)
        put(t, before[k]);
    json_array_foreach(t->keys, i, value) {
        snprintf(name, sizeof name, "set.%.100s", json_string_value(value));
        put(t, name);
    }
    const bool r2 = lab_results_are_r2(t->rows);
    for (size_t k = 0; k < LAB_RESULTS_NUMBERS; k++)
        put(t, r2 && strcmp(lab_results_numbers[k], "accuracy") == 0 ? "r2" : lab_results_numbers[k]);
    json_array_foreach(t->targets, i, value)
        for (size_t k = 0; k < LAB_RESULTS_COSTS; k++) {
            snprintf(name, sizeof name, "to_%g.%s", (r2 ? 1 : 100) * json_number_value(value),
                     lab_results_costs[k]);
            put(t, name);
        }
    end_line(t);
}

static void put_row(struct table *t, const json_t *row)
{
    const json_t *value;
    size_t i;
    for (size_t k = 0; k < COUNT(before); k++)
        put_value(t, json_object_get(row, before[k]));
    json_array_foreach(t->keys, i, value)
        put_value(t, json_object_get(json_object_get(row, "settings"), json_string_value(value)));
    for (size_t k = 0; k < LAB_RESULTS_NUMBERS; k++)
        put_value(t, json_object_get(row, lab_results_numbers[k]));
    json_array_foreach(t->targets, i, value) {
        const json_t *target = find_target(row, value);
        for (size_t k = 0; k < LAB_RESULTS_COSTS; k++)
            put_value(t, json_object_get(target, lab_results_costs[k]));
    }
    end_line(t);
}

char *lab_results_csv(const json_t *rows, const json_t *keys)
{
    char *text = NULL;
    size_t bytes = 0, i;
    const json_t *row;
    struct table t = {.rows = rows, .keys = keys, .targets = json_array()};
    t.out = t.targets ? open_memstream(&text, &bytes) : NULL;
    if (!t.out)
        goto out;
    collect_targets(&t);
    put_head(&t);
    json_array_foreach(rows, i, row)
        put_row(&t, row);
    text = base_text_close(t.out, &text);
out:
    json_decref(t.targets);
    return text;
}
