// Writes the data for the scripts, in columns.
#include "base/array.h"
#include "lab/report/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(double value, FILE *out)
{
    if (isfinite(value))
        fprintf(out, " %.7g", value);
    else
        fputs(" NaN", out);
}

static void put_band(const struct lab_band *band, FILE *out)
{
    put(band->mean, out);
    const double half = isnan(band->half) ? 0 : band->half; // of a single run the mean, three times
    put(band->mean - half, out);
    put(band->mean + half, out);
}

// In data, texts are between double quotes, which cannot be escaped inside.
static void put_text(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? ' ' : *text, out);
    fputc('"', out);
}

void lab_plot_curves(const struct lab_run_results *results, FILE *out)
{
    fputs(
        "# round step bytes time, then the mean and the ends of its 95% confidence interval of accuracy, worst, loss, consensus, mean, train_loss\n",
        out);
    for (size_t i = 0; i < results->n_cases; i++) {
        const struct lab_case *c = &results->cases[i];
        fputs(i ? "\n\n# " : "# ", out);
        put_text(c->label, out);
        fputc('\n', out);
        if (!c->curve.count)
            fputs("NaN NaN NaN NaN\n", out); // so that the number of blocks is kept
        for (size_t p = 0; p < c->curve.count; p++) {
            for (enum lab_axis axis = 0; axis < LAB_AXES; axis++)
                put(c->curve.points[p].at[axis], out);
            for (enum lab_line line = 0; line < LAB_LINES; line++)
                put_band(&c->curve.points[p].value[line], out);
            fputc('\n', out);
        }
    }
}

struct cost {
    const struct lab_case *c;
    const struct lab_target *target;
};

static int by_bytes(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    const double of_x = lab_target_is_reached(x->target, LAB_REACH_BYTES)
                            ? x->target->cost[LAB_REACH_BYTES].mean
                            : NAN,
                 of_y = lab_target_is_reached(y->target, LAB_REACH_BYTES)
                            ? y->target->cost[LAB_REACH_BYTES].mean
                            : NAN;
    if (isnan(of_x) || isnan(of_y))
        return isnan(of_x) - isnan(of_y);
    return (of_x > of_y) - (of_x < of_y);
}

// A mean over the seeds that happened to reach it says nothing about the others.
static const struct lab_band *reached_by_all(const struct lab_target *target, enum lab_reach reach)
{
    static const struct lab_band none = {NAN, NAN, NAN, NAN, 0};
    return lab_target_is_reached(target, reach) ? &target->cost[reach] : &none;
}

static void put_misses(const struct lab_target *target, FILE *out)
{
    const size_t seen = target->cost[LAB_REACH_BYTES].seen;
    if (seen == target->of)
        fputs(" all", out);
    else if (seen)
        fprintf(out, " \"%zu of %zu seeds\"", seen, target->of);
    else
        fputs(" \"never\"", out);
}

static void put_target(const struct lab_run_results *results, double accuracy, struct cost *costs, FILE *out)
{
    size_t count = 0;
    for (size_t i = 0; i < results->n_cases; i++)
        for (size_t t = 0; t < results->cases[i].n_targets; t++)
            if (results->cases[i].targets[t].accuracy == accuracy && results->cases[i].targets[t].of)
                costs[count++] = (struct cost){&results->cases[i], &results->cases[i].targets[t]};
    qsort(costs, count, sizeof *costs, by_bytes);
    fprintf(
        out,
        "# accuracy %g: label, then the mean and the ends of its 95%% confidence interval of bytes, of seconds; who reached it\n",
        accuracy);
    for (size_t i = 0; i < count; i++) {
        const struct lab_target *target = costs[i].target;
        put_text(costs[i].c->label, out);
        put_band(reached_by_all(target, LAB_REACH_BYTES), out);
        put_band(reached_by_all(target, LAB_REACH_TIME), out);
        put_misses(target, out);
        fputc('\n', out);
    }
}

enum base_error lab_plot_targets(const struct lab_run_results *results, FILE *out)
{
    double accuracies[16];
    size_t count = lab_targets_of(results, accuracies, 16), room = 1;
    for (size_t i = 0; i < results->n_cases; i++)
        room += results->cases[i].n_targets;
    struct cost *costs = malloc(room * sizeof *costs);
    if (!costs)
        return BASE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        fputs(i ? "\n\n" : "", out);
        put_target(results, accuracies[i], costs, out);
    }
    free(costs);
    return BASE_OK;
}
