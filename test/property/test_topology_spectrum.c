// The closed forms of the graphs compared with computed values: spectral gaps, rounds until all agree,
// exactness.
#include "topology/spectrum.h"
#include "topology_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOST     1024u
#define SEARCHED 176u
#define NOWHERE  10000u

static const double pi = 3.14159265358979323846;
static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20261121);
    return 0;
}

static struct topology_plan *plan_of(enum topology_kind kind, size_t n, size_t group_size)
{
    static struct topology_member members[MOST];
    struct topology_options options = {.kind = kind, .seed = seed, .rings = 2};
    struct base_rng rng;
    base_rng_seed_stream(&rng, seed, n);
    world_members(&rng, members, n);
    for (size_t i = 0; i < n; i++)
        members[i].group = (uint32_t)(i / group_size);
    return world_plan(&options, members, n);
}

static double static_gap(enum topology_kind kind, size_t n)
{
    double gap = NAN;
    struct topology_plan *plan = plan_of(kind, n, 1);
    assert_int_equal(topology_gap_static(plan, &gap), BASE_OK);
    topology_plan_destroy(plan);
    return gap;
}

static double distance(const struct topology_plan *plan, uint64_t rounds)
{
    double found = NAN;
    assert_int_equal(topology_distance(plan, rounds, &found), BASE_OK);
    return found;
}

// R with weights 1/3 is that of powers of one matrix: the first R with (1 - gap)^R < 1e-2.
static void a_ring_with_weights_of_a_third_has_the_known_gap(void **state)
{
    static const uint64_t rounds[] = {22, 89, 358, 1433};
    (void)state;
    for (size_t i = 0, n = 8; i < 4; i++, n *= 2) {
        double gap = static_gap(TOPOLOGY_RING, n);
        assert_true(fabs(gap - 2.0 / 3 * (1 - cos(2 * pi / (double)n))) < 1e-9);
        assert_int_equal(ceil(log(1e-2) / log(1 - gap)), rounds[i]);
    }
}

static void a_ring_of_alternating_matchings_has_the_known_gap(void **state)
{
    static const uint64_t expected[] = {15, 60, 239, 956};
    (void)state;
    for (size_t i = 0, n = 8; i < 4; i++, n *= 2) {
        uint64_t rounds;
        struct topology_plan *plan = plan_of(TOPOLOGY_RING, n, 1);
        assert_int_equal(topology_rounds_to(plan, 1e-2, &rounds), BASE_OK);
        assert_int_equal(rounds, expected[i]);
        topology_plan_destroy(plan);
    }
}

static void a_hypercube_with_metropolis_weights_has_the_known_gap(void **state)
{
    (void)state;
    for (size_t m = 1, n = 2; n <= 512; m++, n *= 2)
        assert_true(fabs(static_gap(TOPOLOGY_BUTTERFLY, n) - (m == 1 ? 1 : 2 / ((double)m + 1))) < 1e-9);
}

static void square_tori_have_the_known_gap(void **state)
{
    (void)state;
    for (size_t s = 3; s <= 20; s++) {
        double smallest = 0, gap = static_gap(TOPOLOGY_TORUS, s * s), c = cos(2 * pi / (double)s);
        for (size_t k = 0; k < s; k++) // the most negative eigenvalue
            smallest = fmin(smallest, (1 + 4 * cos(2 * pi * (double)k / (double)s)) / 5);
        assert_true(fabs(gap - (1 - fmax((3 + 2 * c) / 5, -smallest))) < 1e-9);
    }
    assert_true(fabs(static_gap(TOPOLOGY_TORUS, 9) - .60) < 5e-3);
    assert_true(fabs(static_gap(TOPOLOGY_TORUS, 16) - .40) < 5e-3);
    assert_true(fabs(static_gap(TOPOLOGY_TORUS, 25) - .276) < 5e-4);
    assert_true(fabs(static_gap(TOPOLOGY_TORUS, 36) - .20) < 5e-3);
    assert_true(fabs(static_gap(TOPOLOGY_TORUS, 64) - .117) < 5e-4);
}

static void complete_graphs_and_stars_have_the_known_gap(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 40; n++) {
        assert_true(fabs(static_gap(TOPOLOGY_COMPLETE, n) - 1) < 1e-9);
        assert_true(fabs(static_gap(TOPOLOGY_STAR, n) - (n == 2 ? 1 : 1 / (double)n)) < 1e-9);
    }
}

static void one_peer_and_butterfly_are_exact_in_every_turn(void **state)
{
    (void)state;
    for (size_t m = 1, n = 2; n <= 256; m++, n *= 2) {
        for (int kind = TOPOLOGY_BUTTERFLY; kind <= TOPOLOGY_ONE_PEER; kind++) {
            if (kind != TOPOLOGY_BUTTERFLY && kind != TOPOLOGY_ONE_PEER)
                continue;
            struct topology_plan *plan = plan_of((enum topology_kind)kind, n, 1);
            assert_true(distance(plan, m) < 1e-7);
            assert_true(m == 1 || distance(plan, m - 1) > 0.1);
            topology_plan_destroy(plan);
        }
    }
}

// In integers, so that the result does not depend on how far an iteration went.
static double spread_after(const struct topology_plan *plan, uint64_t from, uint64_t rounds)
{
    struct base_rng rng;
    double x[MOST], mean = 0, most = 0;
    size_t n = topology_plan_members(plan);
    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++)
        mean += x[i] = (double)base_rng_below(&rng, 1u << 20) / (double)n;
    mean /= (double)n;
    for (uint64_t t = from; t < from + rounds; t++)
        for (size_t i = 0; i < n; i++) {
            size_t j = topology_plan_partner(plan, i, t);
            if (j != TOPOLOGY_NOBODY && i < j) {
                double force = topology_plan_weight(plan, i, t) * (x[j] - x[i]);
                x[i] += force;
                x[j] -= force;
            }
        }
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i] - mean) / mean);
    return most;
}

static void the_other_turn_of_one_peer_is_exact_too(void **state)
{
    (void)state;
    for (size_t m = 1, n = 2; n <= 256; m++, n *= 2) {
        struct topology_plan *plan = plan_of(TOPOLOGY_ONE_PEER, n, 1);
        assert_true(spread_after(plan, m, m) < 1e-12);
        topology_plan_destroy(plan);
    }
}

static void base_2_graphs_are_exact_and_as_short_as_published(void **state)
{
    static const struct {
        size_t n;
        uint64_t length;
    } published[] = {{5, 5}, {6, 4}, {7, 5}, {12, 5}, {25, 9}, {33, 11}, {100, 11}};
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct topology_plan *plan = plan_of(TOPOLOGY_BASE, published[i].n, 1);
        assert_int_equal(topology_plan_period(plan), published[i].length);
        topology_plan_destroy(plan);
    }
    for (size_t n = 2; n <= 300; n++) {
        struct topology_plan *plan = plan_of(TOPOLOGY_BASE, n, 1);
        assert_true(spread_after(plan, 0, topology_plan_period(plan)) < 1e-12);
        assert_true((double)topology_plan_period(plan) <= 2 * log2((double)n) + 2);
        topology_plan_destroy(plan);
    }
}

// The published rounds of degree k, split into meetings of two: as exact, in more rounds.
static void base_k_graphs_are_exact(void **state)
{
    static struct topology_member members[MOST];
    struct base_rng rng;
    (void)state;
    base_rng_seed_stream(&rng, seed, 3);
    world_members(&rng, members, MOST);
    for (unsigned k = 1; k <= TOPOLOGY_BASE_MAX; k++)
        for (size_t n = 2; n <= 300; n++) {
            struct topology_options options = {.kind = TOPOLOGY_BASE, .seed = seed, .base_k = k};
            struct topology_plan *plan = world_plan(&options, members, n);
            uint64_t period = topology_plan_period(plan);
            if (spread_after(plan, 0, period) >= 1e-12)
                fail_msg("k %u, %zu members: %g", k, n, spread_after(plan, 0, period));
            // At most 2 log n rounds of degree k, each of no more than 2 log (k+1) + 1 or k meetings.
            double published = 2 * log((double)n) / log(k + 1.0) + 2;
            assert_true((double)period <= published * fmax(k, 2 * log2(k + 1.0) + 1));
            topology_plan_destroy(plan);
        }
    struct topology_options options = {.kind = TOPOLOGY_BASE, .base_k = TOPOLOGY_BASE_MAX + 1};
    struct topology_plan *plan;
    assert_int_equal(topology_plan_create(&options, members, 8, &plan), BASE_EINVAL);
}

// 3^m nodes in base 3 are cliques of three and nothing else: 3 rounds for each of m.
static void powers_of_the_base_need_no_weights_between_cliques(void **state)
{
    static struct topology_member members[MOST];
    struct base_rng rng;
    (void)state;
    base_rng_seed_stream(&rng, seed, 4);
    world_members(&rng, members, MOST);
    for (size_t n = 3, m = 1; n < MOST; n *= 3, m++) {
        struct topology_options options = {.kind = TOPOLOGY_BASE, .seed = seed, .base_k = 2};
        struct topology_plan *plan = world_plan(&options, members, n);
        assert_int_equal(topology_plan_period(plan), 3 * m);
        topology_plan_destroy(plan);
    }
}

// In one turn first the groups agree, then the leaders; 1 - 1/g of the difference between equal groups of g
// is left.
static void hierarchies_agree_first_inside_groups_and_then_between_them(void **state)
{
    (void)state;
    for (size_t g = 1; g <= 12; g++)
        for (size_t groups = 2; groups <= 7; groups++) {
            struct topology_plan *plan = plan_of(TOPOLOGY_HIERARCHICAL, g * groups, g);
            uint64_t period = topology_plan_period(plan);
            // After the first pass inside the groups, only their means matter.
            double after_2 = distance(plan, 2 * period), after_3 = distance(plan, 3 * period);
            if (g == 1)
                assert_true(after_2 < 1e-7);
            else
                assert_true(fabs(after_3 / after_2 - (1 - 1 / (double)g)) < 1e-4);
            topology_plan_destroy(plan);
        }
}

static void random_matchings_contract_as_expected(void **state)
{
    (void)state;
    for (size_t n = 4; n <= 64; n = n < 8 ? n + 1 : 2 * n) {
        struct topology_plan *plan = plan_of(TOPOLOGY_MATCHINGS, n, 1);
        double expected = n % 2 ? 0.5 : (double)(n - 2) / (double)(2 * (n - 1)), gap, sum = 0, squares = 0;
        enum { ROUNDS = 20000 };
        assert_int_equal(topology_gap_mean(plan, &gap), BASE_OK);
        assert_true(fabs(1 - gap - expected) < 1e-12);
        // x = (1, -1, 0, ...): |W x|^2 / |x|^2 is 0 if the two meet, else 1/2, or more where one rests.
        for (uint64_t t = 0; t < ROUNDS; t++) {
            size_t a = topology_plan_partner(plan, 0, t), b = topology_plan_partner(plan, 1, t);
            double left =
                a == 1 ? 0 : (a == TOPOLOGY_NOBODY ? 0.5 : 0.25) + (b == TOPOLOGY_NOBODY ? 0.5 : 0.25);
            sum += left;
            squares += left * left;
        }
        double mean = sum / ROUNDS, error = sqrt((squares / ROUNDS - mean * mean) / ROUNDS);
        print_message("%zu members: %.4f, expected %.4f +- %.4f\n", n, mean, expected, error);
        assert_true(fabs(mean - expected) < 5 * error + 1e-12);
        topology_plan_destroy(plan);
    }
}

// All 15 matchings of six, equally often: chi squared with 14 degrees of freedom exceeds 42.6 once in 10^4.
static void every_matching_is_equally_likely(void **state)
{
    enum { ROUNDS = 30000 };
    double count[6][6] = {{0}}, chi = 0;
    struct topology_plan *plan = plan_of(TOPOLOGY_MATCHINGS, 6, 1);
    (void)state;
    // identified by the partner of 0 and that of the first member left
    for (uint64_t t = 0; t < ROUNDS; t++) {
        size_t mate = topology_plan_partner(plan, 0, t), next = mate == 1 ? 2 : 1;
        count[mate][topology_plan_partner(plan, next, t)]++;
    }
    for (size_t a = 0; a < 6; a++)
        for (size_t b = 0; b < 6; b++)
            chi += count[a][b] > 0 ? pow(count[a][b] - ROUNDS / 15.0, 2) / (ROUNDS / 15.0) : 0;
    print_message("chi squared %.1f\n", chi);
    assert_true(chi < 42.6);
    topology_plan_destroy(plan);
}

// In the order of the circle method a tournament of 64 would be a ring, and need 956.
static void tournaments_and_exponential_graphs_mix_fast(void **state)
{
    (void)state;
    for (size_t n = 8; n <= 64; n *= 2)
        for (size_t odd = 0; odd < 2; odd++) {
            uint64_t tournament, exponential;
            struct topology_plan *plan = plan_of(TOPOLOGY_COMPLETE, n + odd, 1);
            assert_int_equal(topology_rounds_to(plan, 1e-2, &tournament), BASE_OK);
            topology_plan_destroy(plan);
            plan = plan_of(TOPOLOGY_EXPONENTIAL, n + odd, 1);
            assert_int_equal(topology_rounds_to(plan, 1e-2, &exponential), BASE_OK);
            topology_plan_destroy(plan);
            print_message("%zu members: tournament %d rounds, exponential %d\n", n + odd, (int)tournament,
                          (int)exponential);
            assert_true(tournament <= 48 && exponential <= 48);
        }
}

static void one_member_agrees_with_itself(void **state)
{
    static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_MATCHINGS, TOPOLOGY_BASE,
                                               TOPOLOGY_COMPLETE};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct topology_plan *plan = plan_of(kinds[i], 1, 1);
        double gap = NAN;
        uint64_t rounds = 99;
        assert_int_equal(topology_gap_mean(plan, &gap), BASE_OK);
        assert_true(gap == 1 && distance(plan, 3) == 0);
        assert_int_equal(topology_rounds_to(plan, 1e-2, &rounds), BASE_OK);
        assert_int_equal(rounds, 0);
        topology_plan_destroy(plan);
    }
}

static void graphs_have_the_known_shapes(void **state)
{
    static const struct {
        enum topology_kind kind;
        size_t n, min, max, edges, diameter;
    } known[] = {{TOPOLOGY_RING, 16, 2, 2, 16, 8},        {TOPOLOGY_BUTTERFLY, 16, 4, 4, 32, 4},
                 {TOPOLOGY_TORUS, 16, 4, 4, 32, 4},       {TOPOLOGY_EXPONENTIAL, 16, 7, 7, 56, 2},
                 {TOPOLOGY_COMPLETE, 16, 15, 15, 120, 1}, {TOPOLOGY_STAR, 16, 1, 15, 15, 2},
                 {TOPOLOGY_RING, 1, 0, 0, 0, 0},          {TOPOLOGY_RING, 2, 1, 1, 1, 1},
                 {TOPOLOGY_MATCHINGS, 9, 8, 8, 36, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct topology_shape shape;
        struct topology_plan *plan = plan_of(known[i].kind, known[i].n, 1);
        assert_int_equal(topology_shape_of(plan, &shape), BASE_OK);
        assert_int_equal(shape.degree_min, known[i].min);
        assert_int_equal(shape.degree_max, known[i].max);
        assert_int_equal(shape.edges, known[i].edges);
        assert_int_equal(shape.diameter, known[i].diameter);
        assert_true(shape.connected);
        topology_plan_destroy(plan);
    }
}

// By the distances of Floyd and Warshall (1962), which share no code with topology_shape_of.
static size_t plain_diameter(const struct topology_plan *plan, size_t n, bool *connected)
{
    static uint16_t far[SEARCHED][SEARCHED];
    size_t peers[SEARCHED], diameter = 0;
    *connected = true;
    for (size_t i = 0; i < n; i++) {
        size_t count = topology_plan_neighbours(plan, i, peers, n);
        for (size_t j = 0; j < n; j++)
            far[i][j] = i == j ? 0 : NOWHERE;
        for (size_t k = 0; k < count; k++)
            far[i][peers[k]] = 1;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                if (far[i][k] + far[k][j] < far[i][j])
                    far[i][j] = (uint16_t)(far[i][k] + far[k][j]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            *connected = *connected && far[i][j] != NOWHERE;
            diameter = far[i][j] != NOWHERE && far[i][j] > diameter ? far[i][j] : diameter;
        }
    return diameter;
}

static void diameters_are_those_of_every_pair(void **state)
{
    (void)state;
    for (size_t n = 2; n <= SEARCHED; n = n < 40 ? n + 1 : n + 17)
        for (int kind = 0; kind < TOPOLOGY_KINDS; kind++) {
            if (kind == TOPOLOGY_FILE)
                continue;
            bool connected;
            struct topology_shape shape;
            struct topology_plan *plan = plan_of((enum topology_kind)kind, n, n % 5 + 1);
            assert_int_equal(topology_shape_of(plan, &shape), BASE_OK);
            size_t diameter = plain_diameter(plan, n, &connected);
            if (shape.diameter != diameter || shape.connected != connected)
                fail_msg("kind %d of %zu: found %zu, expected %zu", kind, n, shape.diameter, diameter);
            topology_plan_destroy(plan);
        }
}

static void a_graph_that_takes_too_long_is_refused(void **state)
{
    struct topology_plan *plan = plan_of(TOPOLOGY_RING, MOST, 1);
    uint64_t rounds = 0;
    (void)state;
    assert_int_equal(topology_rounds_to(plan, 1e-2, &rounds), BASE_ELIMIT);
    assert_true(rounds > 100);
    topology_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_with_weights_of_a_third_has_the_known_gap),
        cmocka_unit_test(a_ring_of_alternating_matchings_has_the_known_gap),
        cmocka_unit_test(a_hypercube_with_metropolis_weights_has_the_known_gap),
        cmocka_unit_test(square_tori_have_the_known_gap),
        cmocka_unit_test(complete_graphs_and_stars_have_the_known_gap),
        cmocka_unit_test(one_peer_and_butterfly_are_exact_in_every_turn),
        cmocka_unit_test(the_other_turn_of_one_peer_is_exact_too),
        cmocka_unit_test(base_2_graphs_are_exact_and_as_short_as_published),
        cmocka_unit_test(base_k_graphs_are_exact),
        cmocka_unit_test(powers_of_the_base_need_no_weights_between_cliques),
        cmocka_unit_test(hierarchies_agree_first_inside_groups_and_then_between_them),
        cmocka_unit_test(random_matchings_contract_as_expected),
        cmocka_unit_test(every_matching_is_equally_likely),
        cmocka_unit_test(tournaments_and_exponential_graphs_mix_fast),
        cmocka_unit_test(one_member_agrees_with_itself),
        cmocka_unit_test(graphs_have_the_known_shapes),
        cmocka_unit_test(diameters_are_those_of_every_pair),
        cmocka_unit_test(a_graph_that_takes_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
