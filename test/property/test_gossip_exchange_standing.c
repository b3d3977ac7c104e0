// Nodes that were away, are present, or have finished: a stale model moves no present one, nothing moves a
// finished one, and a node that is behind comes to the others. r stays the same on both ends and corrections
// stay opposite.
#include "exchange_cases.h"
#include "gossip/exchange/state.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <stdio.h>

enum { NODES = 8, D = 400, BEHIND = 3, FAR = 20, ROUNDS = 400, LEAVES = 100, RETURNS = 130, RARELY = 8 };

static const float *model_of(const struct net *net, size_t node)
{
    return gossip_exchange_model(net->node[node].exchange);
}

static enum gossip_standing standing_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.standing;
}

static double distance(const struct net *net, size_t a, size_t b)
{
    double energy = 0;

    for (size_t j = 0; j < D; j++)
        energy += pow((double)model_of(net, a)[j] - (double)model_of(net, b)[j], 2);
    return sqrt(energy);
}

// Local steps: the same for a given node and round in every run.
static void train(struct net *net, size_t node, uint64_t round, float size)
{
    struct base_rng rng;

    base_rng_seed(&rng, round * NODES + node);
    for (size_t j = 0; j < D; j++)
        net->node[node].x[j] += size * (float)base_rng_normal(&rng);
}

static void cut_off(struct net *net, size_t node, bool off)
{
    size_t peers[64], count = topology_plan_neighbours(net->plan, node, peers, 64);

    for (size_t i = 0; i < count; i++)
        (off ? net_unlink : net_link)(net, node, peers[i]);
    net_settle(net, SECOND);
}

static struct net *fresh_net(enum topology_kind kind, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(NODES, D, kind, seed, &options);

    net_link_all(net);
    return net;
}

struct history {
    uint64_t hash[ROUNDS + 1]; // of all models but that of BEHIND
    uint64_t caught_up;        // round
    double far, near;          // distance of BEHIND to another node: when it came back, and in the end
};

static uint64_t hash_of_others(const struct net *net)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < NODES; i++)
        if (i != BEHIND)
            hash = hash * 31 + cpu_kernels()->apply->hash(model_of(net, i), D, 0, false);
    return hash;
}

// BEHIND leaves, drifts far from all others, and comes back or does not.
static void run(enum topology_kind kind, uint64_t seed, bool returns, struct history *history)
{
    struct net *net = fresh_net(kind, seed);

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (round == LEAVES)
            cut_off(net, BEHIND, true);
        if (round == RETURNS && returns) {
            cut_off(net, BEHIND, false);
            train(net, BEHIND, round, FAR);
            gossip_exchange_standing(net->node[BEHIND].exchange, GOSSIP_AWAY);
        }
        for (size_t i = 0; i < NODES; i++)
            if (i != BEHIND || round < LEAVES)
                train(net, i, round, 0.1f);
        net->node[BEHIND].paused = round >= LEAVES && !(returns && round >= RETURNS);
        net_round_all(net, round);
        history->hash[round] = hash_of_others(net);
        if (round == RETURNS && returns)
            history->far = distance(net, BEHIND, BEHIND + 1);
        if (round >= RETURNS && standing_of(net, BEHIND) == GOSSIP_AWAY)
            history->caught_up = round + 1;
        assert_true(net_references_match(net));
    }
    history->near = distance(net, BEHIND, BEHIND + 1);
    net_destroy(net);
}

// Until it has caught up, the models of the others have the same bits as if it were still gone; then it is
// one of them.
static void test_a_stale_model_moves_no_other(void **state)
{
    uint64_t seed = net_seed(401);

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct history without = {0}, with = {0};
        run(k % 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY, seed + k, false, &without);
        run(k % 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY, seed + k, true, &with);
        for (uint64_t round = 1; round < with.caught_up; round++)
            assert_true(with.hash[round] == without.hash[round]);
        printf("%.3g away, caught up after %llu rounds, %.3g away in the end\n", with.far,
               (unsigned long long)(with.caught_up - RETURNS), with.near);
        assert_in_range(with.caught_up, RETURNS + 1, RETURNS + 60);
        assert_true(with.near < 0.1 * with.far);
    }
}

// No exchange changes a bit of a finished model, not even of its zeros, and the nodes that go on come to it.
static void test_a_finished_model_stands_still(void **state)
{
    struct net *net = fresh_net(TOPOLOGY_BUTTERFLY, net_seed(402));
    float last[D];

    (void)state;
    for (size_t i = 0; i < NODES; i++)
        train(net, i, 0, 1);
    for (size_t j = 0; j < D; j += 2)
        net->node[BEHIND].x[j] = -0.0f;
    memcpy(last, net->node[BEHIND].x, sizeof last);
    net->node[BEHIND].standing = GOSSIP_FINISHED;
    for (uint64_t round = 1; round <= 1000; round++) {
        net_round_all(net, round);
        assert_memory_equal(net->node[BEHIND].x, last, sizeof last);
        assert_memory_equal(model_of(net, BEHIND), last, sizeof last);
        assert_true(net_references_match(net));
    }
    for (size_t i = 0; i < NODES; i++)
        assert_true(distance(net, i, BEHIND) < 1e-3);
    for (size_t j = 0; j < D; j++)
        for (size_t i = 0; i < NODES; i++)
            assert_true(isfinite(net->node[i].correction[j]));
    net_destroy(net);
}

static uint64_t exchanges_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.exchanges;
}

// Async: a node that is behind is asked by the nodes ahead of it until they finish. From then on it asks, so
// that it does not do its last rounds alone.
static void test_a_node_that_is_behind_asks_the_finished_ones(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(NODES, D, TOPOLOGY_RING, net_seed(407), &options);
    enum { LAST = 60, LATE = 20 };

    (void)state;
    net_link_all(net);
    for (uint64_t round = 1; round <= LAST; round++)
        for (size_t i = 0; i < NODES; i++)
            if (i != BEHIND || round > LATE) {
                train(net, i, round, 0.1f);
                net_round(net, i, i == BEHIND ? round - LATE : round);
                net_settle(net, SECOND / 100);
            }
    const uint64_t before = exchanges_of(net, BEHIND);
    assert_in_range(before, LAST - LATE - 6, LAST + 6); // being behind does not give it more of them
    for (size_t i = 0; i < NODES; i++)
        net->node[i].standing = i == BEHIND ? GOSSIP_PRESENT : GOSSIP_FINISHED;
    for (size_t i = 0; i < NODES; i++)
        if (i != BEHIND)
            net_round(net, i, LAST + 1);
    net_settle(net, SECOND);
    for (uint64_t round = LAST - LATE + 1; round <= LAST; round++) {
        net_round(net, BEHIND, round);
        net_settle(net, SECOND / 100);
    }
    printf("%llu exchanges in its last %d rounds\n", (unsigned long long)(exchanges_of(net, BEHIND) - before),
           LATE);
    assert_in_range(exchanges_of(net, BEHIND) - before, LATE - 5, LATE + 5);
    net_destroy(net);
}

// In a RESYNC between an end that was away and one that was not, the first adopts the model of the second,
// and counts again.
static void test_in_a_resync_a_node_that_was_away_adopts(void **state)
{
    static const enum gossip_standing pairs[][2] = {{GOSSIP_AWAY, GOSSIP_PRESENT},
                                                    {GOSSIP_PRESENT, GOSSIP_AWAY},
                                                    {GOSSIP_AWAY, GOSSIP_FINISHED},
                                                    {GOSSIP_FINISHED, GOSSIP_AWAY}};

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct gossip_exchange_options options = defaults(true);
        struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(403), &options);
        size_t adopts = pairs[k][0] == GOSSIP_AWAY ? 0 : 1;
        float given[D];
        for (size_t i = 0; i < 2; i++) {
            change_model(net, i);
            net->node[i].standing = pairs[k][i];
            net_round(net, i, 5000); // long after the start: the edge RESYNCs
        }
        memcpy(given, model_of(net, 1 - adopts), sizeof given);
        net_link(net, 0, 1);
        net_settle(net, SECOND);
        struct gossip_edge_info info;
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
        assert_int_equal(net_count(net, COUNTER(resyncs)), 2);
        assert_memory_equal(info.reference, given, sizeof given);
        assert_memory_equal(model_of(net, 1 - adopts), given, sizeof given);
        for (size_t j = 0; j < D; j++)
            assert_float_equal(model_of(net, adopts)[j], given[j], 1e-5f);
        assert_int_equal(standing_of(net, adopts), GOSSIP_PRESENT);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// Whoever says that it has finished replaces no model of a node that trains.
static void test_in_a_resync_a_finished_node_counts_as_much_as_another(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(405), &options);
    float given[D], before[D];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        change_model(net, i);
        net->node[i].standing = i == 0 ? GOSSIP_FINISHED : GOSSIP_PRESENT;
        net_round(net, i, 5000); // long after the start: the edge RESYNCs
    }
    memcpy(given, model_of(net, 0), sizeof given);
    memcpy(before, model_of(net, 1), sizeof before);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 2);
    assert_memory_equal(model_of(net, 0), given, sizeof given);
    for (size_t j = 0; j < D; j++)
        assert_float_equal(model_of(net, 1)[j], (given[j] + before[j]) / 2, 1e-5f);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A correction learns nothing from a model that was away.
static void test_a_correction_learns_nothing_from_an_absence(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(404));
    struct gossip_edge_info info;
    float before[D];

    (void)state;
    for (uint64_t round = 1; round <= 20; round++)
        net_round_all(net, round);
    memcpy(before, net_edge(net, 0, 1, &info)->correction, sizeof before);
    gossip_exchange_standing(net->node[1].exchange, GOSSIP_AWAY);
    change_model(net, 1);
    net_round_all(net, 21);
    assert_int_equal(net_edge(net, 0, 1, &info)->exchanges, 21);
    assert_int_equal(info.standing, GOSSIP_AWAY); // as the other end reported
    assert_int_equal(net_edge(net, 1, 0, &info)->standing, GOSSIP_PRESENT);
    (void)net_edge(net, 0, 1, &info);
    assert_memory_equal(info.correction, before, sizeof before);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Of three nodes those from `first` on were away, and the last two meet rarely, as slow ones do: both are
// present again once they have met the first one often enough, even if all were away.
static void come_back(size_t first)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(405), &options);
    struct gossip_edge_info info;
    unsigned met = 0;

    for (size_t i = first; i < 3; i++)
        gossip_exchange_standing(net->node[i].exchange, GOSSIP_AWAY);
    for (uint64_t round = 90; round < 90 + 3 * D; round += 1) { // 90 rounds that were missed
        bool apart = topology_plan_partner(net->plan, 1, round) == 2;
        if (round == 90)
            net_link_all(net);
        net->node[1].paused = net->node[2].paused = apart && met++ % RARELY > 0;
        net_round_all(net, round);
        if (standing_of(net, 1) == GOSSIP_PRESENT && standing_of(net, 2) == GOSSIP_PRESENT)
            break;
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(standing_of(net, i), GOSSIP_PRESENT);
    assert_true(net_edge(net, 1, 2, &info)->exchanges > 0);
    assert_true(net_edge(net, 0, 1, &info)->exchanges <= gossip_exchange_reach(net->node[0].exchange));
    assert_true(net_references_match(net));
    net_destroy(net);
}

static void test_a_node_that_is_behind_does_not_wait_for_another_one(void **state)
{
    (void)state;
    come_back(1);
    come_back(0);
}

static struct gossip_exchange *resumed(struct net *net, size_t node, uint64_t round)
{
    struct gossip_exchange_options options = net->node[node].options;
    struct gossip_exchange *fresh;
    struct base_reason why;

    options.round = round;
    options.model = net->node[node].x;
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    return fresh;
}

// A node resumed from a checkpoint does not know yet where the others are: no block is sent before its first
// round, and one that was away moves no node that trains. Two such nodes meet in the middle, and so does a
// node that knows that it is one of the others.
static void test_a_resumed_model_moves_no_other_before_its_first_round(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct gossip_exchange_options options = defaults(true);
        struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(6), &options);
        float living[D];
        for (size_t i = 0; i < 2; i++) {
            change_model(net, i);
            if (i == 1 || k == 1)
                net_node_restart(net, i, resumed(net, i, 50));
            if (k == 2 || (i == 0 && k == 0))
                net_round(net, i, 60);
            net_settle(net, 30 * SECOND);
        }
        memcpy(living, model_of(net, 0), sizeof living);
        net_link(net, 0, 1);
        net_settle(net, 30 * SECOND);
        assert_true(k == 2 || memcmp(living, model_of(net, 0), sizeof living) == 0);
        net->node[1].standing = k == 0 ? GOSSIP_AWAY : GOSSIP_PRESENT;
        for (size_t i = k == 0 ? 1 : 0; i < 2 && k < 2; i++)
            net_round(net, i, 61);
        net_settle(net, 30 * SECOND);
        assert_true(k == 0 || standing_of(net, 1) == GOSSIP_PRESENT);
        assert_true(distance(net, 0, 1) < 1e-3);
        assert_int_equal(memcmp(living, model_of(net, 0), sizeof living) == 0, k == 0);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stale_model_moves_no_other),
        cmocka_unit_test(test_a_finished_model_stands_still),
        cmocka_unit_test(test_a_node_that_is_behind_asks_the_finished_ones),
        cmocka_unit_test(test_in_a_resync_a_node_that_was_away_adopts),
        cmocka_unit_test(test_in_a_resync_a_finished_node_counts_as_much_as_another),
        cmocka_unit_test(test_a_correction_learns_nothing_from_an_absence),
        cmocka_unit_test(test_a_node_that_is_behind_does_not_wait_for_another_one),
        cmocka_unit_test(test_a_resumed_model_moves_no_other_before_its_first_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
