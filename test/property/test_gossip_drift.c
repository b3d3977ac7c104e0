// Drift correction: the corrections sum to zero, remove drift, and stay stable when meetings are missed.
#include "test/support/averaging.h"
#include "test/support/exchange_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

// c_i + c_j = 0 bit for bit on every edge, so the corrections of all nodes sum to zero.
static void test_corrections_sum_to_zero(void **state)
{
    enum { N = 8, D = 500 };
    struct gossip_exchange_options options = defaults(1.0f / 32, KERNELS_INT8);
    double largest = 0;

    (void)state;
    options.drift_correction = true;
    struct net *net = net_create(N, D, TOPOLOGY_BUTTERFLY, net_seed(7), &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= 200; round++) {
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < D; j++) // every node drifts its own way and is pulled back
                net->node[i].x[j] += 0.1f * ((float)((i * 7 + j) % 5) - 2 + net->node[i].correction[j]);
        net_round_all(net, round);
        assert_true(net_references_match(net));
    }
    for (size_t j = 0; j < D; j++) {
        double sum = 0;
        for (size_t i = 0; i < N; i++) {
            sum += (double)net->node[i].correction[j];
            largest = fmax(largest, fabs((double)net->node[i].correction[j]));
        }
        assert_near(sum, 0, 1e-4);
    }
    assert_true(largest > 0.5); // the corrections had an effect
    net_destroy(net);
}

static double drift_floor(bool correction, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(1.0f / 16, KERNELS_INT8);
    struct drift drift;

    options.drift_correction = correction;
    drift_start(&drift, &options, TOPOLOGY_RING, 0.05f, seed);
    for (uint64_t round = 1; round <= 1500; round++) {
        for (size_t i = 0; i < DRIFT_NODES; i++)
            drift_train(&drift, i, false);
        net_round_all(drift.net, round);
    }
    double energy = net_energy(drift.net) / (DRIFT_NODES * DRIFT_SIZE);
    net_destroy(drift.net);
    return energy;
}

static void test_the_correction_removes_drift(void **state)
{
    uint64_t seed = net_seed(8);
    double without = drift_floor(false, seed), with = drift_floor(true, seed);

    (void)state;
    printf("disagreement an element under drift: %.3g without correction, %.3g with\n", without, with);
    assert_true(without > 0.1);
    assert_true(with < without / 1000);
}

// The correction after `missed` rounds without a meeting, in units of force / step scale of one round. The
// exchange is dense, so that the force is known: half the difference of the two models.
static double correction_after(unsigned missed, uint64_t seed)
{
    enum { D = 40 };
    struct gossip_exchange_options options = defaults(1.0f, KERNELS_FP32);
    struct net *net;
    uint64_t round = 1;

    options.drift_correction = true;
    net = net_create(2, D, TOPOLOGY_RING, seed, &options);
    net_link_all(net);
    net_round_all(net, round);
    net_unlink(net, 0, 1);
    for (unsigned i = 0; i < missed; i++)
        net_round_all(net, ++round);
    net_link(net, 0, 1);
    net_settle(net, 1000000000);
    for (size_t j = 0; j < D; j++) {
        net->node[0].x[j] = 1;
        net->node[1].x[j] = 3;
    }
    net_round_all(net, ++round);
    double correction = (double)net->node[0].correction[0] * (double)net->step_scale;
    net_destroy(net);
    return correction;
}

// beta = limit = 1/4 here, force = 1: if every round meets, c = 1/4 / s. After missed meetings the force
// contains the drift of all those rounds, and is divided by their number.
static void test_the_correction_counts_missed_rounds(void **state)
{
    uint64_t seed = net_seed(14);

    (void)state;
    assert_near(correction_after(0, seed), 0.25, 1e-6);
    assert_near(correction_after(1, seed), 0.25 / 2, 1e-6);
    assert_near(correction_after(9, seed), 0.25 / 10, 1e-6);
}

// In async an exchange whose packet is lost is waited for until its deadline, so that many rounds have none;
// one node is slower.
static void test_the_correction_is_stable_when_meetings_are_missed(void **state)
{
    struct gossip_exchange_options options = defaults(1.0f / 32, KERNELS_INT8);
    struct drift drift;
    uint64_t rounds = 0;

    (void)state;
    options.drift_correction = true;
    options.sync = false;
    options.deadline_floor_ns = options.deadline_ceiling_ns = 500000;
    drift_start(&drift, &options, TOPOLOGY_RING, 0.05f, net_seed(13));
    drift.net->delay_ns = 1000000;
    drift.net->jitter_ns = 4000000;
    drift.net->loss_chance = 0.08;
    for (uint64_t tick = 1; tick <= 6000; tick++)
        for (size_t i = 0; i < DRIFT_NODES; i++) {
            const bool computes = i == 5 && tick % 4;
            if (!computes && !drift.net->node[i].in_round) {
                drift_train(&drift, i, false);
                net_round(drift.net, i, drift.net->node[i].round + 1);
                rounds++;
            }
            net_settle(drift.net, 125000); // a round of all nodes takes 1 ms, an exchange 2 to 10
        }
    double met = (double)net_count(drift.net, COUNTER(exchanges)) / (double)rounds;
    double energy = net_energy(drift.net) / (DRIFT_NODES * DRIFT_SIZE);
    printf("%.2f exchanges a round; disagreement an element %.3g\n", met, energy);
    assert_true(met < 0.6);
    assert_true(energy < 0.1); // without any correction it is above 3
    assert_true(net_references_match(drift.net));
    net_destroy(drift.net);
}

static double largest_of(const struct net *net, size_t node)
{
    double most = 0;
    for (size_t j = 0; j < net->parameters; j++)
        most = fmax(most, fabs((double)net->node[node].correction[j]));
    return most;
}

static double largest(const struct net *net)
{
    double most = 0;
    for (size_t i = 0; i < net->nodes; i++)
        most = fmax(most, largest_of(net, i));
    return most;
}

// A node's correction at rest: how far its own optimum is from that of all.
static double at_rest(const struct drift *drift, size_t node)
{
    double most = 0;
    for (size_t j = 0; j < DRIFT_SIZE; j++) {
        double mean = 0;
        for (size_t i = 0; i < DRIFT_NODES; i++)
            mean += (double)drift->target[i][j] / DRIFT_NODES;
        most = fmax(most, fabs((double)drift->target[node][j] - mean));
    }
    return most;
}

static void drift_rounds(struct drift *drift, uint64_t first, uint64_t count, size_t away, double *most)
{
    for (uint64_t round = first; round < first + count; round++) {
        for (size_t i = 0; i < DRIFT_NODES; i++) {
            if (i == away)
                continue;
            drift_train(drift, i, false);
            net_round(drift->net, i, round);
        }
        net_settle(drift->net, 100000000);
        *most = fmax(*most, largest(drift->net));
    }
}

// A node is away for long and returns with its old edges. How far the others have moved meanwhile reaches the
// node in many exchanges. It must be integrated over the time that the move took, not over one round for each
// exchange. Then the node's correction comes to rest without exceeding its value at rest. The other edges of
// its neighbours see a jump, of up to half of the distance, as the drift of one round: the force of that
// exchange is a quarter of the distance.
static void test_the_correction_stays_small_after_an_absence(void **state)
{
    struct gossip_exchange_options options = defaults(1.0f / 32, KERNELS_INT8);
    struct drift drift;
    double before = 0, after = 0, returned = 0;

    (void)state;
    options.drift_correction = true;
    options.sync = false;
    drift_start(&drift, &options, TOPOLOGY_RING, 0.05f, net_seed(15));
    drift.rate = 0.001f; // so that one round is short beside the absence
    drift.net->step_scale = drift.rate * DRIFT_STEPS;
    drift_rounds(&drift, 1, 10, SIZE_MAX, &before);
    net_unlink(drift.net, 4, 5);
    net_unlink(drift.net, 5, 6);
    drift_rounds(&drift, 11, 3000, 5, &before);
    net_link(drift.net, 4, 5);
    net_link(drift.net, 5, 6);
    for (uint64_t round = 3011; round <= 6010; round++) {
        drift_rounds(&drift, round, 1, SIZE_MAX, &after);
        returned = fmax(returned, largest_of(drift.net, 5));
    }
    double energy = net_energy(drift.net) / (DRIFT_NODES * DRIFT_SIZE);
    double rest = at_rest(&drift, 5), distance = rest * DRIFT_NODES / (DRIFT_NODES - 1);
    double gain = (double)(options.drift_gain * options.ratio / drift.net->step_scale);
    printf(
        "largest correction %.3g before the absence is over, %.3g after it; of the node that was away %.3g, "
        "%.3g at rest; disagreement %.3g\n",
        before, after, returned, rest, energy);
    assert_true(returned < 1.1 * rest);
    assert_true(after < before + gain * distance / 4);
    assert_true(energy < 0.1);
    assert_int_equal(net_count(drift.net, COUNTER(resyncs)), 0);
    net_destroy(drift.net);
}

// The corrections of a node that is cut off from all others fade: no exchange adjusts them any more, so they
// would move it for ever.
static void test_the_correction_fades_without_exchanges(void **state)
{
    struct gossip_exchange_options options = defaults(1.0f / 16, KERNELS_INT8);
    struct drift drift;
    double most = 0, left = 0;

    (void)state;
    options.drift_correction = true;
    options.sync = false;
    drift_start(&drift, &options, TOPOLOGY_RING, 0.05f, net_seed(16));
    drift_rounds(&drift, 1, 300, SIZE_MAX, &most);
    net_unlink(drift.net, 4, 5);
    net_unlink(drift.net, 5, 6);
    drift_rounds(&drift, 301, 8, SIZE_MAX, &most);
    for (size_t j = 0; j < DRIFT_SIZE; j++)
        left = fmax(left, fabs((double)drift.net->node[5].correction[j]));
    assert_true(left > 1); // the pull of neighbours, which usually come back soon
    drift_rounds(&drift, 309, 300, SIZE_MAX, &most);
    for (size_t j = 0; j < DRIFT_SIZE; j++) {
        assert_near(drift.net->node[5].correction[j], 0, 1e-4);
        assert_near(drift.net->node[5].x[j], drift.target[5][j], 1e-3);
    }
    net_link(drift.net, 4, 5);
    net_link(drift.net, 5, 6);
    drift_rounds(&drift, 609, 1500, SIZE_MAX, &most);
    double energy = net_energy(drift.net) / (DRIFT_NODES * DRIFT_SIZE);
    printf("disagreement an element %.3g\n", energy);
    assert_true(energy < 1e-6);
    net_destroy(drift.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corrections_sum_to_zero),
        cmocka_unit_test(test_the_correction_removes_drift),
        cmocka_unit_test(test_the_correction_counts_missed_rounds),
        cmocka_unit_test(test_the_correction_is_stable_when_meetings_are_missed),
        cmocka_unit_test(test_the_correction_stays_small_after_an_absence),
        cmocka_unit_test(test_the_correction_fades_without_exchanges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
