#include "lab/sweep/sweep_progress.h"

#include "base/array.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BAR_CELLS 20u

static double median_seconds(const struct lab_sweep_plan *plan)
{
    size_t count = 0;
    double *seconds = calloc(plan->n_runs ? plan->n_runs : 1, sizeof *seconds);
    if (!seconds)
        return NAN;
    for (size_t i = 0; i < plan->n_runs; i++)
        if (plan->runs[i].state == LAB_SWEEP_COMPLETE && !isnan(plan->runs[i].seconds))
            seconds[count++] = plan->runs[i].seconds;
    double median = base_median(seconds, count);
    free(seconds);
    return median;
}

size_t lab_sweep_count(const struct lab_sweep_plan *plan, enum lab_sweep_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->n_runs; i++)
        count += plan->runs[i].state == state;
    return count;
}

double lab_sweep_time_left(const struct lab_sweep_plan *plan, const struct lab_sweep_running *running,
                           size_t n_running, size_t at_once)
{
    double median = median_seconds(plan);
    if (isnan(median))
        return NAN;
    double work = (double)lab_sweep_count(plan, LAB_SWEEP_WAITING) * median, longest = 0;
    for (size_t i = 0; i < n_running; i++) { // these still count as waiting
        work -= fmin(running[i].seconds, median);
        longest = fmax(longest, median - running[i].seconds);
    }
    return fmax(longest, work / (double)at_once);
}

void lab_sweep_print_span(double seconds, char text[LAB_SPAN_BYTES])
{
    if (isnan(seconds))
        snprintf(text, LAB_SPAN_BYTES, "-");
    else if (seconds < 60)
        snprintf(text, LAB_SPAN_BYTES, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(text, LAB_SPAN_BYTES, "%.0f min %.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
    else
        snprintf(text, LAB_SPAN_BYTES, "%.0f h %.0f min", floor(seconds / 3600),
                 floor(fmod(seconds, 3600) / 60));
}

static size_t print_head(const struct lab_sweep_plan *plan, double left, char line[LAB_SWEEP_LINE_BYTES])
{
    size_t done = lab_sweep_count(plan, LAB_SWEEP_COMPLETE), failed = lab_sweep_count(plan, LAB_SWEEP_FAILED);
    size_t cells = plan->n_runs ? BAR_CELLS * (done + failed) / plan->n_runs : 0;
    char span[LAB_SPAN_BYTES], failures[32] = "";
    lab_sweep_print_span(left, span);
    if (failed)
        snprintf(failures, sizeof failures, ", %zu failed", failed);
    int used =
        snprintf(line, LAB_SWEEP_LINE_BYTES, "[%.*s%.*s] %zu/%zu%s%s%s", (int)cells, "####################",
                 (int)(BAR_CELLS - cells), "--------------------", done + failed, plan->n_runs, failures,
                 isnan(left) ? "" : ", left: ", isnan(left) ? "" : span);
    return (size_t)used;
}

void lab_sweep_line(const struct lab_sweep_plan *plan, const struct lab_sweep_running *running,
                    size_t n_running, size_t at_once, char line[LAB_SWEEP_LINE_BYTES])
{
    double left = lab_sweep_time_left(plan, running, n_running, at_once);
    size_t used = print_head(plan, left, line);
    for (size_t i = 0; i < n_running && used < LAB_SWEEP_LINE_BYTES; i++) {
        char span[LAB_SPAN_BYTES];
        lab_sweep_print_span(running[i].seconds, span);
        used += (size_t)snprintf(line + used, LAB_SWEEP_LINE_BYTES - used, "%s%s (%s)", i ? ", " : "; now ",
                                 plan->runs[running[i].run].label, span);
    }
}
