// The proximal operator of l1 and l2, the filter before the exchange, and the order of blocks.
#include "base/rng.h"
#include "train/shrink.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 20260131u;

static float shrunk(float z, float t1, float t2)
{
    train_shrink(1, t1, t2, &z);
    return z;
}

static void shrinking_follows_the_closed_form(void **state)
{
    (void)state;
    static const struct {
        float z, t1, t2, x;
    } cases[] = {
        {3, 1, 0, 2}, {-3, 1, 0, -2}, {1, 1, 0, 0},      {-1, 1, 0, 0},   {0.5f, 1, 0, 0},
        {0, 1, 0, 0}, {3, 0, 0, 3},   {-3, 0, 1, -1.5f}, {3, 1, 3, 0.5f}, {-0.25f, 0.125f, 0, -0.125f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(shrunk(cases[i].z, cases[i].t1, cases[i].t2) == cases[i].x);
    }
}

// Near the minimiser, |x - z|^2 / 2 + t1 |x| + t2 x^2 / 2 is never smaller.
static void shrunk_values_are_minima(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (int i = 0; i < 10000; i++) {
        const float z = (float)base_rng_normal(&rng), t1 = (float)base_rng_uniform(&rng),
                    t2 = (float)base_rng_uniform(&rng);
        const double x = (double)shrunk(z, t1, t2);
        for (int k = -20; k <= 20; k++) {
            const double at[] = {x, x + k * 0.01};
            double value[2];
            for (int j = 0; j < 2; j++) {
                value[j] = 0.5 * (at[j] - (double)z) * (at[j] - (double)z) + (double)t1 * fabs(at[j]) +
                           0.5 * (double)t2 * at[j] * at[j];
            }
            assert_true(value[0] <= value[1] + 1e-6);
        }
    }
}

static void values_that_are_not_finite_stay(void **state)
{
    (void)state;
    assert_true(isnan(shrunk(NAN, 1, 0)));
    assert_true(isinf(shrunk(INFINITY, 1, 1)));
    float z = NAN;
    train_shrink_filter(1, 1, &z);
    assert_true(isnan(z));
}

// A value that changes is sent as it is; one well inside the threshold is not sent.
static void the_filter_drops_no_value_that_changes(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    size_t dropped = 0;
    for (int i = 0; i < 100000; i++) {
        const float t1 = (float)base_rng_uniform(&rng), z = 2.0f * t1 * (float)base_rng_normal(&rng);
        float kept = z;
        train_shrink_filter(1, t1, &kept);
        assert_true(kept == z || kept == 0);
        if (shrunk(z, t1, 0) != 0) {
            assert_true(kept == z);
        }
        if (fabsf(z) < 0.89f * t1) {
            assert_true(kept == 0);
        }
        dropped += kept != z;
    }
    assert_in_range(dropped, 20000, 60000);
    float edge[] = {1.0f, -1.0f, 0.95f, nextafterf(1.0f, 2.0f)}, same[4];
    memcpy(same, edge, sizeof edge);
    train_shrink_filter(4, 1.0f, edge);
    assert_memory_equal(edge, same, sizeof edge);
}

static void every_pass_takes_every_block_once(void **state)
{
    (void)state;
    enum { FEATURES = 23, PASSES = 50, BLOCKS_MAX = 23 };
    for (size_t blocks = 1; blocks <= BLOCKS_MAX; blocks++) {
        uint64_t drawn = UINT64_MAX, last[FEATURES] = {0};
        uint32_t order[BLOCKS_MAX];
        for (uint64_t step = 0; step < PASSES * blocks; step++) {
            const struct train_block block = train_shrink_block(FEATURES, blocks, seed, step, &drawn, order);
            assert_true(block.from < block.to && block.to <= FEATURES);
            assert_in_range(block.to - block.from, FEATURES / blocks, FEATURES / blocks + 1);
            for (size_t f = block.from; f < block.to; f++) {
                if (step >= blocks) { // bounded delay
                    assert_true(last[f] / blocks + 1 == step / blocks);
                    assert_in_range(step - last[f], 1, 2 * blocks - 1);
                }
                last[f] = step;
            }
        }
    }
}

// Wherever a node begins, and in any order.
static void the_order_is_a_function_of_seed_and_step(void **state)
{
    (void)state;
    uint64_t forth = UINT64_MAX, elsewhere;
    uint32_t order[8], other[8];
    size_t differ = 0;
    for (uint64_t step = 0; step < 400; step++) {
        const struct train_block a = train_shrink_block(80, 8, seed, step, &forth, order);
        elsewhere = UINT64_MAX;
        const struct train_block b = train_shrink_block(80, 8, seed, step, &elsewhere, other);
        assert_int_equal(a.from, b.from);
        elsewhere = UINT64_MAX;
        differ += train_shrink_block(80, 8, seed + 1, step, &elsewhere, other).from != a.from;
    }
    assert_true(differ > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinking_follows_the_closed_form),
        cmocka_unit_test(shrunk_values_are_minima),
        cmocka_unit_test(values_that_are_not_finite_stay),
        cmocka_unit_test(the_filter_drops_no_value_that_changes),
        cmocka_unit_test(every_pass_takes_every_block_once),
        cmocka_unit_test(the_order_is_a_function_of_seed_and_step),
    };
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 10) : seed;
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
