// kernels/vectors.h on two backends.
#ifndef TEST_UNIT_KERNELS_TWIN_VECTORS_H
#define TEST_UNIT_KERNELS_TWIN_VECTORS_H

#include "kernels_twin.h"

enum { TWIN_WHOLE = 4 }; // vectors of a call at most

// The result of one function on copies of `host`, each of `count` elements; returns its number.
static inline double twin_vectors_run(const struct kernels *k, unsigned which, float *const host[TWIN_WHOLE],
                                      size_t count, float *out[TWIN_WHOLE])
{
    const struct kernels_vectors *f = k->vectors;
    const size_t bytes = count * sizeof(float), middle = count / 3;
    float *v[TWIN_WHOLE];
    double result = 0;
    for (size_t i = 0; i < TWIN_WHOLE; i++) {
        v[i] = twin_send(k, host[i], bytes);
    }
    const struct kernels_moments m = {count, v[0], v[1], v[2], which == 5 ? NULL : v[3], which == 7};
    switch (which) {
    case 0:
        f->copy(v[1], v[0], bytes);
        f->copy(v[2], v[0] + middle, bytes - middle * sizeof(float));
        f->clear(v[3] + middle, bytes - middle * sizeof(float));
        break;
    case 1:
        f->add(count, -0.3f, v[0], v[1]);
        f->add(count, 1, v[2], v[3]);
        break;
    case 2:
        f->scale(count, 0.7f, v[0]);
        break;
    case 3:
        f->fade(count, 0.9f, v[0], v[1]);
        break;
    case 4:
        result = (double)f->settle(count, v[0], v[1]) + 3 * (double)f->settle(count, NULL, v[2]);
        break;
    case 8:
        f->hold(count, 0.5f, v[0], v[1], v[2], v[3]);
        f->hold(count, 0.3f, v[1], v[3], NULL, v[0]);
        break;
    case 9:
        result = f->give_back(count, v[0], v[1]) + 2 * f->give_back(count / 2, v[2], v[3]);
        break;
    default:
        f->moments(&m);
        break;
    }
    for (size_t i = 0; i < TWIN_WHOLE; i++) {
        out[i] = twin_fetch(k, v[i], bytes);
    }
    return result;
}

static inline void twin_vectors_one(const struct twins *t, unsigned which, float *const host[TWIN_WHOLE],
                                    size_t count)
{
    float *plain[TWIN_WHOLE], *other[TWIN_WHOLE];
    const double expected = twin_vectors_run(t->plain, which, host, count, plain),
                 found = twin_vectors_run(t->other, which, host, count, other);
    assert_memory_equal(&found, &expected, sizeof found);
    for (size_t i = 0; i < TWIN_WHOLE; i++) {
        twin_same("vectors", count, other[i], plain[i], count * sizeof(float));
        free(plain[i]);
        free(other[i]);
    }
}

static inline void twin_energy_one(const struct twins *t, const float *x, const float *y, size_t count)
{
    double sum[2][2];
    for (size_t n = 0; n < 2; n++) {
        const struct kernels *k = n == 0 ? t->plain : t->other;
        float *a = twin_send(k, x, count * sizeof *x), *b = twin_send(k, y, count * sizeof *y);
        sum[n][0] = k->vectors->energy(count, a, NULL);
        sum[n][1] = k->vectors->energy(count, a, b);
        free(twin_fetch(k, a, count * sizeof *x));
        free(twin_fetch(k, b, count * sizeof *y));
    }
    double size = 0; // sum of the magnitudes that are added
    for (size_t i = 0; i < count; i++) {
        size += 2 * ((double)x[i] * (double)x[i] + (double)y[i] * (double)y[i]);
    }
    assert_true(isfinite(size));
    assert_true(fabs(sum[0][0] - sum[1][0]) <= 1e-12 * size && fabs(sum[0][1] - sum[1][1]) <= 1e-12 * size);
}

static inline void checks_twin_vectors(void **state)
{
    const struct twins *t = *state;
    for (size_t s = 0; t->sizes[s] > 0; s++) {
        const size_t count = t->sizes[s];
        float *host[TWIN_WHOLE];
        for (size_t i = 0; i < TWIN_WHOLE; i++) {
            host[i] = malloc(count * sizeof *host[i]);
            assert_non_null(host[i]);
        }
        for (enum twin_data data = 0; data < TWIN_FINITE; data++) {
            for (size_t i = 0; i < TWIN_WHOLE; i++) {
                twin_fill(data, host[i], count);
            }
            for (unsigned which = 0; which < 10; which++) {
                twin_vectors_one(t, which, host, count);
            }
            twin_energy_one(t, host[0], host[1], count);
        }
        for (size_t i = 0; i < TWIN_WHOLE; i++) {
            free(host[i]);
        }
    }
    t->other->vectors->add(0, 1, NULL, NULL);
    t->other->vectors->scale(0, 1, NULL);
    t->other->vectors->hold(0, 1, NULL, NULL, NULL, NULL);
    assert_true(t->other->vectors->give_back(0, NULL, NULL));
    assert_true(t->other->vectors->settle(0, NULL, NULL) == 0 &&
                t->other->vectors->energy(0, NULL, NULL) == 0);
}

// NaN is no moment: it becomes 0. An energy shows it.
static inline void checks_twin_vectors_nan(void **state)
{
    const struct twins *t = *state;
    float values[3] = {1, NAN, -2};
    float *v = twin_send(t->other, values, sizeof values);
    assert_true(isnan(t->other->vectors->energy(3, v, NULL)));
    assert_true(t->other->vectors->settle(3, NULL, v) == 1);
    float *settled = twin_fetch(t->other, v, sizeof values);
    assert_true(settled[0] == 1 && settled[1] == 0 && settled[2] == 0);
    free(settled);
    const float large[3] = {0, 1, 3e38f};
    float *held = twin_send(t->other, large, sizeof large), *x = twin_send(t->other, large, sizeof large),
          *lost = twin_send(t->other, values, sizeof values);
    assert_true(t->other->vectors->give_back(2, held, x));
    assert_false(t->other->vectors->give_back(3, held, x));
    assert_false(t->other->vectors->give_back(2, lost, x));
    free(twin_fetch(t->other, held, sizeof large));
    free(twin_fetch(t->other, lost, sizeof values));
    float *sum = twin_fetch(t->other, x, sizeof large);
    assert_true(sum[0] == 1 && isnan(sum[1]) && isinf(sum[2]));
    free(sum);
}

static inline void twin_vectors_bound(const struct kernels *k)
{
    float v[3] = {8, 8, -1}, theirs[3] = {0, 6, 0}, mine[3] = {100, 10, 0}, pending[3] = {-9, -3, 0};
    float *far[4] = {twin_send(k, v, sizeof v), twin_send(k, theirs, sizeof theirs),
                     twin_send(k, mine, sizeof mine), twin_send(k, pending, sizeof pending)};
    k->vectors->moments(&(struct kernels_moments){.count = 3, .v = far[0], .theirs = far[1], .mine = far[2]});
    k->download(v, far[0], sizeof v);
    assert_true(v[0] == 2 && v[1] == 6 && v[2] == 0);
    assert_true(k->vectors->settle(3, far[3], far[0]) == 3);
    k->download(v, far[0], sizeof v);
    assert_true(v[0] == 0.5f && v[1] == 3 && v[2] == 0);
    for (size_t i = 0; i < 4; i++) {
        k->release(far[i]);
    }
}

// A second moment keeps a quarter of itself, whatever the coarse forms say: one that falls to zero beside a
// momentum that does not makes a huge step of Adam.
static inline void checks_twin_vectors_bound(void **state)
{
    const struct twins *t = *state;
    twin_vectors_bound(t->plain);
    twin_vectors_bound(t->other);
}

#endif
