// Vectors in the memory of a backend, with guards behind them, and comparisons.
#ifndef TEST_UNIT_KERNELS_VECTORS_H
#define TEST_UNIT_KERNELS_VECTORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD      32u         // floats behind every vector that a kernel writes
#define GUARD_BITS 0x7fabcdefu // a NaN that no kernel makes
#define EPS        ((double)FLT_EPSILON)

static struct base_rng checks_rng;

static inline void checks_seed(void)
{
    const char *text = getenv("P2PML_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 20260131u;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    base_rng_seed(&checks_rng, seed);
}

// Around the borders of 4, 8, 16, 32 and 64 lanes, and one long vector.
static const size_t checks_sizes[] = {
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,  22,  23,  24,  25,
    26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46,  47,  48,  49,  50,
    51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 127, 128, 129, 1000};
#define CHECKS_SIZES (sizeof checks_sizes / sizeof checks_sizes[0])

// A vector: its initial values (host) and its memory (device).
struct checks_vector {
    size_t count;
    float *host;
    float *device;
};

static inline struct checks_vector checks_make(const struct kernels *k, size_t count)
{
    struct checks_vector v = {.count = count};
    const uint32_t guard = GUARD_BITS;
    v.host = malloc((count + GUARD) * sizeof *v.host);
    v.device = k->alloc((count + GUARD) * sizeof *v.host);
    assert_non_null(v.host);
    assert_non_null(v.device);
    for (size_t i = 0; i < GUARD; i++) {
        memcpy(&v.host[count + i], &guard, sizeof guard);
    }
    return v;
}

static inline void checks_send(const struct kernels *k, struct checks_vector *v)
{
    k->upload(v->device, v->host, (v->count + GUARD) * sizeof *v->host);
}

static inline struct checks_vector checks_gaussian(const struct kernels *k, size_t count, double scale)
{
    struct checks_vector v = checks_make(k, count);
    for (size_t i = 0; i < count; i++) {
        v.host[i] = (float)(scale * base_rng_normal(&checks_rng));
    }
    checks_send(k, &v);
    return v;
}

// The vector as the kernel left it; the caller frees it. Fails if anything was written behind its end.
static inline float *checks_result(const struct kernels *k, const struct checks_vector *v)
{
    float *result = malloc((v->count + GUARD) * sizeof *result);
    assert_non_null(result);
    k->wait();
    k->download(result, v->device, (v->count + GUARD) * sizeof *result);
    for (size_t i = 0; i < GUARD; i++) {
        uint32_t bits;
        memcpy(&bits, &result[v->count + i], sizeof bits);
        assert_int_equal(bits, GUARD_BITS);
    }
    return result;
}

static inline void checks_free(const struct kernels *k, struct checks_vector *v)
{
    k->release(v->device);
    free(v->host);
}

static inline void checks_close(const char *what, size_t size, size_t i, double found, double expected,
                                double bound)
{
    if (!(fabs(found - expected) <= bound)) {
        fail_msg("%s, size %zu, element %zu: found %.9g, expected %.9g within %.3g", what, size, i, found,
                 expected, bound);
    }
}

#endif
