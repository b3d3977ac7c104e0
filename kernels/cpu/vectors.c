// kernels/vectors.h in plain C, for every path: memory limits all of these functions.
#include "kernels/cpu/cpu.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INFINITE    0x7f800000u // the exponent of infinity and NaN
#define STREAM_FROM (2u << 20)  // elements: vectors this long do not stay in the cache

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void clear(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

static void add(size_t count, float part, const float *from, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] += part * from[i];
}

static void scale(size_t count, float part, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] *= part;
}

static void fade(size_t count, float part, float *x, float *sum)
{
    for (size_t i = 0; i < count; i++) {
        const float left = part * x[i];
        sum[i] += left - x[i];
        x[i] = left;
    }
}

// Stores past the cache, which otherwise reads each line before it is written: 2.8 reads of x instead of 4.6,
// where a copy takes 1.6. Returns how many elements are done.
#if defined(__x86_64__)
static size_t hold_streamed(size_t count, float part, const float *x, const float *r, float *copy_of,
                            float *held)
{
    const __m128 parts = _mm_set1_ps(part);
    size_t i = 0;
    if (count < STREAM_FROM || ((uintptr_t)copy_of | (uintptr_t)held) % sizeof parts)
        return 0;
    for (; i + 4 <= count; i += 4) {
        const __m128 now = _mm_loadu_ps(x + i);
        if (copy_of)
            _mm_stream_ps(copy_of + i, now);
        _mm_stream_ps(held + i, _mm_mul_ps(parts, _mm_sub_ps(now, _mm_loadu_ps(r + i))));
    }
    _mm_sfence(); // before another thread is told of them
    return i;
}
#else
static size_t hold_streamed(size_t count, float part, const float *x, const float *r, float *copy_of,
                            float *held)
{
    (void)count, (void)part, (void)x, (void)r, (void)copy_of, (void)held;
    return 0;
}
#endif

static void hold(size_t count, float part, const float *x, const float *r, float *copy_of, float *held)
{
    for (size_t i = hold_streamed(count, part, x, r, copy_of, held); i < count; i++) {
        const float now = x[i];
        if (copy_of)
            copy_of[i] = now;
        held[i] = part * (now - r[i]);
    }
}

static bool give_back(size_t count, const float *held, float *x)
{
    uint32_t seen = 0; // an exponent of ones carries into the sign
    for (size_t i = 0; i < count; i++) {
        const float sum = x[i] + held[i];
        uint32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        seen |= (bits & INFINITE) + (INFINITE & -INFINITE);
        x[i] = sum;
    }
    return !(seen >> 31);
}

static float settle(size_t count, const float *pending, float *v)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        const float sum = pending ? v[i] + pending[i] : v[i];
        const float least = v[i] > 0 ? 0.25f * v[i] : 0;
        v[i] = sum > least ? sum : least;
        largest = v[i] > largest ? v[i] : largest;
    }
    return largest;
}

static void moments(const struct kernels_moments *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const float force = 0.5f * (m->theirs[i] - m->mine[i]), before = m->v[i];
        const float least = before > 0 ? 0.25f * before : 0;
        const float after = before + force > least ? before + force : least;
        m->v[i] = after;
        if (m->pending)
            m->pending[i] += m->whole ? force : after - before;
    }
}

static double energy(size_t count, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double rest = y ? (double)x[i] - (double)y[i] : 0;
        sum += y ? (double)x[i] * (double)x[i] - rest * rest : (double)x[i] * (double)x[i];
    }
    return sum;
}

const struct kernels_vectors kernels_cpu_vectors = {.copy = copy,
                                                    .clear = clear,
                                                    .add = add,
                                                    .scale = scale,
                                                    .fade = fade,
                                                    .hold = hold,
                                                    .give_back = give_back,
                                                    .settle = settle,
                                                    .moments = moments,
                                                    .energy = energy};
