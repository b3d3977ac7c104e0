// Growing arrays whose capacity follows from their count; order, extremes and median of numbers.
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Makes room for one more item after `count` items; the memory grows when count is 0 or a power of two.
// Returns the array, which may have moved. NULL: out of memory; `items` is unchanged.
void *base_array_grow(void *items, size_t count, size_t item_bytes);
// Appends a copy of one item to an array of *count items that grows in this way. `array`: the address of the
// pointer to the array. False: out of memory; nothing has changed.
bool base_array_add(void *array, size_t *count, const void *item, size_t item_bytes);

static inline uint64_t base_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t base_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
int base_order_u64(const void *a, const void *b); // comparison for qsort, ascending
int base_order_f64(const void *a, const void *b); // without NaN
// The median: the mean of the two middle values if `count` is even; NaN if it is 0. Sorts the values, which
// must not contain NaN.
double base_median(double *values, size_t count);

#endif
