// The part of |a|^2 that a selection of 1% keeps: the cost of a method and of blocks
// (compress/MEASUREMENTS.md).
#include "base/rng.h"
#include "compress/select.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT ((size_t)1 << 20)
#define BLOCK 4096u

static const struct kernels *kernels;

// Gaussian; each stretch of BLOCK elements has its own scale, e^(spread * normal).
static float *vector_create(double spread)
{
    struct base_rng rng;
    float *a = malloc(COUNT * sizeof *a);
    double scale = 1;
    assert_non_null(a);
    base_rng_seed(&rng, 3);
    for (size_t i = 0; i < COUNT; i++) {
        scale = i % BLOCK == 0 ? exp(spread * base_rng_normal(&rng)) : scale;
        a[i] = (float)(scale * base_rng_normal(&rng));
    }
    return a;
}

// Part of |a|^2 in the entries; both sums in double, without the backend's.
static double energy_kept(const float *a, enum compress_method method, size_t block)
{
    const struct kernels_difference difference = {.x = a, .count = COUNT};
    const struct compress_selection selection = {
        .method = method, .k = COUNT / 100, .block = block, .seed = 7};
    struct compress_sparse entries;
    struct compress_energy told;
    double kept = 0, all = 0;
    assert_int_equal(compress_sparse_create(compress_select_room(&selection, COUNT), &entries), BASE_OK);
    assert_int_equal(compress_select(kernels, &selection, &difference, &entries, &told), BASE_OK);
    assert_int_equal(entries.count, COUNT / 100);
    for (size_t i = 0; i < entries.count; i++)
        kept += (double)entries.value[i] * (double)entries.value[i];
    for (size_t i = 0; i < COUNT; i++)
        all += (double)a[i] * (double)a[i];
    assert_true(fabs(told.a - all) < 1e-4 * all && told.a == told.x);
    compress_sparse_destroy(&entries);
    return kept / all;
}

static void assert_between(double low, double found, double high)
{
    if (!(found >= low && found <= high))
        fail_msg("%.5f, expected %.5f to %.5f", found, low, high);
}

// Of a normal variable, 1% of the draws are beyond t = 2.5758, with 2 (t phi(t) + Q(t)) = 8.45% of the
// energy.
static void with_one_scale_selection_keeps_the_theoretical_energy(void **state)
{
    float *a = vector_create(0);
    double exact = energy_kept(a, COMPRESS_EXACT, 0);
    (void)state;
    assert_between(0.083, exact, 0.086);
    assert_between(0.99 * exact, energy_kept(a, COMPRESS_EXACT, BLOCK), exact);
    assert_between(0.98 * exact, energy_kept(a, COMPRESS_THRESHOLD, 0), exact);
    assert_between(0.98 * exact, energy_kept(a, COMPRESS_BISECTION, 0), exact);
    assert_between(0.009, energy_kept(a, COMPRESS_RANDOM, 0), 0.011);
    free(a);
}

// Blocks keep the same part as with one scale, whatever the scales are: they spend entries where there is
// little energy.
static void blocks_lose_energy_where_scales_differ(void **state)
{
    float *a = vector_create(0.5);
    double exact = energy_kept(a, COMPRESS_EXACT, 0);
    (void)state;
    assert_between(0.15, exact, 0.25);
    assert_between(0.083, energy_kept(a, COMPRESS_EXACT, BLOCK), 0.086);
    assert_between(0.98 * exact, energy_kept(a, COMPRESS_THRESHOLD, 0), exact);
    assert_between(0.98 * exact, energy_kept(a, COMPRESS_BISECTION, 0), exact);
    free(a);
}

int main(void)
{
    if (kernels_open("cpu", 1, &kernels, NULL))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_one_scale_selection_keeps_the_theoretical_energy),
        cmocka_unit_test(blocks_lose_energy_where_scales_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
