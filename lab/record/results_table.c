// Mean and spread over the seeds of each point, as text.
#include "lab/record/progress.h"
#include "lab/record/results_private.h"

#include "base/array.h"
#include "lab/record/band.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES  160u
#define CELL_WIDTH  26
#define POINT_WIDTH 44

enum { ACCURACY, WORST, CONSENSUS, LOSS, WORST_LOSS, SENT, TIME, TARGET, COLUMNS };
struct cell { // of the complete runs of a point that have the number
    double *values;
    size_t count;
};
struct point {
    const json_t *settings; // of the rows
    size_t runs, complete, ended;
    struct cell cells[COLUMNS];
};

bool lab_results_has_ended(const json_t *row)
{
    const char *status = json_string_value(json_object_get(row, "status"));
    return status && strcmp(status, "waiting") != 0 && strcmp(status, "interrupted") != 0;
}

bool lab_results_are_r2(const json_t *rows)
{
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const char *measure = json_string_value(json_object_get(row, "measure"));
        if (measure)
            return strcmp(measure, "R2") == 0;
    }
    return false;
}

static void add(struct cell *cell, const json_t *value)
{
    const double number = json_number_value(value);
    if (json_is_number(value))
        (void)base_array_add(&cell->values, &cell->count, &number, sizeof number); // else it has one run less
}

static void add_row(struct point *point, const json_t *row)
{
    const char *status = json_string_value(json_object_get(row, "status"));
    const json_t *target = json_array_get(json_object_get(row, "targets"), 0);
    point->runs++;
    point->ended += lab_results_has_ended(row);
    if (!status || strcmp(status, "complete") != 0)
        return;
    point->complete++;
    add(&point->cells[ACCURACY], json_object_get(row, "accuracy"));
    add(&point->cells[WORST], json_object_get(row, "worst"));
    add(&point->cells[CONSENSUS], json_object_get(row, "consensus"));
    add(&point->cells[LOSS], json_object_get(row, "loss"));
    add(&point->cells[WORST_LOSS], json_object_get(row, "worst_loss"));
    add(&point->cells[SENT], json_object_get(row, "bytes"));
    add(&point->cells[TIME], json_object_get(row, "seconds"));
    add(&point->cells[TARGET], json_object_get(target, "averaged_bytes"));
}

static void print_bytes(double value, char text[LAB_NUMBER_BYTES])
{
    lab_print_bytes((uint64_t)value, text);
}

static void print_seconds(double value, char text[LAB_NUMBER_BYTES])
{
    snprintf(text, LAB_NUMBER_BYTES, value < 100 ? "%.2f s" : "%.0f s", value);
}

// "93.2% +-0.3%"; "-": no run has it. `of`: the number of runs that have ended.
static void print_cell(const struct cell *cell, size_t of, void (*print)(double, char[LAB_NUMBER_BYTES]),
                       char text[CELL_BYTES])
{
    char mean[LAB_NUMBER_BYTES], half[LAB_NUMBER_BYTES], some[48] = "";
    const struct lab_band band = lab_band_of(cell->values, cell->count);
    if (!band.seen) {
        snprintf(text, CELL_BYTES, "-");
        return;
    }
    print(band.mean, mean);
    if (band.seen < of)
        snprintf(some, sizeof some, " %zu of %zu", band.seen, of);
    if (isnan(band.half)) {
        snprintf(text, CELL_BYTES, "%s%s", mean, some);
        return;
    }
    print(band.half, half);
    snprintf(text, CELL_BYTES, "%s +-%s%s", mean, half, some);
}

// A mean over the seeds that happened to reach a target says nothing about the others.
static void print_target(const struct cell *cell, size_t of, char text[CELL_BYTES])
{
    if (cell->count && cell->count < of)
        snprintf(text, CELL_BYTES, "%zu of %zu", cell->count, of);
    else
        print_cell(cell, of, print_bytes, text);
}

// "topology.kind, average.ratio" or, with `values`, "ring, 1/32"; `none` if there are no settings.
static void join(const json_t *settings, bool values, const char *none, char *text, size_t capacity)
{
    const char *key;
    json_t *value;
    size_t used = 0;
    snprintf(text, capacity, "%s", none);
    json_object_foreach((json_t *)settings, key, value) {
        if (used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "",
                                     values ? json_string_value(value) : key);
    }
}

// Columns without data are hidden; the distance of models is shown only where there is no accuracy, losses
// only where no run has reached a target.
static void choose_columns(const struct point *points, size_t n_points, bool shown[COLUMNS])
{
    for (size_t c = 0; c < COLUMNS; c++) {
        shown[c] = false;
        for (size_t k = 0; k < n_points; k++)
            shown[c] = shown[c] || points[k].cells[c].count;
    }
    shown[CONSENSUS] = shown[CONSENSUS] && !shown[ACCURACY];
    shown[LOSS] = shown[LOSS] && !shown[TARGET];
    shown[WORST_LOSS] = shown[WORST_LOSS] && !shown[TARGET];
}

// Prints a cell; `gap`: unused width of the previous column. Returns the unused width of this one.
static int print_behind(int gap, const char *cell, FILE *out)
{
    int width = (int)strlen(cell);
    fprintf(out, "  %*s%s", gap, "", cell);
    return width < CELL_WIDTH ? CELL_WIDTH - width : 0;
}

static void print_row(const struct point *point, const bool shown[COLUMNS], bool r2, FILE *out)
{
    static void (*const print[COLUMNS])(double, char[LAB_NUMBER_BYTES]) = {
        [ACCURACY] = lab_print_percent, [WORST] = lab_print_percent,   [CONSENSUS] = lab_print_real,
        [LOSS] = lab_print_real,        [WORST_LOSS] = lab_print_real, [SENT] = print_bytes,
        [TIME] = print_seconds,         [TARGET] = print_bytes};
    char name[POINT_WIDTH + 1], runs[LAB_NUMBER_BYTES], cell[CELL_BYTES];
    int gap = 0;
    join(point->settings, true, "all", name, sizeof name);
    snprintf(runs, sizeof runs, "%zu/%zu", point->complete, point->runs);
    fprintf(out, "  %-*s %7s", POINT_WIDTH, name, runs);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (i == TARGET)
            print_target(&point->cells[i], point->ended, cell);
        else
            print_cell(&point->cells[i], point->complete, r2 && i <= WORST ? lab_print_real : print[i], cell);
        if (shown[i])
            gap = print_behind(gap, cell, out);
    }
    fputc('\n', out);
}

static void print_heading(const json_t *rows, const bool shown[COLUMNS], FILE *out)
{
    const char *names[COLUMNS] = {
        "averaged model", "worst node", "consensus distance", "loss", "worst node's loss", "sent",
        "time",           NULL};
    char target[64] = "bytes to target", keys[POINT_WIDTH + 1];
    int gap = 0;
    const json_t *first = json_array_get(rows, 0);
    const json_t *accuracy =
        json_object_get(json_array_get(json_object_get(first, "targets"), 0), "accuracy");
    if (json_is_number(accuracy))
        snprintf(target, sizeof target, lab_results_are_r2(rows) ? "bytes to R2 %g" : "bytes to %g%%",
                 (lab_results_are_r2(rows) ? 1 : 100) * json_number_value(accuracy));
    names[TARGET] = target;
    join(json_object_get(first, "settings"), false, "", keys, sizeof keys);
    fprintf(
        out,
        "\nmean and 95%% confidence interval over the seeds; a target counts when all seeds reach it\n  %-*s %7s",
        POINT_WIDTH, keys, "runs");
    for (size_t i = 0; i < COLUMNS; i++)
        if (shown[i])
            gap = print_behind(gap, names[i], out);
    fputc('\n', out);
}

void lab_results_print(const json_t *rows, FILE *out)
{
    size_t n_points = 0, i;
    const json_t *row;
    struct point *points = calloc(json_array_size(rows) + 1, sizeof *points);
    if (!points)
        return;
    json_array_foreach(rows, i, row) {
        const json_t *settings = json_object_get(row, "settings");
        size_t k = 0;
        while (k < n_points && !json_equal(points[k].settings, settings))
            k++;
        n_points += k == n_points;
        points[k].settings = settings;
        add_row(&points[k], row);
    }
    bool shown[COLUMNS];
    choose_columns(points, n_points, shown);
    print_heading(rows, shown, out);
    for (size_t k = 0; k < n_points; k++)
        print_row(&points[k], shown, lab_results_are_r2(rows), out);
    for (size_t k = 0; k < n_points; k++)
        for (size_t c = 0; c < COLUMNS; c++)
            free(points[k].cells[c].values);
    free(points);
}
