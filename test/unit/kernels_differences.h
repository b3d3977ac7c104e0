// Gradients of kernels compared with central differences of a plain reference in double.
#ifndef TEST_UNIT_KERNELS_DIFFERENCES_H
#define TEST_UNIT_KERNELS_DIFFERENCES_H

#include "kernels_checks.h"

static inline double *doubles(size_t count)
{
    double *values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static inline double *widen(const struct checks_vector *v)
{
    double *values = doubles(v->count);
    for (size_t i = 0; i < v->count; i++) {
        values[i] = (double)v->host[i];
    }
    return values;
}

static inline void refill(const struct kernels *k, struct checks_vector *v, float value)
{
    for (size_t i = 0; i < v->count; i++) {
        v->host[i] = value;
    }
    checks_send(k, v);
}

static inline void compare(const char *what, const struct kernels *k, const struct checks_vector *found,
                           const double *expected, double bound)
{
    float *values = checks_result(k, found);
    for (size_t i = 0; i < found->count; i++) {
        checks_close(what, found->count, i, (double)values[i], expected[i],
                     bound * (1.0 + fabs(expected[i])));
    }
    free(values);
}

// A function of one vector; gradients are checked on the weighted sum of its results.
struct subject {
    double (*value)(const struct subject *subject); // of the current vectors
    double *x;                                      // the vector to vary
    const void *of;
};

// d value / d x[i] for all i, by central differences; the error is of the order of 1e-9.
static inline double *differences(const struct subject *subject, size_t count)
{
    double *result = doubles(count);
    for (size_t i = 0; i < count; i++) {
        const double at = subject->x[i], step = 1e-5;
        subject->x[i] = at + step;
        const double above = subject->value(subject);
        subject->x[i] = at - step;
        const double below = subject->value(subject);
        subject->x[i] = at;
        result[i] = (above - below) / (2.0 * step);
    }
    return result;
}

static inline void compare_gradient(const char *what, const struct kernels *k,
                                    const struct checks_vector *found, const struct subject *subject,
                                    double offset, double bound)
{
    double *expected = differences(subject, found->count);
    for (size_t i = 0; i < found->count; i++) {
        expected[i] += offset;
    }
    compare(what, k, found, expected, bound);
    free(expected);
}

#endif
