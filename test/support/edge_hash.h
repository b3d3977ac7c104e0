// The hash of a vector of an edge, in fp32 or bf16.
#ifndef TEST_SUPPORT_EDGE_HASH_H
#define TEST_SUPPORT_EDGE_HASH_H

#include "base/bf16.h"
#include "base/hash.h"

#include <stddef.h>

// Without a vector: that of zeros.
static inline uint64_t edge_hash(const float *fp32, const uint16_t *bf16, size_t count)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < count; i++)
        hash += base_hash_element(i, fp32 ? fp32[i] : bf16 ? bf16_widen(bf16[i]) : 0);
    return hash;
}

#endif
