// Growing arrays whose capacity follows from their count; order and median of numbers.
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

// Room for one more item behind `count` of them: memory grows where count is 0 or a power of two. Returns the
// array, which may have moved. NULL: out of memory, and `items` is as it was.
void *base_array_grow(void *items, size_t count, size_t item_bytes);
// Copies one item behind the *count of an array that grows so. `array`: address of its pointer. False: out of
// memory, and nothing has changed.
bool base_array_add(void *array, size_t *count, const void *item, size_t item_bytes);

int base_order_u64(const void *a, const void *b); // for qsort, ascending
int base_order_f64(const void *a, const void *b); // without NaN
// The mean of the two in the middle if `count` is even; NaN for 0. Sorts the values, which hold no NaN.
double base_median(double *values, size_t count);

#endif
