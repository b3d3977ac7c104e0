// results.tex: the table of the results for a paper, as a tabular of LaTeX (booktabs).
#include "lab/report/tex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS_MAX 16u

static void put_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\textbackslash{}", out);
        else if (*text == '~' || *text == '^')
            fprintf(out, "\\%c{}", *text);
        else if (strchr("&%$#_{}", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

// "$95.42 \pm 0.11$" with as many decimals as the interval has to two digits; "--": no run has it.
static void put_band(const struct lab_band *band, double unit, int decimals, FILE *out)
{
    fputs(" & ", out);
    if (!band->seen) {
        fputs("--", out);
        return;
    }
    if (band->half > 0)
        decimals = (int)fmin(6, fmax(0, 1 - floor(log10(band->half * unit))));
    fprintf(out, "$%.*f", decimals, band->mean * unit);
    if (!isnan(band->half))
        fprintf(out, " \\pm %.*f", decimals, band->half * unit);
    fputc('$', out);
}

static const struct lab_target *target_of(const struct lab_case *c, double accuracy)
{
    for (size_t i = 0; i < c->n_targets; i++)
        if (c->targets[i].accuracy == accuracy)
            return &c->targets[i];
    return NULL;
}

static void put_target(const struct lab_target *target, FILE *out)
{
    static const struct lab_band none = {.mean = NAN, .half = NAN};
    if (!target || !target->of)
        put_band(&none, 1, 0, out);
    else if (!lab_target_is_reached(target, LAB_REACH_BYTES))
        fprintf(out, " & %zu of %zu", target->cost[LAB_REACH_BYTES].seen, target->of);
    else
        put_band(&target->cost[LAB_REACH_BYTES], 1e-6, 2, out);
}

static void put_case(const struct lab_case *c, const double *targets, size_t n_targets, double percent,
                     FILE *out)
{
    put_text(c->label, out);
    fprintf(out, " & %zu", c->n_records);
    put_band(&c->values[LAB_VALUE_ACCURACY], percent, percent > 1 ? 2 : 4, out);
    put_band(&c->values[LAB_VALUE_WORST], percent, percent > 1 ? 2 : 4, out);
    put_band(&c->values[LAB_VALUE_BYTES], 1e-6, 2, out);
    put_band(&c->values[LAB_VALUE_SECONDS], 1, 1, out);
    for (size_t i = 0; i < n_targets; i++)
        put_target(target_of(c, targets[i]), out);
    fputs(" \\\\\n", out);
}

struct place {
    const struct lab_case *c;
    double cost; // of the highest target; INFINITY: not reached by all seeds
};

static int by_cost(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->c > y->c) - (x->c < y->c);
}

static struct place place_of(const struct lab_case *c, double highest)
{
    const struct lab_target *target = target_of(c, highest);
    const bool reached = target && lab_target_is_reached(target, LAB_REACH_BYTES);
    return (struct place){c, reached ? target->cost[LAB_REACH_BYTES].mean : INFINITY};
}

static void put_head(const struct lab_run_results *results, const double *targets, size_t n_targets,
                     FILE *out)
{
    const char *measure = results->regression ? "$R^2$" : "accuracy (\\%)";
    fputs(
        "% \\usepackage{booktabs}. Mean and half-width of its 95% confidence interval (Student's t) over the seeds.\n"
        "% \"1 of 5\": so many of the seeds reached the target. Sorted by the bytes to the highest target.\n"
        "\\begin{tabular}{lrrrrr",
        out);
    for (size_t i = 0; i < n_targets; i++)
        fputc('r', out);
    fprintf(out, "}\n\\toprule\n & $n$ & %s & worst node & sent (MB) & time (s)", measure);
    for (size_t i = 0; i < n_targets; i++)
        fprintf(out, " & MB to %g%s", (results->regression ? 1 : 100) * targets[i],
                results->regression ? "" : "\\%");
    fputs(" \\\\\n\\midrule\n", out);
}

enum base_error lab_tex_write(const struct lab_run_results *results, FILE *out)
{
    double targets[TARGETS_MAX];
    const size_t n_targets = lab_targets_of(results, targets, TARGETS_MAX);
    struct place *places = calloc(results->n_cases + 1, sizeof *places);
    if (!places)
        return BASE_ENOMEM;
    for (size_t i = 0; i < results->n_cases; i++)
        places[i] = place_of(&results->cases[i], n_targets ? targets[n_targets - 1] : NAN);
    qsort(places, results->n_cases, sizeof *places, by_cost);
    put_head(results, targets, n_targets, out);
    for (size_t i = 0; i < results->n_cases; i++)
        put_case(places[i].c, targets, n_targets, results->regression ? 1 : 100, out);
    fputs("\\bottomrule\n\\end{tabular}\n", out);
    free(places);
    return BASE_OK;
}
