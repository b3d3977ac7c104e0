// Optimisers: many steps compared with the scalar rule in double.
#ifndef TEST_UNIT_KERNELS_OPTIMIZERS_H
#define TEST_UNIT_KERNELS_OPTIMIZERS_H

#include "test/unit/kernels_vectors.h"

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

// Moments of an optimiser before its first step.
static inline struct checks_vector checks_zeros(const struct kernels *k, size_t n)
{
    struct checks_vector v = checks_make(k, n);
    memset(v.host, 0, n * sizeof *v.host);
    checks_send(k, &v);
    return v;
}

static inline struct checks_state checks_state_of(const struct checks_vector *x)
{
    struct checks_state s = {checks_doubles(x->count), checks_doubles(x->count), checks_doubles(x->count)};
    for (size_t i = 0; i < x->count; i++) {
        s.x[i] = (double)x->host[i];
    }
    return s;
}

static inline void checks_state_free(struct checks_state *s)
{
    free(s->x);
    free(s->m);
    free(s->v);
}

static inline void checks_sgd_reference(const struct kernels_sgd *o, size_t n, const float *g, const float *c,
                                        struct checks_state *s)
{
    for (size_t i = 0; i < n; i++) {
        s->m[i] = (double)o->momentum * s->m[i] + (double)g[i] + (double)o->weight_decay * s->x[i];
        s->x[i] -= (double)o->rate * (s->m[i] - (c ? (double)c[i] : 0.0));
    }
}

static inline void checks_adamw_reference(const struct kernels_adamw *o, size_t n, const float *g,
                                          const float *c, struct checks_state *s)
{
    for (size_t i = 0; i < n; i++) {
        s->m[i] = o->beta1 * s->m[i] + (1.0 - o->beta1) * (double)g[i];
        s->v[i] = o->beta2 * s->v[i] + (1.0 - o->beta2) * (double)g[i] * (double)g[i];
        const double m = s->m[i] / (double)o->correction1, v = s->v[i] / (double)o->correction2;
        const double step = m / (sqrt(v) + (double)o->epsilon) + (double)o->weight_decay * s->x[i];
        s->x[i] -= (double)o->rate * (step - (c ? (double)c[i] : 0.0));
    }
}

// Each step rounds x once at |x| <= 8 and adds rate * (a few eps of a direction below 40): the error of 60
// steps is below 60 * eps * (8 + 8 * 0.05 * 40) = 1.7e-4 at worst, and two orders of magnitude smaller in
// fact; 2e-5 detects any wrong rule.
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
                         m = checks_zeros(k, n);
    struct checks_state s = checks_state_of(&x);
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
    checks_state_free(&s);
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
        .rate = 0.01f, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6f, .weight_decay = decay};
    struct checks_vector x = checks_gaussian(k, n, 1.0), c = checks_gaussian(k, n, 1.0);
    struct checks_vector m = checks_zeros(k, n), v = checks_zeros(k, n);
    struct checks_state s = checks_state_of(&x);
    for (int step = 1; step <= CHECKS_STEPS; step++) {
        struct checks_vector g = checks_gaussian(k, n, 1.0);
        o.correction1 = (float)(1.0 - pow(o.beta1, step));
        o.correction2 = (float)(1.0 - pow(o.beta2, step));
        k->adamw_step(n, &o, g.device, corrected ? c.device : NULL, m.device, v.device, x.device);
        checks_adamw_reference(&o, n, g.host, corrected ? c.host : NULL, &s);
        k->wait();
        checks_free(k, &g);
    }
    checks_compare_state(k, "adamw x", &x, s.x);
    checks_compare_state(k, "adamw m", &m, s.m);
    checks_compare_state(k, "adamw v", &v, s.v);
    checks_state_free(&s);
    checks_free(k, &x);
    checks_free(k, &c);
    checks_free(k, &m);
    checks_free(k, &v);
}

// While the gradient does not change, a step is the rate long. With 1 - beta2 in float it is 6.4e-6 longer.
static inline void checks_adamw_length(const struct kernels *k)
{
    struct kernels_adamw o = {.rate = 1.0f, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-12f};
    struct checks_vector x = checks_zeros(k, 1), g = checks_zeros(k, 1), m = checks_zeros(k, 1),
                         v = checks_zeros(k, 1);
    g.host[0] = 1.0f;
    checks_send(k, &g);
    for (int step = 1; step <= 4; step++) {
        o.correction1 = (float)(1.0 - pow(o.beta1, step));
        o.correction2 = (float)(1.0 - pow(o.beta2, step));
        k->adamw_step(1, &o, g.device, NULL, m.device, v.device, x.device);
        k->wait();
    }
    float *found = checks_result(k, &x);
    checks_close("length of 4 steps", 1, 0, (double)found[0], -4.0, 4e-6);
    free(found);
    checks_free(k, &x);
    checks_free(k, &g);
    checks_free(k, &m);
    checks_free(k, &v);
}

static inline void checks_adamw(void **state)
{
    checks_adamw_length(*state);
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        for (unsigned flags = 0; flags < 4; flags++) {
            checks_adamw_run(*state, checks_sizes[i], flags & 1 ? 0.01f : 0.0f, (flags & 2) != 0);
        }
    }
}

static inline void checks_lion_run(const struct kernels *k, size_t n, float decay, bool corrected)
{
    const struct kernels_lion o = {.rate = 0.01f, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = decay};
    struct checks_vector x = checks_gaussian(k, n, 1.0), c = checks_gaussian(k, n, 1.0),
                         m = checks_zeros(k, n);
    struct checks_state s = checks_state_of(&x);
    for (int step = 1; step <= CHECKS_STEPS; step++) {
        struct checks_vector g = checks_gaussian(k, n, 1.0);
        k->lion_step(n, &o, g.device, corrected ? c.device : NULL, m.device, x.device);
        for (size_t i = 0; i < n; i++) {
            const double gi = (double)g.host[i];
            const double mean = o.beta1 * s.m[i] + (1.0 - o.beta1) * gi;
            const double sign = (mean > 0.0) - (mean < 0.0);
            s.m[i] = o.beta2 * s.m[i] + (1.0 - o.beta2) * gi;
            s.x[i] -= (double)o.rate *
                      (sign + (double)o.weight_decay * s.x[i] - (corrected ? (double)c.host[i] : 0.0));
        }
        k->wait();
        checks_free(k, &g);
    }
    checks_compare_state(k, "lion x", &x, s.x);
    checks_compare_state(k, "lion m", &m, s.m);
    checks_state_free(&s);
    checks_free(k, &x);
    checks_free(k, &c);
    checks_free(k, &m);
}

static inline void checks_lion(void **state)
{
    const struct kernels *k = *state;
    for (size_t i = 0; i < CHECKS_SIZES; i++) {
        for (unsigned flags = 0; flags < 4; flags++) {
            checks_lion_run(k, checks_sizes[i], flags & 1 ? 0.01f : 0.0f, (flags & 2) != 0);
        }
    }
}

#endif
