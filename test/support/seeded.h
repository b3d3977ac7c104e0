// The random numbers of a test: from P2PML_SEED or its own seed, printed either way.
#ifndef TEST_SUPPORT_SEEDED_H
#define TEST_SUPPORT_SEEDED_H

#include "base/rng.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static struct base_rng rng;

static inline void seeded_begin(uint64_t own)
{
    const char *given = getenv("P2PML_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 0) : own;
    printf("seed %llu (P2PML_SEED sets another)\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
}

static inline void fill(void *data, size_t bytes)
{
    uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)base_rng_u64(&rng);
}

#endif
