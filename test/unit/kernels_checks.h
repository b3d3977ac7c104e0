// Every kernel of a table against a plain reference in double. The CPU paths and CUDA run the same checks;
// vectors go through the table's own memory, with guard values behind their ends.
#ifndef TEST_UNIT_KERNELS_CHECKS_H
#define TEST_UNIT_KERNELS_CHECKS_H

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
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 20260131u;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    base_rng_seed(&checks_rng, seed);
}

// Around the edges of 4, 8, 16, 32 and 64 lanes, and one long one.
static const size_t checks_sizes[] = {
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,  22,  23,  24,  25,
    26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46,  47,  48,  49,  50,
    51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 127, 128, 129, 1000};
#define CHECKS_SIZES (sizeof checks_sizes / sizeof checks_sizes[0])

// A vector: what went in (host) and where it lies (device).
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

// The vector as the kernel left it; freed by the caller. Fails when anything was written behind its end.
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

// --- matrix product ---

struct checks_shape {
    size_t m, n, k;
    bool ta, tb;
    float alpha, beta;
};

// One product of k terms summed in any order errs by at most (k + 2) eps/2 of the sum of magnitudes; eps
// leaves room.
static inline void checks_gemm_one(const struct kernels *k, const struct checks_shape *s)
{
    struct checks_vector a = checks_gaussian(k, s->m * s->k, 1.0), b = checks_gaussian(k, s->k * s->n, 1.0);
    struct checks_vector c = checks_gaussian(k, s->m * s->n, 1.0);
    if (s->beta == 0.0f) { // then C is only written: what lies there must not matter
        for (size_t i = 0; i < c.count; i++) {
            c.host[i] = NAN;
        }
        checks_send(k, &c);
    }
    k->gemm(s->ta, s->tb, s->m, s->n, s->k, s->alpha, a.device, b.device, s->beta, c.device);
    float *found = checks_result(k, &c);
    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < s->n; j++) {
            double sum = 0.0, magnitude = 0.0;
            for (size_t l = 0; l < s->k; l++) {
                const double x = (double)(s->ta ? a.host[l * s->m + i] : a.host[i * s->k + l]);
                const double y = (double)(s->tb ? b.host[j * s->k + l] : b.host[l * s->n + j]);
                sum += x * y;
                magnitude += fabs(x * y);
            }
            const size_t at = i * s->n + j;
            const double old = s->beta == 0.0f ? 0.0 : (double)s->beta * (double)c.host[at];
            const double bound =
                ((double)s->k + 2.0) * EPS * (fabs((double)s->alpha) * magnitude + fabs(old));
            checks_close("gemm", s->n, at, (double)found[at], (double)s->alpha * sum + old, bound);
        }
    }
    free(found);
    checks_free(k, &a);
    checks_free(k, &b);
    checks_free(k, &c);
}

static inline void checks_gemm_transposes(const struct kernels *k, size_t m, size_t n, size_t depth)
{
    for (unsigned t = 0; t < 4; t++) {
        struct checks_shape s = {m, n, depth, (t & 1) != 0, (t & 2) != 0, 1.0f, 0.0f};
        checks_gemm_one(k, &s);
        s.alpha = -0.75f;
        s.beta = 1.5f;
        checks_gemm_one(k, &s);
    }
}

static inline void checks_gemm(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t s = checks_sizes[i];
        checks_gemm_transposes(k, s, 5, 7);
        checks_gemm_transposes(k, 6, s, 9);
        checks_gemm_transposes(k, 3, 11, s);
    }
    for (size_t i = 1; i <= 70; i += 3) {
        checks_gemm_transposes(k, i, i + 1, i + 2);
    }
    checks_gemm_transposes(k, 64, 256, 100); // the shapes of a step of an MLP
    checks_gemm_transposes(k, 100, 256, 64);
    checks_gemm_transposes(k, 130, 127, 129);
    checks_gemm_transposes(k, 20, 500, 128); // packed in more than one panel
    checks_gemm_one(k, &(struct checks_shape){1400, 1600, 2, true, false, 1.0f, 0.0f}); // beyond the caches
}

// --- loops ---

static inline void checks_bias(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t rows = 1 + i % 5, cols = checks_sizes[i];
        for (int relu = 0; relu < 2; relu++) {
            struct checks_vector z = checks_gaussian(k, rows * cols, 1.0),
                                 bias = checks_gaussian(k, cols, 1.0);
            (relu ? k->bias_add_relu : k->bias_add)(rows, cols, bias.device, z.device);
            float *found = checks_result(k, &z);
            for (size_t e = 0; e < z.count; e++) {
                const float sum = z.host[e] + bias.host[e % cols]; // one rounding: exact agreement
                assert_true(found[e] == (relu && sum < 0.0f ? 0.0f : sum));
            }
            free(found);
            checks_free(k, &z);
            checks_free(k, &bias);
        }
    }
}

static inline void checks_relu_keeps_nan(void **state)
{
    const struct kernels *k = *state;
    struct checks_vector z = checks_gaussian(k, 40, 1.0), bias = checks_gaussian(k, 40, 1.0);
    z.host[3] = z.host[37] = NAN;
    checks_send(k, &z);
    k->bias_add_relu(1, 40, bias.device, z.device);
    float *found = checks_result(k, &z);
    for (size_t i = 0; i < 40; i++) {
        assert_true(isnan(found[i]) == (i == 3 || i == 37));
    }
    free(found);
    checks_free(k, &z);
    checks_free(k, &bias);
}

static inline void checks_relu_backward(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t n = checks_sizes[i];
        struct checks_vector a = checks_gaussian(k, n, 1.0), g = checks_gaussian(k, n, 1.0);
        for (size_t e = 0; e < n; e++) { // activations as they are: never negative, often exactly 0
            a.host[e] = a.host[e] < 0.0f ? 0.0f : a.host[e];
        }
        checks_send(k, &a);
        k->relu_backward(n, a.device, g.device);
        float *found = checks_result(k, &g);
        for (size_t e = 0; e < n; e++) {
            assert_true(found[e] == (a.host[e] > 0.0f ? g.host[e] : 0.0f));
        }
        free(found);
        checks_free(k, &a);
        checks_free(k, &g);
    }
}

static inline void checks_column_sum(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t rows = checks_sizes[CHECKS_SIZES - 1 - i], cols = checks_sizes[i];
        struct checks_vector z = checks_gaussian(k, rows * cols, 1.0), sum = checks_gaussian(k, cols, 1.0);
        k->column_sum(rows, cols, z.device, sum.device);
        float *found = checks_result(k, &sum);
        for (size_t c = 0; c < cols; c++) {
            double expected = 0.0, magnitude = 0.0;
            for (size_t r = 0; r < rows; r++) {
                expected += (double)z.host[r * cols + c];
                magnitude += fabs((double)z.host[r * cols + c]);
            }
            checks_close("column_sum", cols, c, (double)found[c], expected, (double)rows * EPS * magnitude);
        }
        free(found);
        checks_free(k, &z);
        checks_free(k, &sum);
    }
}

// --- softmax and cross entropy ---

struct checks_softmax_row {
    double max, sum, loss;
    bool correct;
};

static inline struct checks_softmax_row checks_softmax_reference(const float *z, size_t cols, uint32_t label)
{
    struct checks_softmax_row row = {.max = (double)z[0]};
    size_t best = 0;
    for (size_t c = 1; c < cols; c++) {
        best = z[c] > z[best] ? c : best;
    }
    row.max = (double)z[best];
    for (size_t c = 0; c < cols; c++) {
        row.sum += exp((double)z[c] - row.max);
    }
    row.loss = log(row.sum) - ((double)z[label] - row.max);
    row.correct = best == label;
    return row;
}

// Rounding z - max errs by eps/2 * |z - max|, which exp turns into a relative error; the sum adds sqrt(cols)
// roundings or, at worst, cols/16 + 16 of them.
static inline void checks_softmax_one(const struct kernels *k, size_t rows, size_t cols, double spread,
                                      bool ties)
{
    struct checks_vector z = checks_gaussian(k, rows * cols, spread);
    const float scale = 1.0f / (float)rows;
    uint32_t *labels = malloc(rows * sizeof *labels), *device_labels = k->alloc(rows * sizeof *labels);
    assert_non_null(labels);
    assert_non_null(device_labels);
    for (size_t i = 0; ties && i < z.count; i++) {
        z.host[i] = roundf(z.host[i]);
    }
    for (size_t r = 0; r < rows; r++) {
        labels[r] = (uint32_t)base_rng_below(&checks_rng, cols);
    }
    checks_send(k, &z);
    k->upload(device_labels, labels, rows * sizeof *labels);
    struct kernels_loss loss = {.loss_sum = -1.0, .correct = 12345};
    k->softmax_cross_entropy(rows, cols, z.device, device_labels, scale, &loss);
    float *found = checks_result(k, &z);
    double loss_sum = 0.0, loss_bound = 0.0;
    size_t correct = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *logits = z.host + r * cols;
        const struct checks_softmax_row row = checks_softmax_reference(logits, cols, labels[r]);
        for (size_t c = 0; c < cols; c++) {
            const double shifted = (double)logits[c] - row.max, p = exp(shifted) / row.sum;
            const double relative = EPS * (8.0 + fabs(shifted) + (double)cols / 16.0);
            const double bound = (relative * p + EPS) * (double)scale;
            checks_close("softmax", cols, r * cols + c, (double)found[r * cols + c],
                         (p - (c == labels[r] ? 1.0 : 0.0)) * (double)scale, bound);
        }
        loss_sum += row.loss;
        loss_bound += EPS * (24.0 + fabs(row.max) + (double)cols / 16.0 + row.loss);
        correct += row.correct;
    }
    checks_close("loss", cols, rows, loss.loss_sum, loss_sum, loss_bound);
    assert_int_equal(loss.correct, correct);
    free(found);
    free(labels);
    k->release(device_labels);
    checks_free(k, &z);
}

static inline void checks_softmax(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        const size_t s = checks_sizes[i];
        checks_softmax_one(k, 1 + i % 7, s, 3.0, false);
        checks_softmax_one(k, 1 + i % 7, s, 30.0, false); // saturated: most terms underflow
        checks_softmax_one(k, 1 + i % 7, s, 1.0, true);   // whole numbers: many ties for the largest
        checks_softmax_one(k, s, 10, 3.0, false);
    }
    checks_softmax_one(k, 3, 5000, 3.0, false);
    checks_softmax_one(k, 3, 40, 0.0, true); // constant rows
}

// With two logits 0 and -d the second share is e^-d / (1 + e^-d), however small: that shows the relative
// error of exp.
static inline void checks_softmax_exp(void **state)
{
    const struct kernels *k = *state;
    const size_t rows = 20000;
    struct checks_vector z = checks_make(k, 2 * rows);
    uint32_t *labels = k->alloc(rows * sizeof *labels); // zeroed: label 0
    assert_non_null(labels);
    for (size_t r = 0; r < rows; r++) {
        z.host[2 * r] = 0.0f;
        z.host[2 * r + 1] = (float)(-86.0 * (double)r / (double)rows);
    }
    checks_send(k, &z);
    struct kernels_loss loss;
    k->softmax_cross_entropy(rows, 2, z.device, labels, 1.0f, &loss);
    float *found = checks_result(k, &z);
    for (size_t r = 0; r < rows; r++) {
        const double e = exp((double)z.host[2 * r + 1]), expected = e / (1.0 + e);
        checks_close("exp", rows, r, (double)found[2 * r + 1], expected, 4e-7 * expected);
    }
    free(found);
    k->release(labels);
    checks_free(k, &z);
}

static inline void checks_softmax_nan(void **state)
{
    const struct kernels *k = *state;
    for (size_t at = 0; at < 20; at++) {
        struct checks_vector z = checks_gaussian(k, 40, 1.0);
        uint32_t host_labels[2] = {(uint32_t)at, 0}, *labels = k->alloc(sizeof host_labels);
        assert_non_null(labels);
        z.host[at] = NAN;
        z.host[20] = 100.0f; // the second row is right
        checks_send(k, &z);
        k->upload(labels, host_labels, sizeof host_labels);
        struct kernels_loss loss;
        k->softmax_cross_entropy(2, 20, z.device, labels, 1.0f, &loss);
        free(checks_result(k, &z));
        assert_true(isnan(loss.loss_sum));
        assert_int_equal(loss.correct, 1);
        k->release(labels);
        checks_free(k, &z);
    }
}

// --- optimisers, many steps against the scalar rule in double ---

enum { CHECKS_STEPS = 60 };

struct checks_state { // the reference
    double *x, *m, *v;
};

static inline double *checks_doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static inline void checks_sgd_reference(const struct kernels_sgd *o, size_t n, const float *g, const float *c,
                                        struct checks_state *s)
{
    for (size_t i = 0; i < n; i++) {
        s->m[i] = (double)o->momentum * s->m[i] + (double)g[i] + (double)o->weight_decay * s->x[i];
        s->x[i] -= (double)o->rate * (s->m[i] - (c != NULL ? (double)c[i] : 0.0));
    }
}

static inline void checks_adamw_reference(const struct kernels_adamw *o, size_t n, const float *g,
                                          const float *c, struct checks_state *s)
{
    for (size_t i = 0; i < n; i++) {
        s->m[i] = (double)o->beta1 * s->m[i] + (1.0 - (double)o->beta1) * (double)g[i];
        s->v[i] = (double)o->beta2 * s->v[i] + (1.0 - (double)o->beta2) * (double)g[i] * (double)g[i];
        const double m = s->m[i] / (double)o->correction1, v = s->v[i] / (double)o->correction2;
        const double step = m / (sqrt(v) + (double)o->epsilon) + (double)o->weight_decay * s->x[i];
        s->x[i] -= (double)o->rate * (step - (c != NULL ? (double)c[i] : 0.0));
    }
}

// Each step rounds x once at |x| <= 8 and adds rate * (a few eps of a direction below 40): 60 steps stay
// under 60 * eps * (8 + 8 * 0.05 * 40) = 1.7e-4 at worst and two orders below it in fact; 2e-5 catches any
// wrong rule.
static inline void checks_compare_state(const struct kernels *k, const char *what,
                                        const struct checks_vector *x, const double *expected)
{
    float *found = checks_result(k, x);
    for (size_t i = 0; i < x->count; i++) {
        checks_close(what, x->count, i, (double)found[i], expected[i], 2e-5 * (1.0 + fabs(expected[i])));
    }
    free(found);
}

static inline void checks_sgd_run(const struct kernels *k, size_t n, float momentum, float decay,
                                  bool corrected)
{
    const struct kernels_sgd o = {.rate = 0.05f, .momentum = momentum, .weight_decay = decay};
    struct checks_vector x = checks_gaussian(k, n, 1.0), c = checks_gaussian(k, n, 1.0),
                         m = checks_make(k, n);
    memset(m.host, 0, n * sizeof *m.host);
    checks_send(k, &m);
    struct checks_state s = {checks_doubles(n), checks_doubles(n), NULL};
    for (size_t i = 0; i < n; i++) {
        s.x[i] = (double)x.host[i];
    }
    for (int step = 0; step < CHECKS_STEPS; step++) {
        struct checks_vector g = checks_gaussian(k, n, 1.0);
        k->sgd_step(n, &o, g.device, corrected ? c.device : NULL, momentum != 0.0f ? m.device : NULL,
                    x.device);
        checks_sgd_reference(&o, n, g.host, corrected ? c.host : NULL, &s);
        k->wait();
        checks_free(k, &g);
    }
    checks_compare_state(k, "sgd x", &x, s.x);
    if (momentum != 0.0f) {
        checks_compare_state(k, "sgd m", &m, s.m);
    }
    free(s.x);
    free(s.m);
    checks_free(k, &x);
    checks_free(k, &c);
    checks_free(k, &m);
}

static inline void checks_sgd(void **state)
{
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            checks_sgd_run(*state, checks_sizes[i], flags & 1 ? 0.9f : 0.0f, flags & 2 ? 0.01f : 0.0f,
                           (flags & 4) != 0);
        }
    }
}

static inline void checks_adamw_run(const struct kernels *k, size_t n, float decay, bool corrected)
{
    struct kernels_adamw o = {
        .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .weight_decay = decay};
    struct checks_vector x = checks_gaussian(k, n, 1.0), c = checks_gaussian(k, n, 1.0);
    struct checks_vector m = checks_make(k, n), v = checks_make(k, n);
    memset(m.host, 0, n * sizeof *m.host);
    memset(v.host, 0, n * sizeof *v.host);
    checks_send(k, &m);
    checks_send(k, &v);
    struct checks_state s = {checks_doubles(n), checks_doubles(n), checks_doubles(n)};
    for (size_t i = 0; i < n; i++) {
        s.x[i] = (double)x.host[i];
    }
    for (int step = 1; step <= CHECKS_STEPS; step++) {
        struct checks_vector g = checks_gaussian(k, n, 1.0);
        o.correction1 = (float)(1.0 - pow((double)o.beta1, step));
        o.correction2 = (float)(1.0 - pow((double)o.beta2, step));
        k->adamw_step(n, &o, g.device, corrected ? c.device : NULL, m.device, v.device, x.device);
        checks_adamw_reference(&o, n, g.host, corrected ? c.host : NULL, &s);
        k->wait();
        checks_free(k, &g);
    }
    checks_compare_state(k, "adamw x", &x, s.x);
    checks_compare_state(k, "adamw m", &m, s.m);
    checks_compare_state(k, "adamw v", &v, s.v);
    free(s.x);
    free(s.m);
    free(s.v);
    checks_free(k, &x);
    checks_free(k, &c);
    checks_free(k, &m);
    checks_free(k, &v);
}

static inline void checks_adamw(void **state)
{
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        for (unsigned flags = 0; flags < 4; flags++) {
            checks_adamw_run(*state, checks_sizes[i], flags & 1 ? 0.01f : 0.0f, (flags & 2) != 0);
        }
    }
}

static inline void checks_lion_run(const struct kernels *k, size_t n, float decay, bool corrected)
{
    const struct kernels_lion o = {.rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .weight_decay = decay};
    struct checks_vector x = checks_gaussian(k, n, 1.0), c = checks_gaussian(k, n, 1.0),
                         m = checks_make(k, n);
    memset(m.host, 0, n * sizeof *m.host);
    checks_send(k, &m);
    struct checks_state s = {checks_doubles(n), checks_doubles(n), NULL};
    for (size_t i = 0; i < n; i++) {
        s.x[i] = (double)x.host[i];
    }
    for (int step = 1; step <= CHECKS_STEPS; step++) {
        struct checks_vector g = checks_gaussian(k, n, 1.0);
        k->lion_step(n, &o, g.device, corrected ? c.device : NULL, m.device, x.device);
        for (size_t i = 0; i < n; i++) {
            const double gi = (double)g.host[i];
            const double mean = (double)o.beta1 * s.m[i] + (1.0 - (double)o.beta1) * gi;
            const double sign = (mean > 0.0) - (mean < 0.0);
            s.m[i] = (double)o.beta2 * s.m[i] + (1.0 - (double)o.beta2) * gi;
            s.x[i] -= (double)o.rate *
                      (sign + (double)o.weight_decay * s.x[i] - (corrected ? (double)c.host[i] : 0.0));
        }
        k->wait();
        checks_free(k, &g);
    }
    checks_compare_state(k, "lion x", &x, s.x);
    checks_compare_state(k, "lion m", &m, s.m);
    free(s.x);
    free(s.m);
    checks_free(k, &x);
    checks_free(k, &c);
    checks_free(k, &m);
}

static inline void checks_lion(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES && k->lion_step != NULL; i++) {
        for (unsigned flags = 0; flags < 4; flags++) {
            checks_lion_run(k, checks_sizes[i], flags & 1 ? 0.01f : 0.0f, (flags & 2) != 0);
        }
    }
}

// Fresh memory is zero, and what goes up comes down.
static inline void checks_memory(void **state)
{
    const struct kernels *k = *state;
    unsigned char out[1000], in[1000];
    for (size_t bytes = 0; bytes <= sizeof out; bytes += 37) {
        unsigned char *memory = k->alloc(bytes);
        assert_non_null(memory);
        memset(out, 0xff, sizeof out);
        k->download(out, memory, bytes);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(out[i], 0);
            in[i] = (unsigned char)base_rng_u64(&checks_rng);
        }
        k->upload(memory, in, bytes);
        k->download(out, memory, bytes);
        assert_memory_equal(in, out, bytes);
        k->release(memory);
    }
    k->release(NULL);
    assert_null(k->alloc(SIZE_MAX - 8));
}

#define CHECKS_TESTS                                                                                         \
    {"memory", checks_memory}, {"gemm", checks_gemm}, {"bias", checks_bias},                                 \
        {"relu keeps NaN", checks_relu_keeps_nan}, {"relu backward", checks_relu_backward},                  \
        {"column sum", checks_column_sum}, {"softmax", checks_softmax}, {"softmax exp", checks_softmax_exp}, \
        {"softmax NaN", checks_softmax_nan}, {"sgd", checks_sgd}, {"adamw", checks_adamw},                   \
    {                                                                                                        \
        "lion", checks_lion                                                                                  \
    }

#endif
