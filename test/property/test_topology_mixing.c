// How fast pairwise averaging over a schedule agrees, against the closed forms. W_t is the matrix of round t
// (each met pair becomes its mean), P = W_{t-1} ... W_1 W_0, and J the matrix of the mean.
#include "base/rng.h"
#include "topology/topology.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST 128u

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 0) : 20260131;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    return 0;
}

// x <- W_t x, in place: W_t is symmetric, so this serves its transpose too.
static void average_pairs(enum topology_kind kind, size_t n, uint64_t round, double *x)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = topology_partner(kind, n, i, round);
        if (j != TOPOLOGY_NOBODY && i < j)
            x[i] = x[j] = (x[i] + x[j]) / 2;
    }
}

// Takes the mean out of x (P maps the rest onto itself, and J maps it to zero) and scales it to length 1.
static double centre_and_scale(size_t n, double *x)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        x[i] -= mean;
        square += x[i] * x[i];
    }
    for (size_t i = 0; i < n && square > 0; i++)
        x[i] /= sqrt(square);
    return sqrt(square);
}

// Spectral norm of P - J after `rounds` rounds, by power iteration on (P - J)'(P - J).
static double distance_to_mean(enum topology_kind kind, size_t n, uint64_t rounds)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    double x[MOST], square = 0;
    for (size_t i = 0; i < n; i++)
        x[i] = base_rng_normal(&rng);
    centre_and_scale(n, x);
    for (int iteration = 0; iteration < 60; iteration++) {
        for (uint64_t t = 0; t < rounds; t++)
            average_pairs(kind, n, t, x);
        for (uint64_t t = rounds; t-- > 0;)
            average_pairs(kind, n, t, x);
        square = centre_and_scale(n, x);
    }
    return sqrt(square);
}

static void a_ring_agrees_after_the_known_number_of_rounds(void **state)
{
    (void)state;
    const struct {
        size_t members;
        uint64_t rounds;
    } known[] = {{8, 15}, {16, 60}, {32, 239}, {64, 956}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(distance_to_mean(TOPOLOGY_RING, known[i].members, known[i].rounds) < 1e-2);
        assert_true(distance_to_mean(TOPOLOGY_RING, known[i].members, known[i].rounds - 1) >= 1e-2);
    }
}

static void two_rounds_of_an_even_ring_contract_by_cos2(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    for (size_t n = 6; n <= 64; n += 2) {
        uint64_t rounds = n * n / 8;
        double c = cos(2 * pi / (double)n);
        double before = distance_to_mean(TOPOLOGY_RING, n, rounds);
        double after = distance_to_mean(TOPOLOGY_RING, n, rounds + 2);
        assert_true(fabs(after / before - c * c) < 1e-6);
    }
}

// Integers, so that every mean on the way is exact in binary.
static void a_butterfly_of_2_to_the_m_is_exact_after_m_rounds(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (unsigned m = 1; m <= 7; m++) {
        size_t n = (size_t)1 << m;
        double x[MOST], sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += x[i] = (double)base_rng_below(&rng, 1u << 20);
        for (uint64_t round = 0; round < m; round++)
            average_pairs(TOPOLOGY_BUTTERFLY, n, round, x);
        for (size_t i = 0; i < n; i++)
            assert_true(x[i] == sum / (double)n);
    }
}

// A butterfly with vacant slots is not exact, but never slow: the pairs among the partnerless keep it going.
static void any_butterfly_agrees_within_four_periods(void **state)
{
    (void)state;
    for (size_t n = 3; n <= 70; n++)
        assert_true(distance_to_mean(TOPOLOGY_BUTTERFLY, n, 4 * topology_period(TOPOLOGY_BUTTERFLY, n)) <
                    0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_agrees_after_the_known_number_of_rounds),
        cmocka_unit_test(two_rounds_of_an_even_ring_contract_by_cos2),
        cmocka_unit_test(a_butterfly_of_2_to_the_m_is_exact_after_m_rounds),
        cmocka_unit_test(any_butterfly_agrees_within_four_periods),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
