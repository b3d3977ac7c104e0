#include "base/array.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *base_array_grow(void *items, size_t count, size_t item_bytes)
{
    if (count & (count - 1))
        return items;
    if (count > PTRDIFF_MAX / 2 / item_bytes)
        return NULL;
    return realloc(items, 2 * (count ? count : 1) * item_bytes);
}

bool base_array_add(void *array, size_t *count, const void *item, size_t item_bytes)
{
    char *items;
    memcpy(&items, array, sizeof items);
    items = base_array_grow(items, *count, item_bytes);
    if (!items)
        return false;
    memcpy(items + *count * item_bytes, item, item_bytes);
    memcpy(array, &items, sizeof items);
    ++*count;
    return true;
}

int base_order_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int base_order_f64(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double base_median(double *values, size_t count)
{
    if (count == 0)
        return (double)NAN;
    qsort(values, count, sizeof *values, base_order_f64);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
