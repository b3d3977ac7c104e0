// Arithmetic over whole vectors, for an exchange, except for selection, values and the end of an exchange
// (kernels/apply.h). The vectors are in the backend's memory; the host never accesses their elements.
//
// All pointers are in the backend's memory; numbers are returned. Vectors of a call do not overlap. fp32,
// rounded as written; the same bits on every backend, except for `energy`.
#ifndef KERNELS_VECTORS_H
#define KERNELS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>

// Second moments of the two ends over one slice (DESIGN: drift correction): `mine` and `theirs` as they were
// sent. For every i, with force = 0.5 * (theirs[i] - mine[i]):
//     after = max(v[i] + force, v[i] / 4)     pending[i] += whole ? force : after - v[i]     v[i] = after
struct kernels_moments {
    size_t count;
    const float *mine, *theirs;
    float *v;
    float *pending; // may be NULL
    bool whole;
};

struct kernels_vectors {
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*clear)(void *to, size_t bytes);                               // to zeros
    void (*add)(size_t count, float part, const float *from, float *to); // to[i] += part * from[i]
    void (*scale)(size_t count, float part, float *x);                   // x[i] *= part
    // x[i] becomes part * x[i]; the change of x[i] is added to sum[i].
    void (*fade)(size_t count, float part, float *x, float *sum);
    // copy[i] = x[i] (copy may be NULL); held[i] = part * (x[i] - r[i])
    void (*hold)(size_t count, float part, const float *x, const float *r, float *copy, float *held);
    // x[i] += held[i]. False: an x[i] is not finite then.
    bool (*give_back)(size_t count, const float *held, float *x);
    // v[i] = max(v[i] + pending[i], v[i] / 4), NaN and negative ones to 0; pending may be NULL. Returns the
    // largest.
    float (*settle)(size_t count, const float *pending, float *v);
    void (*moments)(const struct kernels_moments *moments);
    // The sum of x[i]^2, less that of (x[i] - y[i])^2 if y is not NULL; in double. The order of the sum, and
    // so its rounding, differs between backends.
    double (*energy)(size_t count, const float *x, const float *y);
};

#endif
