// The names of the points of a sweep, for display and for files.
#include "base/hash.h"
#include "lab/sweep/sweep_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_BYTES 9u // "~" and 8 digits

const char *lab_sweep_value(const struct lab_sweep_plan *plan, size_t point, size_t axis)
{
    const struct lab_sweep_axis *a = &plan->axes[axis];
    return a->values[point / a->stride % a->count];
}

static char *text_of(const struct lab_sweep_plan *plan, size_t point)
{
    size_t bytes = 1;
    for (size_t i = 0; i < plan->n_axes; i++)
        bytes += strlen(plan->axes[i].key) + strlen(lab_sweep_value(plan, point, i)) + 2;
    char *text = malloc(bytes), *end = text;
    if (!text)
        return NULL;
    *end = 0;
    for (size_t i = 0; i < plan->n_axes; i++) {
        end = stpcpy(stpcpy(end, i ? "," : ""), plan->axes[i].key);
        end = stpcpy(stpcpy(end, "="), lab_sweep_value(plan, point, i));
    }
    return text;
}

static void add_hash(struct lab_sweep_point *point)
{
    size_t length = strlen(point->label);
    if (length > LAB_SWEEP_POINT_BYTES - 1 - HASH_BYTES)
        length = LAB_SWEEP_POINT_BYTES - 1 - HASH_BYTES;
    snprintf(point->label + length, HASH_BYTES + 1, "~%08" PRIx32,
             (uint32_t)base_hash_bytes(0, point->text, strlen(point->text)));
}

// Appends the characters allowed in a file name; false: there is no room.
static bool append(struct lab_sweep_point *point, const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=+-";
    size_t used = strlen(point->label);
    for (; *text && used + 1 < LAB_SWEEP_POINT_BYTES; text++)
        if (!strchr(" \t[]{}\"'", *text))
            point->label[used++] = *text == ',' ? '+' : strchr(safe, *text) ? *text : '_';
    point->label[used] = 0;
    return !*text;
}

static void name_point(const struct lab_sweep_plan *plan, struct lab_sweep_point *point)
{
    bool whole = true;
    for (size_t i = 0; i < plan->n_axes && whole; i++) {
        size_t used = strlen(point->label);
        if (i && used + 1 < LAB_SWEEP_POINT_BYTES)
            memcpy(point->label + used, ",", 2);
        whole = append(point, plan->axes[i].key) && append(point, "=") &&
                append(point, lab_sweep_value(plan, (size_t)(point - plan->points), i));
    }
    if (!whole)
        add_hash(point);
}

static int by_text(const void *a, const void *b)
{
    const struct lab_sweep_point *const *one = a, *const *other = b;
    return strcmp((*one)->text, (*other)->text);
}

static int by_label(const void *a, const void *b)
{
    const struct lab_sweep_point *const *one = a, *const *other = b;
    return strcmp((*one)->label, (*other)->label);
}

static enum base_error refuse_duplicates(const struct lab_sweep_plan *plan, struct lab_sweep_point **order,
                                         struct base_reason *why)
{
    qsort(order, plan->n_points, sizeof *order, by_text);
    for (size_t i = 1; i < plan->n_points; i++)
        if (by_text(&order[i - 1], &order[i]) == 0)
            return base_fail(why, BASE_EINVAL, "%s: sweep: found %.200s twice, expected every point once",
                             plan->axes[0].origins[0], order[i]->text);
    return BASE_OK;
}

static void part_namesakes(const struct lab_sweep_plan *plan, struct lab_sweep_point **order)
{
    qsort(order, plan->n_points, sizeof *order, by_label);
    for (size_t i = 0; i < plan->n_points;) {
        size_t end = i + 1;
        while (end < plan->n_points && by_label(&order[i], &order[end]) == 0)
            end++;
        for (size_t k = i; k < end && end - i > 1; k++)
            add_hash(order[k]);
        i = end;
    }
}

enum base_error lab_sweep_labels_make(struct lab_sweep_plan *plan, struct base_reason *why)
{
    enum base_error error = BASE_ENOMEM;
    struct lab_sweep_point **order = calloc(plan->n_points, sizeof *order);
    for (size_t i = 0; order && i < plan->n_points; i++) {
        order[i] = &plan->points[i];
        order[i]->text = text_of(plan, i);
        if (!order[i]->text)
            goto out;
        name_point(plan, order[i]);
    }
    if (!order)
        goto out;
    error = refuse_duplicates(plan, order, why);
    if (!error)
        part_namesakes(plan, order);
out:
    free(order);
    return error == BASE_ENOMEM ? base_fail(why, error, "no memory for the points of a sweep") : error;
}
