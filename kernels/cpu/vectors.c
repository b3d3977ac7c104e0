// kernels/vectors.h in plain C, for every path: memory limits all of these functions.
#include "kernels/cpu/cpu.h"

#include <string.h>

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

static void hold(size_t count, float part, const float *x, const float *r, float *copy_of, float *held)
{
    for (size_t i = 0; i < count; i++) {
        const float now = x[i];
        if (copy_of)
            copy_of[i] = now;
        held[i] = part * (now - r[i]);
    }
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
                                                    .settle = settle,
                                                    .moments = moments,
                                                    .energy = energy};
