#include "lab/report/run_results.h"
#include "base/array.h"
#include "lab/record/results_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Points of one curve and of all curves: with many cases, curves are coarser.
#define CURVE_POINTS_MAX 400u
#define CURVE_POINTS_MIN 20u
#define ALL_POINTS_MAX   40000u

// The first key is "nodes", which is not a value of its own.
const char *lab_value_name(enum lab_value value)
{
    _Static_assert(LAB_VALUE_RMSE + 1 == LAB_RESULTS_NUMBERS, "a name for each");
    return value == LAB_VALUE_RMSE ? "rmse" : lab_results_numbers[value + 1];
}

static void measure_values(struct lab_case *c, double *scratch)
{
    for (enum lab_value value = 0; value < LAB_VALUES; value++) {
        for (size_t i = 0; i < c->n_records; i++)
            scratch[i] =
                lab_json_number(value == LAB_VALUE_RMSE ? json_object_get(c->records[i]->summary, "averaged")
                                                        : c->records[i]->row,
                                lab_value_name(value));
        c->values[value] = lab_band_of(scratch, c->n_records);
    }
}

static const json_t *find_target(const json_t *row, double accuracy)
{
    const json_t *target;
    size_t i;
    json_array_foreach(json_object_get(row, "targets"), i, target)
        if (lab_json_number(target, "accuracy") == accuracy)
            return target;
    return NULL;
}

size_t lab_targets_of(const struct lab_run_results *results, double *accuracies, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < results->n_cases; i++) {
        for (size_t t = 0; t < results->cases[i].n_targets; t++) {
            double accuracy = results->cases[i].targets[t].accuracy;
            size_t known = 0;
            while (known < count && accuracies[known] != accuracy)
                known++;
            if (known == count && count < most)
                accuracies[count++] = accuracy;
        }
    }
    qsort(accuracies, count, sizeof *accuracies, base_order_f64);
    return count;
}

bool lab_target_is_reached(const struct lab_target *target, enum lab_reach reach)
{
    return target->cost[reach].seen > 0 && target->cost[reach].seen >= target->of;
}

static void measure_target(const struct lab_case *c, double *scratch, struct lab_target *target)
{
    for (size_t i = 0; i < c->n_records; i++)
        target->of += find_target(c->records[i]->row, target->accuracy) != NULL;
    target->of += c->ended - c->n_records; // those that failed on the way have not reached it
    for (enum lab_reach reach = 0; reach < LAB_REACHES; reach++) {
        for (size_t i = 0; i < c->n_records; i++)
            scratch[i] =
                lab_json_number(find_target(c->records[i]->row, target->accuracy), lab_results_costs[reach]);
        target->cost[reach] = lab_band_of(scratch, c->n_records);
    }
}

// All runs of an experiment have the targets of the first one.
static enum base_error measure_targets(struct lab_case *c, double *scratch)
{
    const json_t *targets = c->n_records ? json_object_get(c->records[0]->row, "targets") : NULL, *target;
    size_t i, count = json_array_size(targets);
    c->targets = calloc(count ? count : 1, sizeof *c->targets);
    if (!c->targets)
        return BASE_ENOMEM;
    json_array_foreach(targets, i, target) {
        struct lab_target *made = &c->targets[c->n_targets];
        made->accuracy = lab_json_number(target, "accuracy");
        if (!isfinite(made->accuracy))
            continue;
        measure_target(c, scratch, made);
        c->n_targets++;
    }
    return BASE_OK;
}

static enum base_error measure_curve(struct lab_case *c, size_t most)
{
    size_t count = 0;
    struct lab_samples *runs = calloc(c->n_records + 1, sizeof *runs);
    if (!runs)
        return BASE_ENOMEM;
    for (size_t i = 0; i < c->n_records; i++)
        if (c->records[i]->count)
            runs[count++] = (struct lab_samples){c->records[i]->points, c->records[i]->count};
    enum base_error error = lab_curve_make(runs, count, most, &c->curve);
    free(runs);
    return error;
}

enum base_error lab_case_measure(struct lab_case *c, size_t most)
{
    double *scratch = malloc((c->n_records + 1) * sizeof *scratch);
    if (!scratch)
        return BASE_ENOMEM;
    measure_values(c, scratch);
    enum base_error error = measure_targets(c, scratch);
    if (!error)
        error = measure_curve(c, most);
    free(scratch);
    return error;
}

static size_t points_of_a_curve(size_t cases)
{
    size_t share = ALL_POINTS_MAX / (cases ? cases : 1);
    return share > CURVE_POINTS_MAX ? CURVE_POINTS_MAX : share < CURVE_POINTS_MIN ? CURVE_POINTS_MIN : share;
}

// By the first summary with that key; all runs of an experiment have the same loss.
static bool is_regression(const struct lab_run_results *results)
{
    for (size_t i = 0; i < results->n_records; i++) {
        const char *measure = json_string_value(json_object_get(results->records[i].summary, "measure"));
        if (measure)
            return strcmp(measure, "R2") == 0;
    }
    return false;
}

enum base_error lab_run_results_read(const char *directory, struct lab_run_results *results,
                                     struct base_reason *why)
{
    *results = (struct lab_run_results){0};
    enum base_error error = lab_run_results_load(directory, results, why);
    if (error)
        goto out;
    results->regression = is_regression(results);
    error = lab_run_results_group(results);
    if (!error)
        error = lab_run_results_share(results);
    for (size_t i = 0; i < results->n_cases && !error; i++)
        error = lab_case_measure(&results->cases[i], points_of_a_curve(results->n_cases));
    if (!error)
        error = lab_run_results_compare(results);
    if (error)
        base_fail(why, error, "cannot combine the runs of '%s': %s", directory, base_error_name(error));
out:
    if (error)
        lab_run_results_free(results);
    return error;
}

void lab_run_results_free(struct lab_run_results *results)
{
    for (size_t i = 0; i < results->n_cases; i++) {
        free(results->cases[i].label);
        free(results->cases[i].records);
        free(results->cases[i].targets);
        json_decref(results->cases[i].settings);
        lab_curve_free(&results->cases[i].curve);
    }
    for (size_t i = 0; i < results->n_records; i++)
        lab_record_free(&results->records[i]);
    free(results->cases);
    free(results->records);
    free(results->title);
    json_decref(results->varied);
    json_decref(results->shared);
    json_decref(results->notes);
    *results = (struct lab_run_results){0};
}
