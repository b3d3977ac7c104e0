// The mathematics of the exchange: the three identities, consensus, second moments, and what loss may and may
// not do.
#include "test/support/averaging.h"
#include "test/support/exchange_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void fill_normal(struct net *net)
{
    for (size_t i = 0; i < net->nodes; i++)
        for (size_t j = 0; j < net->parameters; j++)
            net->node[i].x[j] = (float)base_rng_normal(&net->rng);
}

// DESIGN, averaging: x_i + x_j does not change; a' = a - C(a); x_i' - x_j' = a_i' - a_j'.
static void check_identities(float ratio, enum kernels_format values, uint64_t seed)
{
    enum { D = 997 };
    struct gossip_exchange_options options = defaults(ratio, values);
    struct net *net = net_create(2, D, TOPOLOGY_RING, seed, &options);
    struct gossip_edge_info info;
    float before[2][D], reference[D];

    net_link_all(net);
    fill_normal(net);
    for (uint64_t round = 1; round <= 20; round++) {
        for (size_t i = 0; i < 2; i++) {
            for (size_t j = 0; j < D; j++)
                net->node[i].x[j] += 0.1f * (float)base_rng_normal(&net->rng);
            memcpy(before[i], net->node[i].x, sizeof before[i]);
        }
        const float *then =
            net_edge(net, 0, 1, &info)->reference; // before the first exchange: the seed model
        memcpy(reference, then ? then : net->start, sizeof reference);
        net_round_all(net, round);
        assert_true(net_references_match(net));
        const float *after = net_edge(net, 0, 1, &info)->reference;
        for (size_t j = 0; j < D; j++) {
            double x0 = (double)net->node[0].x[j], x1 = (double)net->node[1].x[j];
            double r = (double)reference[j], r_after = (double)after[j];
            // q_i + q_j = 2 (r' - r), q_j - q_i = 2 (x_i' - x_i)
            double sum = 2 * (r_after - r), difference = 2 * (x0 - (double)before[0][j]);
            double q0 = (sum - difference) / 2, q1 = (sum + difference) / 2;
            double a0 = (double)before[0][j] - r, a1 = (double)before[1][j] - r;
            assert_near(x0 + x1, (double)before[0][j] + (double)before[1][j], 4e-6);
            assert_near(x0 - r_after, a0 - q0, 4e-6);
            assert_near(x1 - r_after, a1 - q1, 4e-6);
            assert_near(x0 - x1, (a0 - q0) - (a1 - q1), 8e-6);
        }
    }
    assert_int_equal(info.sequence, 20);
    net_destroy(net);
}

static void test_the_three_identities_hold(void **state)
{
    uint64_t seed = net_seed(11);

    (void)state;
    for (float ratio = 0.002f; ratio <= 1; ratio *= 5)
        for (unsigned values = 0; values < KERNELS_FORMATS; values++)
            check_identities(ratio, (enum kernels_format)values, seed++);
}

static uint64_t rounds_to(struct net *net, double target, uint64_t limit)
{
    double initial = 0;

    for (uint64_t round = 1; round <= limit; round++) {
        if (round == 1) {
            for (size_t i = 0; i < net->nodes; i++)
                for (size_t j = 0; j < net->parameters; j++)
                    initial += (double)net->node[i].x[j] * (double)net->node[i].x[j];
        }
        net_round_all(net, round);
        assert_true(net_references_match(net));
        if (net_energy(net) <= target * initial)
            return round;
    }
    return limit + 1;
}

// DESIGN, topology: a butterfly of 16 over Gaussian vectors reaches 1e-4 of the initial energy in 72 rounds
// at k/d = 0.1, and then continues to the precision of fp32.
static void test_butterfly_of_16_reaches_consensus(void **state)
{
    struct gossip_exchange_options options = defaults(0.1f, KERNELS_INT8);
    struct net *net = net_create(16, 1000, TOPOLOGY_BUTTERFLY, net_seed(5), &options);

    (void)state;
    net_link_all(net);
    fill_normal(net);
    uint64_t rounds = rounds_to(net, 1e-4, 200);
    printf("butterfly of 16, k/d = 0.1: 1e-4 after %llu rounds\n", (unsigned long long)rounds);
    assert_in_range(rounds, 67, 77);
    for (uint64_t round = rounds + 1; round <= 400; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    // fp32 at values of order 0.25 (means of 16 normals): differences of a few units in the last place.
    assert_true(net_energy(net) / (16.0 * 1000.0) < 1e-13);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    net_destroy(net);
}

static void test_a_ring_of_any_size_reaches_consensus(void **state)
{
    uint64_t seed = net_seed(6);

    (void)state;
    for (size_t nodes = 2; nodes <= 9; nodes++) {
        struct gossip_exchange_options options = defaults(0.25f, KERNELS_FP16);
        struct net *net =
            net_create(nodes, 64, nodes % 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY, seed + nodes, &options);
        net_link_all(net);
        fill_normal(net);
        assert_true(rounds_to(net, 1e-4, 600) <= 600);
        net_destroy(net);
    }
}

static void shuffle_loss(struct net *net, uint64_t rounds, double cut_chance)
{
    net->jitter_ns = 300000;
    net->cut_chance = cut_chance;
    for (uint64_t round = 1; round <= rounds; round++)
        net_round_all(net, round);
    net->cut_chance = 0;
}

// Links break at every kind of message; replay and discard settle what was open. The mean does not change, r
// stays identical, and there is no RESYNC.
static void test_broken_links_heal_exactly(void **state)
{
    enum { N = 8, D = 400 };
    struct gossip_exchange_options options = defaults(0.05f, KERNELS_INT8);
    double before[D], after[D], drift = 0;

    (void)state;
    options.drift_correction = true;
    struct net *net = net_create(N, D, TOPOLOGY_BUTTERFLY, net_seed(9), &options);
    net_link_all(net);
    fill_normal(net);
    for (size_t j = 0; j < D; j++) {
        before[j] = 0;
        for (size_t i = 0; i < N; i++)
            before[j] += (double)net->node[i].x[j] / N;
    }
    shuffle_loss(net, 300, 0.05);
    for (uint64_t round = 301; round <= 900; round++)
        net_round_all(net, round);
    net_mean(net, after);
    for (size_t j = 0; j < D; j++)
        drift = fmax(drift, fabs(after[j] - before[j]));
    printf(
        "%zu cuts: %llu replays, %llu discards, %llu resyncs; mean moved by %.2g, energy an element %.2g\n",
        net->cuts, (unsigned long long)net_count(net, COUNTER(replays)),
        (unsigned long long)net_count(net, COUNTER(discards)),
        (unsigned long long)net_count(net, COUNTER(resyncs)), drift, net_energy(net) / (N * D));
    assert_true(net->cuts > 50);
    assert_true(net_count(net, COUNTER(replays)) > 5);
    assert_true(net_count(net, COUNTER(discards)) > 5);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_true(net_references_match(net));
    assert_true(drift < 1e-5);
    assert_true(net_energy(net) / (N * D) < 1e-12);
    net_destroy(net);
}

static void test_second_moments_average(void **state)
{
    enum { N = 4, D = 300 };
    struct gossip_exchange_options options = defaults(0.1f, KERNELS_INT8);
    double before[D], spread = 0;

    (void)state;
    options.share_second_moment = 20;
    struct net *net = net_create(N, D, TOPOLOGY_BUTTERFLY, net_seed(10), &options);
    net_link_all(net);
    for (size_t j = 0; j < D; j++) {
        before[j] = 0;
        for (size_t i = 0; i < N; i++) {
            double normal = base_rng_normal(&net->rng);
            net->node[i].v[j] = (float)(normal * normal * exp(3 * base_rng_normal(&net->rng)));
            before[j] += (double)net->node[i].v[j] / N;
        }
    }
    for (uint64_t round = 1; round <= 400; round++)
        net_round_all(net, round);
    for (size_t j = 0; j < D; j++) {
        double mean = 0;
        for (size_t i = 0; i < N; i++) {
            assert_true(net->node[i].v[j] >= 0);
            mean += (double)net->node[i].v[j] / N;
        }
        for (size_t i = 0; i < N; i++)
            spread = fmax(spread, fabs((double)net->node[i].v[j] / (mean + 1e-30) - 1));
        assert_true(fabs(mean - before[j]) <= 1e-5 * before[j] + 1e-9);
    }
    printf("second moments: largest relative spread %.3g after 20 turns\n", spread);
    assert_true(spread < 0.2); // log8 has steps of 9%
    net_destroy(net);
}

// A moment that is tiny beside the largest one of its slice is coarse on the wire; it must not become
// negative or zero at the trainer.
static void test_second_moments_stay_above_zero(void **state)
{
    enum { D = 200 };
    struct gossip_exchange_options options = defaults(0.1f, KERNELS_INT8);
    struct net *net;
    size_t below_scale = 0;

    (void)state;
    options.share_second_moment = 4;
    net = net_create(2, D, TOPOLOGY_RING, net_seed(12), &options);
    net_link_all(net);
    for (size_t j = 0; j < D; j++) {
        net->node[0].v[j] =
            j % 7 == 0 ? 1.0f : 1e-14f * (float)(j + 1); // the least on the wire is 2^-32 of the largest
        net->node[1].v[j] = 0;
        below_scale += net->node[0].v[j] > 0 && net->node[0].v[j] < 1e-10f;
    }
    assert_true(below_scale > 100);
    for (uint64_t round = 1; round <= 40; round++) {
        net_round_all(net, round);
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < D; j++)
                assert_true(net->node[i].v[j] >= 0 && net->node[0].v[j] > 0);
    }
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2 * 40);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_three_identities_hold),
        cmocka_unit_test(test_butterfly_of_16_reaches_consensus),
        cmocka_unit_test(test_a_ring_of_any_size_reaches_consensus),
        cmocka_unit_test(test_broken_links_heal_exactly),
        cmocka_unit_test(test_second_moments_average),
        cmocka_unit_test(test_second_moments_stay_above_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
