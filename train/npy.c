// Arrays x and y as a data set.
#include "train/npy.h"
#include "base/limits.h"
#include "train/npy_private.h"
#include "train/unpack.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 9007199254740992.0 // 2^53: above it, not every whole number is exact

static enum base_error check_shapes(const struct train_npy_array *x, const struct train_npy_array *y,
                                    bool regression, struct base_reason *why)
{
    if (x->axes == 0 || y->axes == 0)
        return base_fail(why, BASE_EFORMAT, "%s: found a single number, expected an array of examples",
                         x->axes == 0 ? x->name : y->name);
    if (x->shape[0] != y->shape[0])
        return base_fail(why, BASE_EMISMATCH,
                         "%s has %zu examples, but %s has %zu: they do not belong together (y)", x->name,
                         x->shape[0], y->name, y->shape[0]);
    if (y->axes > 2 || (!regression && y->count != y->shape[0]))
        return base_fail(why, BASE_EFORMAT, "%s: found y with %zu values per example, expected %s", y->name,
                         y->count / y->shape[0],
                         regression ? "y[examples] or y[examples, outputs]"
                                    : "one class per example (several targets need model.loss mse or mae)");
    return BASE_OK;
}

static enum base_error take(const struct train_npy_array *array, const char *what, size_t index,
                            double *value, struct base_reason *why)
{
    const double found = train_npy_value(array, index);
    const size_t width = array->count / array->shape[0];
    *value = found;
    if (isfinite(found) && fabs(found) <= (double)FLT_MAX)
        return BASE_OK;
    return base_fail(why, BASE_EFORMAT,
                     "%s: %s of example %zu, number %zu in it, is %g, expected a finite 32-bit float",
                     array->name, what, index / width, index % width, found);
}

static int order_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum base_error sort_values(const struct train_npy_array *y, double **out, size_t *count,
                                   struct base_reason *why)
{
    double *values = malloc(y->count * sizeof *values);
    size_t kept = 0;
    if (!values)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu classes", y->name, y->count);
    for (size_t i = 0; i < y->count; i++) {
        values[i] = train_npy_value(y, i);
        if (!(fabs(values[i]) <= EXACT) || values[i] != floor(values[i])) {
            const enum base_error error = base_fail(why, BASE_EFORMAT,
                                                    "%s: y of example %zu is %g, expected a class "
                                                    "as a whole number; for a quantity set model.loss mse",
                                                    y->name, i, values[i]);
            free(values);
            return error;
        }
    }
    qsort(values, y->count, sizeof *values, order_values);
    for (size_t i = 0; i < y->count; i++)
        if (i == 0 || values[i] > values[kept - 1])
            values[kept++] = values[i];
    *out = values;
    *count = kept;
    return BASE_OK;
}

static enum base_error name_classes(const struct train_npy_array *y, struct train_meaning *meaning,
                                    struct base_reason *why)
{
    double *values = NULL;
    size_t count = 0;
    enum base_error error = sort_values(y, &values, &count, why);
    if (!error && (count < 2 || count > LIMIT_CLASSES))
        error = base_fail(why, BASE_EFORMAT, "%s: found %zu different classes in y, expected 2 to %u",
                          y->name, count, LIMIT_CLASSES);
    for (size_t i = 0; !error && i < count; i++) {
        char text[32];
        const int length = snprintf(text, sizeof text, "%" PRId64, (int64_t)values[i]);
        if (!train_names_add(&meaning->classes, text, (size_t)length))
            error = base_fail(why, BASE_ENOMEM, "%s: no memory for %zu classes", y->name, count);
    }
    free(values);
    return error;
}

static enum base_error make_meaning(const struct train_npy_array *x, const struct train_npy_array *y,
                                    bool regression, struct train_meaning *like, struct train_meaning **out,
                                    struct base_reason *why)
{
    const size_t features = x->count / x->shape[0], outputs = y->count / y->shape[0];
    const size_t named = !like ? 0 : regression ? like->targets.count : like->classes.count;
    if (like && (like->features != features || named == 0 || (regression && named != outputs)))
        return base_fail(why, BASE_EMISMATCH,
                         "%s: found %zu features and %zu outputs, the training examples have others", x->name,
                         features, outputs);
    struct train_meaning *meaning = like ? train_meaning_share(like) : train_meaning_create(features);
    enum base_error error = meaning ? BASE_OK : base_fail(why, BASE_ENOMEM, "%s: no memory", x->name);
    if (!error && !like && !regression)
        error = name_classes(y, meaning, why);
    for (size_t i = 0; !error && !like && regression && i < outputs; i++) {
        char text[32];
        const int length = snprintf(text, sizeof text, "y%zu", i);
        if (!train_names_add(&meaning->targets, text, (size_t)length))
            error = base_fail(why, BASE_ENOMEM, "%s: no memory", x->name);
    }
    if (error)
        train_meaning_release(meaning);
    else
        *out = meaning;
    return error;
}

static enum base_error fill_labels(const struct train_npy_array *y, const struct train_meaning *meaning,
                                   uint32_t *labels, struct base_reason *why)
{
    const size_t count = meaning->classes.count;
    double *values = malloc(count * sizeof *values);
    enum base_error error = values ? BASE_OK : base_fail(why, BASE_ENOMEM, "%s: no memory", y->name);
    for (size_t i = 0; !error && i < count; i++)
        values[i] = strtod(meaning->classes.items[i], NULL);
    for (size_t i = 0; !error && i < y->count; i++) {
        const double value = train_npy_value(y, i);
        const double *found = bsearch(&value, values, count, sizeof *values, order_values);
        if (!found || *found != value)
            error = base_fail(
                why, BASE_EMISMATCH,
                "%s: y of example %zu is %g, expected one of the %zu classes that the training examples have",
                y->name, i, value, count);
        else
            labels[i] = (uint32_t)(found - values);
    }
    free(values);
    return error;
}

static enum base_error fill(const struct train_npy_array *x, const struct train_npy_array *y, bool regression,
                            struct train_dataset *data, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    double value = 0;
    for (size_t i = 0; !error && i < x->count; i++) {
        error = take(x, "x", i, &value, why);
        if (!error)
            error = train_dataset_put(data, i, value, why);
    }
    if (!error && !regression)
        error = fill_labels(y, data->meaning, data->labels, why);
    for (size_t i = 0; !error && regression && i < y->count; i++) {
        error = take(y, "y", i, &value, why);
        if (!error)
            error = train_dataset_put_target(data, i, value, why);
    }
    return error;
}

static enum base_error convert(const struct train_npy_array *x, const struct train_npy_array *y,
                               bool regression, struct train_meaning *like, struct train_dataset *data,
                               struct base_reason *why)
{
    struct train_meaning *meaning = NULL;
    struct train_dataset filled = {0};
    enum base_error error = check_shapes(x, y, regression, why);
    if (!error)
        error = make_meaning(x, y, regression, like, &meaning, why);
    if (error)
        return error;
    const size_t examples = x->shape[0], features = x->count / examples;
    error = train_dataset_allocate(examples, features, regression ? 0 : meaning->classes.count,
                                   regression ? y->count / examples : 0, &filled, why);
    if (error) {
        train_meaning_release(meaning);
        return error;
    }
    filled.meaning = meaning;
    error = fill(x, y, regression, &filled, why);
    if (error)
        train_dataset_destroy(&filled);
    else
        *data = filled;
    return error;
}

enum base_error train_npy_parse(const struct train_bytes *x, const struct train_bytes *y, bool regression,
                                struct train_meaning *like, struct train_dataset *data,
                                struct base_reason *why)
{
    struct train_bytes files[2] = {*x, y ? *y : *x};
    struct train_npy_array arrays[2];
    uint8_t *owned[2] = {NULL, NULL};
    enum base_error error = BASE_OK;
    if (!y) {
        error = train_zip_member(x, "x.npy", &files[0], &owned[0], why);
        if (!error)
            error = train_zip_member(x, "y.npy", &files[1], &owned[1], why);
    }
    for (size_t i = 0; !error && i < 2; i++)
        error = train_npy_open(&files[i], &arrays[i], why);
    if (!error)
        error = convert(&arrays[0], &arrays[1], regression, like, data, why);
    free(owned[0]);
    free(owned[1]);
    return error;
}

enum base_error train_dataset_load_npy(const char *x, const char *y, bool regression,
                                       struct train_meaning *like, struct train_dataset *data,
                                       struct base_reason *why)
{
    struct train_bytes files[2];
    uint8_t *owned[2] = {NULL, NULL};
    enum base_error error = train_unpack_file(x, &files[0], &owned[0], why);
    if (!error && y)
        error = train_unpack_file(y, &files[1], &owned[1], why);
    if (!error)
        error = train_npy_parse(&files[0], y ? &files[1] : NULL, regression, like, data, why);
    free(owned[0]);
    free(owned[1]);
    return error;
}
