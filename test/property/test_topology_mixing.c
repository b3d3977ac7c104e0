// How fast pairwise averaging over a schedule agrees, compared with the closed forms. W_t is the matrix of
// round t (each pair that meets becomes its mean), P = W_{t-1} ... W_1 W_0, and J is the matrix of the mean.
#include "topology_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOST 256u

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20260131);
    return 0;
}

// x <- W_t x, in place: W_t is symmetric, so this serves its transpose too.
static void average_pairs(const struct topology_plan *plan, uint64_t round, double *x)
{
    for (size_t i = 0; i < topology_plan_members(plan); i++) {
        size_t j = topology_plan_partner(plan, i, round);
        if (j != TOPOLOGY_NOBODY && i < j)
            x[i] = x[j] = (x[i] + x[j]) / 2;
    }
}

// Removes the mean from x (P maps the rest onto itself, J maps it to zero) and scales it to length 1.
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
static double distance_to_mean(const struct topology_plan *plan, uint64_t rounds)
{
    size_t n = topology_plan_members(plan);
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    double x[MOST], square = 0;
    for (size_t i = 0; i < n; i++)
        x[i] = base_rng_normal(&rng);
    centre_and_scale(n, x);
    for (int iteration = 0; iteration < 60; iteration++) {
        for (uint64_t t = 0; t < rounds; t++)
            average_pairs(plan, t, x);
        for (uint64_t t = rounds; t-- > 0;)
            average_pairs(plan, t, x);
        square = centre_and_scale(n, x);
    }
    return sqrt(square);
}

static struct topology_plan *plan_of(enum topology_kind kind, size_t n, uint64_t topology_seed,
                                     unsigned rings)
{
    struct topology_options options = {.kind = kind, .seed = topology_seed, .rings = rings};
    struct topology_member members[MOST];
    struct base_rng rng;
    base_rng_seed_stream(&rng, seed, n);
    world_members(&rng, members, n);
    return world_plan(&options, members, n);
}

static void a_ring_agrees_after_the_known_number_of_rounds(void **state)
{
    (void)state;
    const struct {
        size_t members;
        uint64_t rounds;
    } known[] = {{8, 15}, {16, 60}, {32, 239}, {64, 956}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct topology_plan *plan = plan_of(TOPOLOGY_RING, known[i].members, seed, 0);
        assert_true(distance_to_mean(plan, known[i].rounds) < 1e-2);
        assert_true(distance_to_mean(plan, known[i].rounds - 1) >= 1e-2);
        topology_plan_destroy(plan);
    }
}

static void two_rounds_of_an_even_ring_contract_by_cos2(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    for (size_t n = 6; n <= 64; n += 2) {
        struct topology_plan *plan = plan_of(TOPOLOGY_RING, n, seed, 0);
        uint64_t rounds = n * n / 8;
        double c = cos(2 * pi / (double)n);
        double before = distance_to_mean(plan, rounds), after = distance_to_mean(plan, rounds + 2);
        assert_true(fabs(after / before - c * c) < 1e-6);
        topology_plan_destroy(plan);
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
        struct topology_plan *plan = plan_of(TOPOLOGY_BUTTERFLY, n, seed, 0);
        double x[MOST], sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += x[i] = (double)base_rng_below(&rng, 1u << 20);
        for (uint64_t round = 0; round < m; round++)
            average_pairs(plan, round, x);
        for (size_t i = 0; i < n; i++)
            assert_true(x[i] == sum / (double)n);
        topology_plan_destroy(plan);
    }
}

// m = ceil(log2 n)
static uint64_t stages_of(size_t slots)
{
    uint64_t m = 0;
    while ((size_t)1 << m < slots)
        m++;
    return m;
}

// A butterfly with vacant slots is not exact, but never slow: pairs among the nodes without a partner keep it
// going.
static void any_butterfly_agrees_within_four_times_its_stages(void **state)
{
    double worst = 0;
    (void)state;
    for (size_t n = 3; n <= 70; n++) {
        struct topology_plan *plan = plan_of(TOPOLOGY_BUTTERFLY, n, seed, 0);
        double distance = distance_to_mean(plan, 4 * stages_of(n));
        worst = distance > worst ? distance : worst;
        assert_true(distance < 0.1);
        topology_plan_destroy(plan);
    }
    print_message("worst |P-J| after 4m rounds: %.4f\n", worst);
}

static void a_butterfly_with_a_third_vacant_still_mixes(void **state)
{
    struct base_rng rng;
    (void)state;
    base_rng_seed(&rng, seed);
    for (size_t n = 4; n <= 128; n *= 2) {
        double worst = 0;
        for (int trial = 0; trial < 8; trial++) {
            struct topology_options options = {.kind = TOPOLOGY_BUTTERFLY, .seed = seed};
            struct topology_member members[MOST];
            uint32_t slots[MOST];
            size_t most = n + n / 2;
            world_members(&rng, members, n);
            for (size_t i = 0; i < most; i++)
                slots[i] = (uint32_t)i;
            base_rng_shuffle(&rng, slots, most);
            for (size_t i = 0; i < n; i++)
                members[i].slot = slots[i];
            struct topology_plan *plan = world_plan(&options, members, n);
            double distance = distance_to_mean(plan, 4 * stages_of(most));
            worst = distance > worst ? distance : worst;
            topology_plan_destroy(plan);
        }
        print_message("%zu members in %zu slots: worst |P-J| after 4m rounds %.4f\n", n, n + n / 2, worst);
        assert_true(worst < 0.5);
    }
}

// An expander: |P-J| falls by a factor per round that does not depend on n. So 48 rounds, whole periods of 2,
// 3 and 4 rings, are enough for all n; after as many, a plain ring of 64 still has 0.79.
static void hash_rings_agree_in_rounds_that_do_not_grow_with_the_members(void **state)
{
    enum { ROUNDS = 48 };
    (void)state;
    for (unsigned rings = 2; rings <= 4; rings++)
        for (size_t n = 16; n <= MOST; n *= 2) {
            double worst = 0;
            for (uint64_t trial = 0; trial < 3; trial++) {
                struct topology_plan *plan = plan_of(TOPOLOGY_RANDOM, n, seed + trial, rings);
                assert_int_equal(topology_plan_period(plan), 2 * rings);
                double distance = distance_to_mean(plan, ROUNDS);
                worst = distance > worst ? distance : worst;
                topology_plan_destroy(plan);
            }
            print_message("%u rings of %zu: worst |P-J| after %u rounds %.1e, %.3f a round\n", rings, n,
                          ROUNDS, worst, pow(worst, 1.0 / ROUNDS));
            assert_true(worst < (rings == 2 ? 2e-2 : 1e-3));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_agrees_after_the_known_number_of_rounds),
        cmocka_unit_test(two_rounds_of_an_even_ring_contract_by_cos2),
        cmocka_unit_test(a_butterfly_of_2_to_the_m_is_exact_after_m_rounds),
        cmocka_unit_test(any_butterfly_agrees_within_four_times_its_stages),
        cmocka_unit_test(a_butterfly_with_a_third_vacant_still_mixes),
        cmocka_unit_test(hash_rings_agree_in_rounds_that_do_not_grow_with_the_members),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
