// The functions of apply_body.h that a path may replace, in plain C.
#ifndef KERNELS_CPU_APPLY_PLAIN_H
#define KERNELS_CPU_APPLY_PLAIN_H

#include "base/hash.h"
#include "kernels/cpu/bits.h"

#include <stdbool.h>
#include <stddef.h>

// The change of the hash when elements change from `before` to `after`.
static inline uint64_t plain_hash_change(size_t count, const uint32_t *index, const float *before,
                                         const float *after)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += base_hash_element(index[i], after[i]) - base_hash_element(index[i], before[i]);
    return sum;
}

// The hash of elements at first, first + 1, ...; `mask` selects the bits that are hashed.
static inline uint64_t plain_hash_run(size_t count, const float *x, size_t first, uint32_t mask)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += base_hash_element(first + i, float_of(bits_of(x[i]) & mask));
    return sum;
}

#endif
