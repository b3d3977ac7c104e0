// Drift correction where the learning rate changes: what was left over from large steps is not the drift of
// small ones.
#include "test/support/averaging.h"
#include "test/support/exchange_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define RATE 0.05f

static double largest(const struct net *net)
{
    double most = 0;
    for (size_t i = 0; i < net->nodes; i++)
        for (size_t j = 0; j < net->parameters; j++)
            most = fmax(most, fabs((double)net->node[i].correction[j]));
    return most;
}

static double drift_rounds(struct drift *drift, float rate, uint64_t *round, uint64_t count)
{
    double most = 0;

    drift->rate = rate;
    drift->net->step_scale = rate * DRIFT_STEPS;
    for (uint64_t end = *round + count; *round < end;) {
        ++*round;
        for (size_t i = 0; i < DRIFT_NODES; i++)
            drift_train(drift, i, true);
        net_round_all(drift->net, *round);
        most = fmax(most, largest(drift->net));
    }
    return most;
}

// The rate falls to `low` of its peak and returns. What the large steps left behind reaches a node in many
// exchanges, while its steps are small: were it taken for the drift of these, the corrections would grow by
// the factor 1 / low.
static void fall_and_return(enum topology_kind kind, bool bf16, bool sync, float low)
{
    struct gossip_exchange_options options = defaults(1.0f / 16, KERNELS_INT8);
    struct drift drift;
    uint64_t round = 0;

    options.drift_correction = true;
    options.reference_bf16 = bf16;
    options.sync = sync;
    drift_start(&drift, &options, kind, RATE, net_seed(31));
    const double before = drift_rounds(&drift, RATE, &round, 300);
    const double energy = net_energy(drift.net);
    const double low_most = drift_rounds(&drift, RATE * low, &round, 400);
    const double after = drift_rounds(&drift, RATE, &round, 100), after_energy = net_energy(drift.net);
    printf("%s %s to %g: corrections %.3g, %.3g, %.3g, energy %.3g, %.3g\n", topology_kind_name(kind),
           bf16 ? "bf16" : "fp32", (double)low, before, low_most, after, energy, after_energy);
    assert_true(low_most < 1.5 * before);
    assert_true(after < 1.5 * before);
    assert_true(after_energy < 1.3 * energy);
    assert_true(net_references_match(drift.net));
    net_destroy(drift.net);
}

static void test_corrections_outlast_a_fall_of_the_rate(void **state)
{
    (void)state;
    fall_and_return(TOPOLOGY_RING, false, true, 1e-5f);
    // bf16 never agrees completely: there is always something left.
    fall_and_return(TOPOLOGY_RING, true, true, 1e-5f);
    fall_and_return(TOPOLOGY_BUTTERFLY, false, true, 1e-5f);
    fall_and_return(TOPOLOGY_BUTTERFLY, false, true, 1e-7f);
    fall_and_return(TOPOLOGY_RING, false, false, 1e-5f);
    fall_and_return(TOPOLOGY_RING, false, true, 1e-2f);
}

// A cosine from the peak to 1e-5 of it, again and again.
static void test_corrections_outlast_restarts_of_a_schedule(void **state)
{
    enum { CYCLE = 120, CYCLES = 5 };
    struct gossip_exchange_options options = defaults(1.0f / 16, KERNELS_INT8);
    struct drift drift;
    uint64_t round = 0;

    (void)state;
    options.drift_correction = true;
    drift_start(&drift, &options, TOPOLOGY_RING, RATE, net_seed(32));
    const double before = drift_rounds(&drift, RATE, &round, 300);
    double most = 0;
    for (int at = 0; at < CYCLE * CYCLES; at++) {
        const double turn = cos(3.14159265358979 * (double)(at % CYCLE) / (CYCLE - 1));
        most =
            fmax(most, drift_rounds(&drift, RATE * (float)(1e-5 + (1 - 1e-5) * 0.5 * (1 + turn)), &round, 1));
    }
    printf("largest correction %.3g at the peak, %.3g in %d restarts\n", before, most, CYCLES);
    assert_true(most < 1.5 * before);
    net_destroy(drift.net);
}

// c after a dense exchange whose force is 1: beta / s, beta = 1/4. `peak` rounds with a step scale of 1, then
// `low_rounds`.
static double scale_after(unsigned peak, float low, unsigned low_rounds)
{
    enum { D = 40 };
    struct gossip_exchange_options options = defaults(1.0f, KERNELS_FP32);
    uint64_t round = 0;

    options.drift_correction = true;
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(33), &options);
    net_link_all(net);
    net->step_scale = 1;
    for (unsigned i = 0; i < peak; i++)
        net_round_all(net, ++round);
    net->step_scale = low;
    for (unsigned i = 1; i < low_rounds; i++)
        net_round_all(net, ++round);
    for (size_t j = 0; j < D; j++) {
        net->node[0].x[j] = 1;
        net->node[1].x[j] = 3;
    }
    net_round_all(net, ++round);
    const double scale = 0.25 / (double)net->node[0].correction[0];
    net_destroy(net);
    return scale;
}

// -- neighbours with other rates

// `rounds` exchanges of two nodes, the second with `ratio` times the rate of the first, and `pace` times its
// time of a step.
static float rates_after(float ratio, uint64_t pace, unsigned rounds, bool absence)
{
    struct gossip_exchange_options options = defaults(0.25f, KERNELS_FP32);
    struct gossip_edge_info info;
    struct net *net = net_create(2, 40, TOPOLOGY_RING, net_seed(34), &options);
    net_link_all(net);
    net->node[0].pace_ns = 1000;
    net->node[1].pace_ns = 1000 * pace;
    for (uint64_t round = 1; round <= rounds; round++)
        for (size_t i = 0; i < 2; i++) {
            net->step_scale = i == 0 ? 1 : absence && round % 8 ? 1 : ratio;
            net_round(net, i, round);
            if (i == 1)
                net_settle(net, 1000000000);
        }
    const float rates = net_edge(net, 0, 1, &info)->rates, others = net_edge(net, 1, 0, &info)->rates;
    assert_true(rates > 0 ? fabsf(rates * others - 1) < 1e-3f : others <= 0); // both ends see it
    net_destroy(net);
    return rates;
}

static void test_neighbours_with_far_rates_are_told_on_both_ends(void **state)
{
    (void)state;
    assert_true(fabsf(rates_after(17, 1, 36, false) - 17) < 0.01f);
    assert_true(fabsf(rates_after(0.01f, 1, 36, false) - 0.01f) < 1e-4f);
    assert_true(rates_after(15, 1, 36, false) <= 0);
    assert_true(rates_after(17, 1, 28, false) <= 0);     // a few exchanges say little
    assert_true(rates_after(17, 1, 100, true) <= 0);     // nor does one in eight
    assert_true(rates_after(0.05f, 20, 36, false) <= 0); // a slow node: it makes fewer steps
    assert_true(rates_after(0.001f, 20, 36, false) > 0); // and has another rate
}

// Its exchanges afterwards contain a part of the time in which the two did not meet.
static void test_a_node_that_was_away_has_the_same_rate(void **state)
{
    struct gossip_exchange_options options = defaults(0.25f, KERNELS_FP32);
    struct gossip_edge_info info;
    struct net *net = net_create(2, 40, TOPOLOGY_RING, net_seed(35), &options);
    uint64_t round = 0;
    (void)state;
    net->step_scale = 1;
    net_link_all(net);
    while (round < 20)
        net_round_all(net, ++round);
    net_unlink(net, 0, 1);
    while (round < 400)
        net_round(net, 1, ++round);
    net_link(net, 0, 1);
    for (unsigned k = 0; k < 60; k++) {
        net_round_all(net, ++round);
        assert_true(net_edge(net, 0, 1, &info)->rates <= 0 && net_edge(net, 1, 0, &info)->rates <= 0);
    }
    net_destroy(net);
}

static void test_how_far_the_scale_follows_a_fall(void **state)
{
    (void)state;
    assert_near(scale_after(3, 1, 1), 1, 0);
    assert_near(scale_after(0, 1e-3f, 3), (double)1e-3f, 1e-9); // no larger steps before
    assert_near(scale_after(3, 1.0f / 16, 1), 1.0 / 16, 0);     // the falls of usual schedules change nothing
    assert_near(scale_after(3, 1.0f / 32, 1), 1.0 / 8,
                0.01); // beyond them, the smaller the step, the larger the scale
    assert_near(scale_after(3, 1e-5f, 1), 1, 1e-4);
    assert_near(scale_after(3, 1e-5f, 200), 1, 0.01); // many rounds, but not even one step of the peak
    // Dense, one edge: an exchange carries everything, so the window is one step of the peak, or 100 steps of
    // 1/100.
    assert_true(scale_after(3, 0.01f, 10) > 0.05);
    assert_near(scale_after(3, 0.01f, 400), 0.01, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corrections_outlast_a_fall_of_the_rate),
        cmocka_unit_test(test_corrections_outlast_restarts_of_a_schedule),
        cmocka_unit_test(test_neighbours_with_far_rates_are_told_on_both_ends),
        cmocka_unit_test(test_a_node_that_was_away_has_the_same_rate),
        cmocka_unit_test(test_how_far_the_scale_follows_a_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
