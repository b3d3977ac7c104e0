// Rows of an array for a model that is used.
#include "train/npy_private.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct train_npy_rows {
    struct train_npy_array x;
    uint8_t *owned; // the member of a .npz, unpacked, or NULL
    size_t features, next;
};

bool train_npy_is_file(const void *bytes, size_t count)
{
    return count >= 6 && (memcmp(bytes, "\x93NUMPY", 6) == 0 || memcmp(bytes, "PK\3\4", 4) == 0);
}

enum base_error train_npy_rows_open(const char *name, const void *bytes, size_t count, size_t features,
                                    struct train_npy_rows **out, struct base_reason *why)
{
    struct train_bytes file = {name, bytes, count}, array = file;
    struct train_npy_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to read it", name);
    rows->features = features;
    enum base_error error = BASE_OK;
    if (count >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        error = train_zip_member(&file, "x.npy", &array, &rows->owned, why);
    if (!error)
        error = train_npy_open(&array, &rows->x, why);
    if (!error && (rows->x.axes == 0 || rows->x.count != rows->x.shape[0] * features))
        error = base_fail(
            why, BASE_EMISMATCH,
            "%s: found %zu numbers in %zu rows, expected %zu a row, the number of the model's inputs", name,
            rows->x.count, rows->x.axes ? rows->x.shape[0] : 1, features);
    if (error)
        train_npy_rows_close(rows);
    else
        *out = rows;
    return error;
}

enum base_error train_npy_rows_next(struct train_npy_rows *rows, double *x, bool *more,
                                    struct base_reason *why)
{
    *more = rows->next < rows->x.shape[0];
    for (size_t i = 0; *more && i < rows->features; i++) {
        x[i] = train_npy_value(&rows->x, rows->next * rows->features + i);
        if (!(fabs(x[i]) <= (double)FLT_MAX))
            return base_fail(why, BASE_EFORMAT,
                             "%s: x of example %zu, number %zu in it, is %g, expected a finite 32-bit float",
                             rows->x.name, rows->next, i, x[i]);
    }
    rows->next += *more;
    return BASE_OK;
}

void train_npy_rows_close(struct train_npy_rows *rows)
{
    if (rows)
        free(rows->owned);
    free(rows);
}
