// Random numbers: the published generator, the right distributions, and the same bits on every machine.
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 0) : 1;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    return 0;
}

// From a separate implementation of splitmix64 and xoshiro256**.
static void the_sequence_is_fixed(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, 0);
    assert_int_equal(base_rng_u64(&rng), 0x99ec5f36cb75f2b4ull);
    assert_int_equal(base_rng_u64(&rng), 0xbf6e1f784956452aull);
    assert_int_equal(base_rng_u64(&rng), 0x1a5f849d4933e6e0ull);
    base_rng_seed(&rng, 1234567);
    assert_int_equal(base_rng_u64(&rng), 0x30a3a1c363600467ull);
}

// If one bit differs here, nodes on different machines start from different models or shards.
static void variates_are_the_same_bits_everywhere(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, 7);
    double normal = 0, gamma = 0;
    for (int i = 0; i < 1000; i++)
        normal += base_rng_normal(&rng);
    for (int i = 0; i < 1000; i++)
        gamma += base_rng_gamma(&rng, 0.1) + base_rng_gamma(&rng, 2.5);
    assert_true(normal == -0x1.7a1303468be25p+5);
    assert_true(gamma == 0x1.4258c4caabab9p+11);
}

static void a_restored_generator_continues_its_sequence(void **state)
{
    (void)state;
    struct base_rng rng, copy;
    base_rng_seed(&rng, seed);
    (void)base_rng_normal(&rng);
    copy = rng;
    for (int i = 0; i < 10; i++)
        assert_true(base_rng_normal(&rng) == base_rng_normal(&copy));
}

static void streams_of_one_seed_differ(void **state)
{
    (void)state;
    struct base_rng a, b;
    for (uint64_t stream = 0; stream < 100; stream++) {
        base_rng_seed_stream(&a, seed, stream);
        base_rng_seed_stream(&b, seed, stream + 1);
        int differing = __builtin_popcountll(base_rng_u64(&a) ^ base_rng_u64(&b));
        assert_in_range(differing, 5, 59);
        base_rng_seed_stream(&b, seed + 1, stream);
        assert_int_not_equal(base_rng_u64(&a), base_rng_u64(&b));
    }
}

static void below_is_uniform(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    size_t counts[7] = {0};
    for (int i = 0; i < 70000; i++)
        counts[base_rng_below(&rng, 7)]++;
    double chi2 = 0;
    for (size_t i = 0; i < 7; i++)
        chi2 += ((double)counts[i] - 1e4) * ((double)counts[i] - 1e4) / 1e4;
    assert_true(chi2 < 33); // 6 degrees of freedom: once in 100,000 seeds
    assert_int_equal(base_rng_below(&rng, 1), 0);
    assert_true(base_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

// Mean and variance within five standard errors.
static void assert_moments(const char *name, double mean, double variance, double fourth, double sum,
                           double square, int n)
{
    double found = sum / n, spread = square / n - found * found;
    printf("%s: mean %.4f (%.4f), variance %.4f (%.4f)\n", name, found, mean, spread, variance);
    assert_true(fabs(found - mean) < 5 * sqrt(variance / n));
    assert_true(fabs(spread - variance) < 5 * sqrt((fourth - variance * variance) / n));
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    const int n = 200000;
    const double shapes[] = {0.1, 0.7, 1, 5};
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    double sum = 0, square = 0;
    for (int i = 0; i < n; i++) {
        double u = base_rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        sum += u;
        square += u * u;
    }
    assert_moments("uniform", 0.5, 1.0 / 12, 1.0 / 80, sum, square, n);
    sum = square = 0;
    for (int i = 0; i < n; i++) {
        double x = base_rng_normal(&rng);
        sum += x;
        square += x * x;
    }
    assert_moments("normal", 0, 1, 3, sum, square, n);
    for (size_t s = 0; s < 4; s++) {
        sum = square = 0;
        for (int i = 0; i < n; i++) {
            double x = base_rng_gamma(&rng, shapes[s]);
            assert_true(x > 0);
            sum += x;
            square += x * x;
        }
        assert_moments("gamma", shapes[s], shapes[s], 3 * shapes[s] * shapes[s] + 6 * shapes[s], sum, square,
                       n);
    }
}

// A normal variable is beyond two standard deviations in 4.55% of cases, and beyond three in 0.27%.
static void a_normal_variable_has_the_right_tails(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    const int n = 200000;
    int two = 0, three = 0;
    for (int i = 0; i < n; i++) {
        double x = fabs(base_rng_normal(&rng));
        two += x > 2;
        three += x > 3;
    }
    assert_true(fabs(two - 0.0455003 * n) < 5 * sqrt(0.0455003 * n));
    assert_true(fabs(three - 0.0026998 * n) < 5 * sqrt(0.0026998 * n));
}

static void a_tiny_shape_stays_positive(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (int i = 0; i < 1000; i++)
        assert_true(base_rng_gamma(&rng, 1e-6) > 0);
}

static void a_shuffle_is_a_uniform_permutation(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    size_t counts[24] = {0};
    for (int i = 0; i < 24000; i++) {
        uint32_t items[4] = {0, 1, 2, 3}, used = 0;
        base_rng_shuffle(&rng, items, 4);
        size_t rank = 0;
        for (size_t a = 0; a < 4; a++) {
            used |= 1u << items[a];
            size_t smaller = 0;
            for (size_t b = a + 1; b < 4; b++)
                smaller += items[b] < items[a];
            rank = rank * (4 - a) + smaller;
        }
        assert_int_equal(used, 15);
        counts[rank]++;
    }
    double chi2 = 0;
    for (size_t i = 0; i < 24; i++)
        chi2 += ((double)counts[i] - 1000) * ((double)counts[i] - 1000) / 1000;
    assert_true(chi2 < 65); // 23 degrees of freedom: once in 100,000 seeds
    base_rng_shuffle(&rng, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_is_fixed),
        cmocka_unit_test(variates_are_the_same_bits_everywhere),
        cmocka_unit_test(a_restored_generator_continues_its_sequence),
        cmocka_unit_test(streams_of_one_seed_differ),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(a_normal_variable_has_the_right_tails),
        cmocka_unit_test(a_tiny_shape_stays_positive),
        cmocka_unit_test(a_shuffle_is_a_uniform_permutation),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
