#include "topology/lanczos.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8u

struct lanczos {
    size_t n, count;
    double *basis;        // [steps + 1][n]
    double *alpha, *beta; // [steps]: the tridiagonal matrix; beta[i] couples i and i + 1
};

// Several partial sums in a fixed order: in a single sum, each addition would wait for the one before.
static double dot(size_t n, const double *x, const double *y)
{
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += x[i + lane] * y[i + lane];
    for (; i < n; i++)
        sum += x[i] * y[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static void take_out(size_t n, const double *basis, double along, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] -= along * basis[i];
}

// Removes from x its components along the constant vector and along the first `count` basis vectors.
static void orthogonalise(const struct lanczos *l, size_t count, double *x)
{
    double mean = 0;
    for (size_t i = 0; i < l->n; i++)
        mean += x[i] / (double)l->n;
    for (size_t i = 0; i < l->n; i++)
        x[i] -= mean;
    for (size_t b = 0; b < count; b++) {
        const double *basis = l->basis + b * l->n;
        take_out(l->n, basis, dot(l->n, basis, x), x);
    }
}

// The number of eigenvalues of the tridiagonal matrix below x (Sturm).
static size_t below(const struct lanczos *l, double x)
{
    size_t count = 0;
    double d = 1;
    for (size_t i = 0; i < l->count; i++) {
        double coupling = i ? l->beta[i - 1] * l->beta[i - 1] : 0;
        d = l->alpha[i] - x - coupling / d;
        if (d == 0)
            d = 1e-300;
        count += d < 0;
    }
    return count;
}

// The eigenvalue that has `rank` others below it.
static double eigenvalue(const struct lanczos *l, size_t rank)
{
    double bound = 0;
    for (size_t i = 0; i < l->count; i++) {
        double reach = fabs(l->alpha[i]) + fabs(l->beta[i]) + (i ? fabs(l->beta[i - 1]) : 0);
        bound = reach > bound ? reach : bound;
    }
    double low = -bound, high = bound;
    for (int i = 0; i < 100 && low < high; i++) {
        double middle = (low + high) / 2;
        if (below(l, middle) > rank)
            high = middle;
        else
            low = middle;
    }
    return (low + high) / 2;
}

// Adds one basis vector. False: the space is exhausted, so the eigenvalues are exact.
static bool advance(struct lanczos *l, const struct topology_operator *a)
{
    double *x = l->basis + l->count * l->n, *y = x + l->n;
    a->apply(a->self, x, y);
    l->alpha[l->count] = dot(l->n, x, y);
    // Except for rounding, y has components along the last two basis vectors only. If a pass shortens y much,
    // rounding errors remain, and another pass follows.
    take_out(l->n, x, l->alpha[l->count], y);
    if (l->count)
        take_out(l->n, x - l->n, l->beta[l->count - 1], y);
    l->count++;
    double before, length = sqrt(dot(l->n, y, y));
    do {
        before = length;
        orthogonalise(l, l->count, y);
        length = sqrt(dot(l->n, y, y));
    } while (length < before / 2 && length >= 1e-13);
    l->beta[l->count - 1] = length;
    if (length < 1e-13)
        return false;
    for (size_t i = 0; i < l->n; i++)
        y[i] /= length;
    return true;
}

static enum base_error iterate(struct lanczos *l, const struct topology_operator *a, size_t steps,
                               double accuracy, double *smallest, double *largest)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t step = 1;; step++) {
        bool more = advance(l, a) && step < l->n - 1;
        bool last = !more || step == steps;
        if (step % 10 && !last)
            continue;
        double before_low = low, before_high = high;
        low = eigenvalue(l, 0);
        high = eigenvalue(l, l->count - 1);
        double scale = accuracy * fmax(fabs(low), fabs(high));
        bool still = fabs(low - before_low) <= scale && fabs(high - before_high) <= scale;
        *smallest = low;
        *largest = high;
        if (!more || still || (a->enough > 0 && high >= a->enough)) // `high` approaches from below,
                                                                    // so it only grows
            return BASE_OK;
        if (last)
            return BASE_ELIMIT;
    }
}

enum base_error topology_lanczos(const struct topology_operator *a, size_t steps, double accuracy,
                                 double *smallest, double *largest)
{
    size_t most = steps < a->n - 1 ? steps : a->n - 1;
    struct lanczos l = {.n = a->n};
    struct base_rng rng;
    enum base_error error = BASE_ENOMEM;
    l.basis = malloc((most + 1) * a->n * sizeof *l.basis);
    l.alpha = calloc(most + 1, sizeof *l.alpha);
    l.beta = calloc(most + 1, sizeof *l.beta);
    if (!l.basis || !l.alpha || !l.beta)
        goto out;
    base_rng_seed(&rng, a->n);
    for (size_t i = 0; i < a->n; i++)
        l.basis[i] = base_rng_normal(&rng);
    orthogonalise(&l, 0, l.basis);
    orthogonalise(&l, 0, l.basis);
    double length = sqrt(dot(a->n, l.basis, l.basis));
    for (size_t i = 0; i < a->n; i++)
        l.basis[i] /= length;
    error = iterate(&l, a, most, accuracy, smallest, largest);
out:
    free(l.basis);
    free(l.alpha);
    free(l.beta);
    return error;
}
