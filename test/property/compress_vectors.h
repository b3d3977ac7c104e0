// Vectors of many kinds for the property tests of compress/, and the seed that makes them.
#ifndef TEST_PROPERTY_COMPRESS_VECTORS_H
#define TEST_PROPERTY_COMPRESS_VECTORS_H

#include "base/rng.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum vector_kind {
    VECTOR_GAUSSIAN,
    VECTOR_HEAVY_TAILED,
    VECTOR_MOSTLY_ZERO,
    VECTOR_CONSTANT,
    VECTOR_TIES,
    VECTOR_DENORMAL,
    VECTOR_ANY_EXPONENT,
    VECTOR_LARGEST,
    VECTOR_CLUSTERED,
    VECTOR_KINDS
};

static inline uint64_t vectors_seed(void)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20260131;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline float vector_element(struct base_rng *rng, enum vector_kind kind, size_t i, size_t count)
{
    float normal = (float)base_rng_normal(rng);
    float sign = base_rng_below(rng, 2) ? 1.0f : -1.0f;
    switch (kind) {
    case VECTOR_GAUSSIAN:
        return normal;
    case VECTOR_HEAVY_TAILED: // Cauchy-like, cut off at 1e30
        return fminf(fmaxf(normal / (float)(base_rng_uniform(rng) + 1e-20), -1e30f), 1e30f);
    case VECTOR_MOSTLY_ZERO:
        return base_rng_below(rng, 50) == 0 ? normal : 0.0f * sign;
    case VECTOR_CONSTANT:
        return -0.125f;
    case VECTOR_TIES:
        return sign * (float)base_rng_below(rng, 4);
    case VECTOR_DENORMAL:
        return sign * 0x1p-149f * (float)base_rng_below(rng, 1u << 20);
    case VECTOR_ANY_EXPONENT:
        return sign * ldexpf(1.0f + (float)base_rng_uniform(rng) / 2.0f, (int)base_rng_below(rng, 276) - 149);
    case VECTOR_LARGEST:
        return sign * (base_rng_below(rng, 3) ? FLT_MAX : FLT_MAX * (float)base_rng_uniform(rng));
    case VECTOR_CLUSTERED: // all large elements in one stretch
        return i >= count / 3 && i < count / 3 + count / 20 + 1 ? normal : 1e-6f * normal;
    case VECTOR_KINDS:
        break;
    }
    return 0.0f;
}

static inline void vector_fill(struct base_rng *rng, enum vector_kind kind, float *a, size_t count)
{
    for (size_t i = 0; i < count; i++)
        a[i] = vector_element(rng, kind, i, count);
}

#endif
