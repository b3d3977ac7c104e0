// Activations of kernels/decoder.h for tests: fp32 or bf16 as the table stores them, with their values on the
// host and guards behind their ends.
#ifndef TEST_UNIT_KERNELS_ACTIVATIONS_H
#define TEST_UNIT_KERNELS_ACTIVATIONS_H

#include "test/unit/kernels_checks_sequence.h"

#include "kernels/cpu/cpu.h"

struct acts { // activations
    size_t count;
    float *host; // their values
    void *device;
};

enum { ACTS_GUARD = 64, ACTS_POISON = 0x7f }; // bytes behind the end, and of what must be written

static inline size_t acts_bytes(const struct kernels *k, size_t count)
{
    return count * k->decoder->activation_bytes;
}

static inline struct acts acts_blank(const struct kernels *k, size_t count)
{
    const size_t bytes = acts_bytes(k, count) + ACTS_GUARD;
    unsigned char *blank = malloc(bytes);
    struct acts a = {count, calloc(count + 1, sizeof(float)), k->alloc(bytes)};
    assert_true(blank && a.host && a.device);
    memset(blank, ACTS_POISON, bytes);
    k->upload(a.device, blank, bytes);
    free(blank);
    return a;
}

static inline uint16_t acts_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float acts_wide(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline struct acts acts_gaussian(const struct kernels *k, size_t count, double scale)
{
    struct acts a = acts_blank(k, count);
    const bool narrow = k->decoder->activation_bytes == sizeof(uint16_t);
    uint16_t *halves = calloc(count + 1, sizeof *halves);
    assert_non_null(halves);
    for (size_t i = 0; i < count; i++) {
        a.host[i] = (float)(scale * base_rng_normal(&checks_rng));
        halves[i] = acts_half(a.host[i]);
        a.host[i] = narrow ? acts_wide(halves[i]) : a.host[i];
    }
    k->upload(a.device, narrow ? (void *)halves : (void *)a.host, acts_bytes(k, count));
    free(halves);
    return a;
}

// Reads the activations into a.host; nothing may have been written behind them.
static inline void acts_fetch(const struct kernels *k, struct acts *a)
{
    const size_t bytes = acts_bytes(k, a->count);
    unsigned char *raw = malloc(bytes + ACTS_GUARD);
    assert_non_null(raw);
    k->wait();
    k->download(raw, a->device, bytes + ACTS_GUARD);
    for (size_t i = 0; i < ACTS_GUARD; i++) {
        assert_int_equal(raw[bytes + i], ACTS_POISON);
    }
    for (size_t i = 0; i < a->count; i++) {
        uint16_t half;
        memcpy(&half, raw + i * sizeof half, sizeof half);
        if (k->decoder->activation_bytes == sizeof half) {
            a->host[i] = acts_wide(half);
        } else {
            memcpy(&a->host[i], raw + i * sizeof(float), sizeof(float));
        }
    }
    free(raw);
}

static inline void acts_free(const struct kernels *k, struct acts *a)
{
    k->release(a->device);
    free(a->host);
}

// |found - expected| <= tolerance * |expected|, as norms; bf16 rounds to 2^-9, and some results are made of
// rounded ones.
static inline void acts_near(const char *what, const struct kernels *k, size_t count, const float *found,
                             const double *expected)
{
    double off = 0.0, all = 1e-30;
    for (size_t i = 0; i < count; i++) {
        off += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        all += expected[i] * expected[i];
    }
    const double tolerance = k->decoder->activation_bytes == sizeof(float) ? 2e-6 : 8e-3;
    if (!(sqrt(off / all) <= tolerance)) {
        fail_msg("%s, %zu numbers: off by %.3g of the norm, expected at most %.3g", what, count,
                 sqrt(off / all), tolerance);
    }
}

static inline void acts_compare(const char *what, const struct kernels *k, struct acts *a,
                                const double *expected)
{
    acts_fetch(k, a);
    acts_near(what, k, a->count, a->host, expected);
}

static inline void acts_compare_floats(const char *what, const struct kernels *k,
                                       const struct checks_vector *v, const double *expected)
{
    float *found = checks_result(k, v);
    acts_near(what, k, v->count, found, expected);
    free(found);
}

static inline double *acts_doubles(const float *from, size_t count)
{
    double *to = doubles(count);
    for (size_t i = 0; i < count; i++) {
        to[i] = (double)from[i];
    }
    return to;
}

#endif
