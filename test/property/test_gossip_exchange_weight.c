// Meetings with another weight than 1/2: x_i += w (q_j - q_i), r += (q_i + q_j)/2.
#include "exchange_cases.h"
#include "gossip/exchange/packet.h"

#include <math.h>
#include <stdio.h>

static struct net *net_of(enum topology_kind kind, size_t nodes, float ratio, enum kernels_format values,
                          uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);

    options.ratio = ratio;
    options.values = values;
    options.drift_correction = false;
    struct net *net = net_create(nodes, 1024, kind, seed, &options);
    net_link_all(net);
    for (size_t i = 0; i < nodes; i++)
        change_model(net, i);
    return net;
}

static double energy_of(const struct net *net, size_t first, size_t count)
{
    double energy = 0;

    for (size_t j = 0; j < net->parameters; j++) {
        double mean = 0;
        for (size_t i = first; i < first + count; i++)
            mean += (double)net->node[i].x[j] / (double)count;
        for (size_t i = first; i < first + count; i++)
            energy += ((double)net->node[i].x[j] - mean) * ((double)net->node[i].x[j] - mean);
    }
    return energy;
}

static void sums_of(const struct net *net, double *sum)
{
    memset(sum, 0, net->parameters * sizeof *sum);
    for (size_t i = 0; i < net->nodes; i++)
        for (size_t j = 0; j < net->parameters; j++)
            sum[j] += (double)net->node[i].x[j];
}

static void begin(struct net *net, size_t node, uint64_t round, size_t partner, float weight)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    event.round.round = round;
    event.round.meets = partner != node;
    event.round.partner = net_id(partner);
    event.round.weight = weight;
    event.round.step_scale = 0.1f;
    event.round.model = net->node[node].x;
    event.round.correction = net->node[node].correction;
    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

static void check_weight(float w, float ratio, enum kernels_format values, uint64_t seed)
{
    enum { D = 600, ROUNDS = 20 };
    struct gossip_exchange_options options = defaults(true);
    double before[D], after[D];

    options.ratio = ratio;
    options.values = values;
    struct net *net = net_create(2, D, TOPOLOGY_RING, seed, &options);
    net_link_all(net);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        change_model(net, 0);
        change_model(net, 1);
        sums_of(net, before);
        begin(net, 0, round, 1, w); // the lower id asks
        begin(net, 1, round, 0, 0.5f);
        net_settle(net, SECOND);
        sums_of(net, after);
        for (size_t j = 0; j < D; j++)
            assert_true(fabs(after[j] - before[j]) < 1e-5 * (1 + fabs(before[j])));
        assert_true(net_references_match(net));
    }
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2 * ROUNDS);
    net_destroy(net);
}

static void test_the_sum_stays_and_references_agree(void **state)
{
    uint64_t seed = net_seed(71);

    (void)state;
    for (unsigned w = 1; w <= 8; w++)
        for (unsigned values = 0; values < KERNELS_FORMATS; values++)
            check_weight((float)w / 8, w % 2 ? 0.03f : 0.4f, (enum kernels_format)values, seed++);
}

// Everything is sent: x_i' = (1 - w) x_i + w x_j on both ends, whichever asked, and r is the mean.
static void test_both_ends_apply_the_weight_of_the_initiator(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct gossip_edge_info info;
    enum { D = 64 };

    (void)state;
    options.ratio = 1;
    options.values = KERNELS_FP32;
    for (size_t asks = 0; asks < 2; asks++) {
        struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(72), &options);
        net_link_all(net);
        for (size_t j = 0; j < D; j++) {
            net->node[0].x[j] = 1;
            net->node[1].x[j] = 5;
        }
        begin(net, !asks, 1, !asks, 0); // it publishes
        begin(net, asks, 1, !asks, 0.75f);
        net_settle(net, SECOND);
        const float *x[2] = {gossip_exchange_model(net->node[0].exchange),
                             gossip_exchange_model(net->node[1].exchange)};
        for (size_t j = 0; j < D; j++) {
            assert_true(x[0][j] == 4 && x[1][j] == 2);
            assert_true(net_edge(net, 0, 1, &info)->reference[j] == 3);
        }
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

static void run_rounds(struct net *net, uint64_t rounds, float weight)
{
    for (uint64_t round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < net->nodes; i++)
            change_model(net, i);
        for (size_t i = 0; i < net->nodes; i++)
            begin(net, i, round, topology_plan_partner(net->plan, i, round), weight);
        net_settle(net, SECOND);
    }
}

static void test_no_weight_is_a_half_bit_for_bit(void **state)
{
    uint64_t seed = net_seed(73);
    struct net *net[2];

    (void)state;
    for (size_t n = 0; n < 2; n++) {
        net[n] = linked_net(8, 300, true, seed);
        run_rounds(net[n], 30, n == 0 ? 0.0f : 0.5f);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_memory_equal(net[0]->node[i].x, net[1]->node[i].x, 300 * sizeof(float));
        assert_memory_equal(net[0]->node[i].correction, net[1]->node[i].correction, 300 * sizeof(float));
    }
    net_destroy(net[0]);
    net_destroy(net[1]);
}

// DESIGN, topology: after its period every node holds the exact mean.
static void test_base_gives_the_exact_mean_after_its_period(void **state)
{
    uint64_t seed = net_seed(74);

    (void)state;
    for (size_t nodes = 2; nodes <= 13; nodes++) {
        struct net *net = net_of(TOPOLOGY_BASE, nodes, 1, KERNELS_FP32, seed + nodes);
        uint64_t period = topology_plan_period(net->plan);
        double before = energy_of(net, 0, nodes);
        for (uint64_t round = period; round < 2 * period; round++)
            net_round_all(net, round);
        assert_true(energy_of(net, 0, nodes) < 1e-12 * before);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

static void test_hierarchical_gives_the_exact_mean_inside_groups(void **state)
{
    enum { NODES = 12, INSIDE = 3 }; // rounds of base for a group of three
    struct net *net = net_of(TOPOLOGY_HIERARCHICAL, NODES, 1, KERNELS_FP32, net_seed(75));
    uint64_t period = topology_plan_period(net->plan);
    double before = energy_of(net, 0, NODES);

    (void)state;
    for (uint64_t round = period; round < period + INSIDE; round++)
        net_round_all(net, round);
    for (size_t first = 0; first < NODES; first += NET_GROUP)
        assert_true(energy_of(net, first, NET_GROUP) < 1e-12 * before);
    assert_true(energy_of(net, 0, NODES) > 0.1 * before);
    for (uint64_t round = period + INSIDE; round < 40 * period; round++)
        net_round_all(net, round);
    assert_true(energy_of(net, 0, NODES) < 1e-5 * before);
    net_destroy(net);
}

// Rounds until the energy is 1e-4 of its initial value; it never grows.
static uint64_t rounds_to_consensus(size_t nodes, bool weighted, uint64_t seed)
{
    struct net *net = net_of(TOPOLOGY_BASE, nodes, 1.0f / 32, KERNELS_INT8, seed);
    double first = energy_of(net, 0, nodes), energy = first;
    uint64_t round = 0;

    while (energy > 1e-4 * first && round < 5000) {
        round++;
        for (size_t i = 0; i < nodes; i++) {
            size_t partner = topology_plan_partner(net->plan, i, round);
            double weight = weighted ? topology_plan_weight(net->plan, i, round) : 0.5;
            begin(net, i, round, partner == TOPOLOGY_NOBODY ? i : partner, (float)weight);
        }
        net_settle(net, SECOND);
        energy = energy_of(net, 0, nodes);
        assert_true(energy <= 1.01 * first);
    }
    assert_true(net_references_match(net));
    net_destroy(net);
    return round;
}

// With compression the mean is not reached within a period, but it is reached; also with 1/2 in place of the
// weights.
static void test_base_converges_with_compression(void **state)
{
    static const size_t sizes[] = {3, 5, 6, 7, 9, 12, 17};
    uint64_t seed = net_seed(76);

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t weighted = rounds_to_consensus(sizes[s], true, seed + s);
        uint64_t plain = rounds_to_consensus(sizes[s], false, seed + s);
        printf("base of %zu, 1/32: 1e-4 after %llu rounds (%llu with 1/2 for all weights)\n", sizes[s],
               (unsigned long long)weighted, (unsigned long long)plain);
        assert_true(weighted < 2000);
    }
}

// Every node drifts to its own point; weights near 1 make the force of a meeting up to twice as large.
static void test_corrections_are_stable_with_weights(void **state)
{
    enum { NODES = 9, STEPS = 4, ROUNDS = 3000 };
    struct gossip_exchange_options options = defaults(true);
    const float rate = 0.05f;

    (void)state;
    options.ratio = 1.0f / 32;
    struct net *net = net_create(NODES, 320, TOPOLOGY_BASE, net_seed(77), &options);
    float *target = malloc(NODES * net->parameters * sizeof *target);
    assert_non_null(target);
    for (size_t i = 0; i < NODES * net->parameters; i++)
        target[i] = 3 * (float)base_rng_normal(&net->rng);
    net->step_scale = rate * STEPS;
    net_link_all(net);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < NODES; i++)
            for (size_t j = 0; j < STEPS * net->parameters; j++) {
                size_t at = j % net->parameters;
                net->node[i].x[at] -= rate * (net->node[i].x[at] - target[i * net->parameters + at] -
                                              net->node[i].correction[at]);
            }
        net_round_all(net, round);
    }
    double energy = energy_of(net, 0, NODES) / (double)(NODES * net->parameters);
    printf("base of %d under drift: disagreement an element %.3g\n", NODES, energy);
    assert_true(energy < 0.02);
    free(target);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sum_stays_and_references_agree),
        cmocka_unit_test(test_both_ends_apply_the_weight_of_the_initiator),
        cmocka_unit_test(test_no_weight_is_a_half_bit_for_bit),
        cmocka_unit_test(test_base_gives_the_exact_mean_after_its_period),
        cmocka_unit_test(test_hierarchical_gives_the_exact_mean_inside_groups),
        cmocka_unit_test(test_base_converges_with_compression),
        cmocka_unit_test(test_corrections_are_stable_with_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
