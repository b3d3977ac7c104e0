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
    put(band->low, out);
    put(band->high, out);
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
        "# round step bytes time, then mean low high of accuracy, worst, loss, consensus, mean, train_loss\n",
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

size_t lab_plot_accuracies(const struct lab_run_results *results, double *accuracies, size_t most)
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

struct cost {
    const struct lab_case *c;
    const struct lab_target *target;
};

static int by_bytes(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    double of_x = x->target->cost[LAB_REACH_BYTES].mean, of_y = y->target->cost[LAB_REACH_BYTES].mean;
    if (isnan(of_x) || isnan(of_y))
        return isnan(of_x) - isnan(of_y);
    return (of_x > of_y) - (of_x < of_y);
}

static void put_target(const struct lab_run_results *results, double accuracy, struct cost *costs, FILE *out)
{
    size_t count = 0;
    for (size_t i = 0; i < results->n_cases; i++)
        for (size_t t = 0; t < results->cases[i].n_targets; t++)
            if (results->cases[i].targets[t].accuracy == accuracy && results->cases[i].targets[t].of)
                costs[count++] = (struct cost){&results->cases[i], &results->cases[i].targets[t]};
    qsort(costs, count, sizeof *costs, by_bytes);
    fprintf(out, "# accuracy %g: label, then mean low high of bytes, of seconds\n", accuracy);
    for (size_t i = 0; i < count; i++) {
        put_text(costs[i].c->label, out);
        put_band(&costs[i].target->cost[LAB_REACH_BYTES], out);
        put_band(&costs[i].target->cost[LAB_REACH_TIME], out);
        fputc('\n', out);
    }
}

enum base_error lab_plot_targets(const struct lab_run_results *results, FILE *out)
{
    double accuracies[16];
    size_t count = lab_plot_accuracies(results, accuracies, 16), room = 1;
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
