// The pull that a neighbour leaves when it dies (on_death): it outlives the neighbour where the options say
// so, also through checkpoints, until the neighbour returns.
#include "exchange_cases.h"

#include <math.h>
#include <stdio.h>

enum { NODES = 4, D = 60, DEAD = 3, STEPS = 4, FADE_ROUNDS = 200, LIVING_ROUNDS = 2 * FADE_ROUNDS };
static const float rate = 0.05f;

static float target_of(size_t node, size_t j)
{
    return node == DEAD ? 4 + (float)(j % 3) : (float)((node * 5 + j) % 4);
}

// A node whose latest exchange is with a stopped one waits for it, up to a deadline.
static void settle(struct net *net)
{
    bool waits = true;

    for (unsigned k = 0; waits && k < 1000; k++) {
        net_settle(net, SECOND / 100);
        waits = false;
        for (size_t i = 0; i < NODES; i++)
            waits |= !net->node[i].paused && net->node[i].in_round;
    }
    assert_false(waits);
}

// Every node descends to its own point, and is held by the others.
static void train(struct net *net, uint64_t first, uint64_t last, bool without_the_dead)
{
    for (uint64_t round = first; round <= last; round++) {
        for (size_t i = 0; i < NODES; i++) {
            struct net_node *at = &net->node[i];
            if (i == DEAD && without_the_dead)
                continue;
            for (int step = 0; step < STEPS; step++)
                for (size_t j = 0; j < D; j++)
                    at->x[j] -= rate * (at->x[j] - target_of(i, j) - at->correction[j]);
            net_round(net, i, round);
        }
        settle(net);
    }
}

static struct net *trained_as(enum gossip_on_death on_death, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);

    options.on_death = on_death;
    options.fade_rounds = FADE_ROUNDS;
    options.ratio = 0.25f;
    options.drift_gain = 2;
    struct net *net = net_create(NODES, D, TOPOLOGY_RING, seed, &options);
    net->step_scale = rate * STEPS;
    net_link_all(net);
    train(net, 1, 600, false);
    return net;
}

static struct net *trained(bool keep, uint64_t seed)
{
    return trained_as(keep ? GOSSIP_ON_DEATH_KEEP : GOSSIP_ON_DEATH_DROP, seed);
}

static void forget(struct net *net, size_t a, size_t b, bool dead)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(b), .dead = dead};

    assert_int_equal(net_step(net, a, &event), BASE_OK);
}

static void lose_links(struct net *net)
{
    net_unlink(net, DEAD, 0);
    net_unlink(net, DEAD, 2);
}

static void die(struct net *net)
{
    lose_links(net);
    forget(net, 0, DEAD, true);
    forget(net, 2, DEAD, true);
}

static double distance(const struct net *net, size_t nodes)
{
    double most = 0;

    for (size_t j = 0; j < D; j++) {
        double mean = 0;
        for (size_t i = 0; i < nodes; i++)
            mean += (double)target_of(i, j) / (double)nodes;
        for (size_t i = 0; i < NODES - 1; i++)
            most = fmax(most, fabs((double)net->node[i].x[j] - mean));
    }
    return most;
}

// With the last pull, the living nodes stay where all four of them had gone; without it, they go on to where
// three would.
static void test_the_living_nodes_stay_where_all_had_gone(void **state)
{
    uint64_t seed = net_seed(101);

    (void)state;
    for (unsigned kept = 0; kept < 2; kept++) {
        struct net *net = trained(kept, seed);
        assert_true(distance(net, NODES) < 1e-3);
        lose_links(net);
        train(net, 601, 1200, true); // no node knows yet that it is dead
        assert_true(distance(net, kept ? NODES : NODES - 1) < 0.02);
        forget(net, 0, DEAD, true);
        forget(net, 2, DEAD, true);
        train(net, 1201, 1800, true);
        printf("%s: %.3g from the mean of all, %.3g from that of the living\n", kept ? "kept" : "dropped",
               distance(net, NODES), distance(net, NODES - 1));
        assert_true(distance(net, kept ? NODES : NODES - 1) < 0.02);
        assert_true(distance(net, kept ? NODES - 1 : NODES) > 0.5);
        net_destroy(net);
    }
}

static void check_sum(const struct gossip_exchange *exchange)
{
    const float *sum = gossip_exchange_correction(exchange);

    for (size_t j = 0; j < D; j++) {
        double expected = 0;
        for (size_t e = 0; e < gossip_exchange_edges(exchange); e++) {
            struct gossip_edge_info info;
            gossip_exchange_edge_info(exchange, e, &info);
            expected += info.correction ? (double)info.correction[j] : 0;
        }
        for (size_t e = 0; e < gossip_exchange_orphans(exchange); e++)
            expected += (double)gossip_exchange_orphan_at(exchange, e).correction[j];
        assert_true(fabs((double)sum[j] - expected) < 1e-4);
    }
}

// The pull is there at first, half of it after half the time, and then nothing: the living nodes end where
// three would.
static void test_a_pull_fades(void **state)
{
    struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(106));
    const float *correction;

    (void)state;
    struct gossip_edge_info info;
    float whole = net_edge(net, 0, DEAD, &info)->correction[0];
    lose_links(net);
    train(net, 601, 600 + FADE_ROUNDS / 4, true); // no node knows yet
    assert_float_equal(net->node[0].correction[0],
                       gossip_exchange_correction(net->node[0].exchange)[0] - whole / 4, fabsf(whole) / 50);
    forget(net, 0, DEAD, true);
    forget(net, 2, DEAD, true);
    correction = gossip_exchange_orphan_at(net->node[0].exchange, 0).correction;
    assert_float_equal(correction[0], 0.75f * whole, fabsf(whole) / 50);
    train(net, 601 + FADE_ROUNDS / 4, 603 + FADE_ROUNDS / 4, true);
    train(net, 604 + FADE_ROUNDS / 4, 600 + FADE_ROUNDS / 2, true);
    assert_float_equal(correction[0], whole / 2, fabsf(whole) / 50);
    for (size_t i = 0; i < NODES - 1; i++)
        check_sum(net->node[i].exchange);
    train(net, 601 + FADE_ROUNDS / 2, 1800, true);
    for (size_t i = 0; i < NODES - 1; i++) {
        assert_int_equal(gossip_exchange_orphans(net->node[i].exchange), 0);
        check_sum(net->node[i].exchange);
    }
    assert_true(distance(net, NODES - 1) < 0.02);
    net_destroy(net);
}

// Node 0 is handed the part `left` of `before`, and the pulls of all nodes sum to zero.
static void check_fading(const struct net *net, const float *before, float left)
{
    for (size_t j = 0; j < D; j++) {
        double sum = 0;
        for (size_t i = 0; i < NODES; i++)
            sum += (double)net->node[i].correction[j];
        assert_true(fabs(sum) < 1e-3);
        assert_true(fabsf(net->node[0].correction[j] - left * before[j]) < 0.02f * fabsf(before[j]) + 0.05f);
    }
}

// Two nodes are no longer neighbours, for example because a node comes between them: both pulls fade in step,
// and no end jumps. If they become neighbours again meanwhile, their edge begins with none, and the rest goes
// on fading.
static void test_the_pull_of_a_node_that_is_no_neighbour_fades(void **state)
{
    struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(107));
    const uint64_t half = 600 + LIVING_ROUNDS / 2;
    float before[D];

    (void)state;
    memcpy(before, net->node[0].correction, sizeof before);
    for (size_t i = 0; i < NODES; i++)
        for (size_t k = 0; k < i; k++)
            net_unlink(net, i, k);
    for (size_t i = 0; i < NODES; i++)
        for (size_t k = 0; k < NODES; k++)
            if (i != k)
                forget(net, i, k, false);
    train(net, 601, 601, false);
    check_fading(net, before, 1);
    train(net, 602, half, false);
    check_fading(net, before, 0.5f);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_int_equal(gossip_exchange_orphans(net->node[0].exchange), 2);
    train(net, half + 1, 600 + LIVING_ROUNDS, false);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(gossip_exchange_orphans(net->node[i].exchange), 0);
    net_destroy(net);
}

// No longer a neighbour, and then dead: the opposite pull is gone, so the rest fades as fast as after any
// death.
static void test_the_pull_of_an_unmet_node_that_dies_fades_fast(void **state)
{
    struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(109));

    (void)state;
    lose_links(net);
    forget(net, 0, DEAD, false);
    train(net, 601, 610, true);
    forget(net, 0, DEAD, true);
    train(net, 611, 609 + FADE_ROUNDS, true);
    assert_int_equal(gossip_exchange_orphans(net->node[0].exchange), 1);
    train(net, 610 + FADE_ROUNDS, 612 + FADE_ROUNDS, true);
    assert_int_equal(gossip_exchange_orphans(net->node[0].exchange), 0);
    check_sum(net->node[0].exchange);
    net_destroy(net);
}

static struct gossip_exchange *restarted(const struct net *net, size_t node)
{
    const struct net_node *at = &net->node[node];
    struct gossip_exchange_options options = at->options;
    struct gossip_exchange *fresh;
    struct gossip_edge_record record;
    struct base_reason why;

    options.model = gossip_exchange_model(at->exchange);
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    for (size_t e = 0; e < gossip_exchange_edges(at->exchange); e++) {
        assert_int_equal(gossip_exchange_export(at->exchange, e, &record), BASE_OK);
        assert_int_equal(gossip_exchange_import(fresh, &record), BASE_OK);
    }
    for (size_t e = 0; e < gossip_exchange_orphans(at->exchange); e++) {
        const struct gossip_orphan_record kept = gossip_exchange_orphan_at(at->exchange, e);
        assert_int_equal(gossip_exchange_keep(fresh, &kept), BASE_OK);
        assert_int_equal(gossip_exchange_keep(fresh, &kept), BASE_EFORMAT);
    }
    return fresh;
}

static void check_sum_of_all(const struct net *net)
{
    double most = 0;

    for (size_t j = 0; j < D; j++) {
        double sum = 0;
        for (size_t i = 0; i < NODES; i++)
            sum += (double)gossip_exchange_correction(net->node[i].exchange)[j];
        most = fmax(most, fabs(sum));
    }
    printf("sum of all pulls after a return: %.3g\n", most);
    assert_true(most < 1e-4);
}

// A neighbour comes back with the model of another: its edges begin again, and what it had left goes on
// fading. It keeps as much of it as they do, or nothing if they have nothing left.
static void test_the_pull_of_a_node_that_returns_fades(void **state)
{
    struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(108));
    struct gossip_edge_info info;
    const float whole = net_edge(net, 0, DEAD, &info)->correction[0];

    (void)state;
    lose_links(net);
    train(net, 601, 600 + FADE_ROUNDS / 4, true);
    const float before = net->node[0].correction[0];
    struct gossip_exchange *late = restarted(net, DEAD);
    gossip_exchange_adopt(late, net->node[0].x, NULL, 600 + FADE_ROUNDS);
    assert_int_equal(gossip_exchange_orphans(late), 0);
    gossip_exchange_destroy(late);
    gossip_exchange_adopt(net->node[DEAD].exchange, net->node[0].x, NULL, 600 + FADE_ROUNDS / 4);
    net_link(net, 0, DEAD);
    net_link(net, 2, DEAD);
    net_settle(net, SECOND);
    assert_int_equal(net_edge(net, 0, DEAD, &info)->resyncs, 1);
    assert_null(info.correction);
    assert_int_equal(gossip_exchange_orphans(net->node[0].exchange), 1);
    const float *left = gossip_exchange_orphan_at(net->node[0].exchange, 0).correction;
    assert_true(fabsf(left[0]) > 0 && fabsf(left[0]) < fabsf(whole));
    assert_float_equal(gossip_exchange_correction(net->node[0].exchange)[0], before, 0.02f * fabsf(whole));
    check_sum(net->node[0].exchange);
    assert_int_equal(gossip_exchange_orphans(net->node[DEAD].exchange), 2);
    check_sum(net->node[DEAD].exchange);
    check_sum_of_all(net);
    net_destroy(net);
}

// A neighbour is stopped for a while, keeps its links, and then takes another model: both ends of an edge
// keep the same part of their pulls.
static void test_the_pull_of_a_node_that_was_stopped_fades_at_both_ends_alike(void **state)
{
    (void)state;
    for (uint64_t still = FADE_ROUNDS / 20; still <= FADE_ROUNDS / 4; still += FADE_ROUNDS / 5) {
        struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(110));
        struct gossip_edge_info info;
        net->node[DEAD].paused = true;
        train(net, 601, 600 + still, true);
        gossip_exchange_adopt(net->node[DEAD].exchange, net->node[0].x, NULL, 600 + still);
        net->node[DEAD].paused = false;
        net_tell(net, DEAD, GOSSIP_EXCHANGE_LINK_UP, 0);
        net_tell(net, DEAD, GOSSIP_EXCHANGE_LINK_UP, 2);
        net_settle(net, 10 * SECOND);
        assert_int_equal(net_edge(net, 0, DEAD, &info)->resyncs, 1);
        assert_int_equal(gossip_exchange_orphans(net->node[DEAD].exchange), 2);
        check_sum_of_all(net);
        net_destroy(net);
    }
}

static float largest(const float *vector)
{
    float most = 0;

    for (size_t j = 0; j < D; j++)
        most = fmaxf(most, fabsf(vector[j]));
    return most;
}

static void test_only_a_dead_node_leaves_a_pull(void **state)
{
    struct net *net = trained(true, net_seed(102));
    const struct gossip_exchange *exchange = net->node[0].exchange;
    float before[D];

    (void)state;
    memcpy(before, gossip_exchange_correction(exchange), sizeof before);
    net_unlink(net, 0, DEAD);
    forget(net, 0, DEAD, true);
    assert_int_equal(gossip_exchange_orphans(exchange), 1);
    assert_memory_equal(before, gossip_exchange_correction(exchange), sizeof before);
    forget(net, 0, DEAD, true); // its edge is already gone
    assert_int_equal(gossip_exchange_orphans(exchange), 1);
    net_unlink(net, 0, 1);
    forget(net, 0, 1, false); // it lives, and is now a neighbour of another node
    assert_int_equal(gossip_exchange_orphans(exchange), 1);
    assert_int_equal(gossip_exchange_edges(exchange), 0);
    check_sum(exchange);
    assert_true(largest(gossip_exchange_correction(exchange)) > 0.5f);
    forget(net, 0, DEAD, false); // it lives again, beside others
    assert_int_equal(gossip_exchange_orphans(exchange), 0);
    assert_true(largest(gossip_exchange_correction(exchange)) == 0);
    net_destroy(net);
}

static void test_a_node_that_returns_takes_its_pull_back(void **state)
{
    struct net *net = trained(true, net_seed(103));

    (void)state;
    die(net);
    train(net, 601, 700, true);
    net_link(net, 0, DEAD);
    net_link(net, 2, DEAD);
    net_settle(net, SECOND);
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(gossip_exchange_orphans(net->node[i].exchange), 0);
        check_sum(net->node[i].exchange);
    }
    train(net, 701, 2500, false);
    printf("%.3g from the mean of all after its return\n", distance(net, NODES));
    assert_true(distance(net, NODES) < 0.02);
    net_destroy(net);
}

static void test_the_pull_of_a_dead_node_survives_a_restart(void **state)
{
    struct net *net = trained(true, net_seed(104));
    float broken[D] = {[D - 1] = NAN};

    (void)state;
    die(net);
    train(net, 601, 620, true);
    struct gossip_exchange *fresh = restarted(net, 0);
    assert_int_equal(gossip_exchange_orphans(fresh), 1);
    check_sum(fresh);
    const struct gossip_orphan_record nothing = {.peer = net_id(77), .correction = broken};
    assert_int_equal(gossip_exchange_keep(fresh, &nothing), BASE_EFORMAT);
    assert_int_equal(gossip_exchange_orphans(fresh), 1);
    const float *sum = gossip_exchange_correction(fresh);
    for (size_t j = 0; j < D; j++)
        assert_true(fabsf(sum[j] - gossip_exchange_correction(net->node[0].exchange)[j]) < 1e-5f);
    gossip_exchange_adopt(fresh, net->start, NULL, 9); // a model with another history: no old pull applies
    assert_int_equal(gossip_exchange_orphans(fresh), 0);
    assert_true(largest(gossip_exchange_correction(fresh)) == 0);
    gossip_exchange_destroy(fresh);
    net_destroy(net);
}

// The other end of a correction between two living nodes fades as slowly as before the stop.
static void test_a_restart_keeps_the_pace_of_fading(void **state)
{
    struct net *net = trained_as(GOSSIP_ON_DEATH_FADE, net_seed(109));
    const float pull[D] = {1};
    struct gossip_orphan_record kept = {.correction = pull};

    (void)state;
    lose_links(net);
    forget(net, 0, DEAD, false);
    train(net, 601, 620, true);
    struct gossip_exchange *fresh = restarted(net, 0);
    const uint64_t left = gossip_exchange_orphan_at(net->node[0].exchange, 0).left;
    assert_in_range(left, LIVING_ROUNDS / 2, LIVING_ROUNDS);
    assert_int_equal(gossip_exchange_orphan_at(fresh, 0).left, left);
    // From a version that did not record it, as after a death; never more slowly than between two living
    // nodes.
    for (size_t i = 1; i <= 2; i++) {
        kept.peer = net_id(100 + i);
        kept.left = i == 1 ? 0 : UINT64_MAX;
        assert_int_equal(gossip_exchange_keep(fresh, &kept), BASE_OK);
        assert_int_equal(gossip_exchange_orphan_at(fresh, i).left, i == 1 ? FADE_ROUNDS : LIVING_ROUNDS);
    }
    gossip_exchange_destroy(fresh);
    net_destroy(net);
}

static bool has_orphan(const struct gossip_exchange *exchange, struct gossip_id wanted)
{
    for (size_t e = 0; e < gossip_exchange_orphans(exchange); e++) {
        const struct gossip_orphan_record kept = gossip_exchange_orphan_at(exchange, e);
        if (gossip_id_compare(&kept.peer, &wanted) == 0)
            return true;
    }
    return false;
}

// More deaths than there is room for: the most faded pull is dropped, and of equal ones the oldest.
static void test_the_pulls_of_dead_nodes_are_bounded_in_number(void **state)
{
    (void)state;
    for (unsigned fades = 0; fades < 2; fades++) {
        struct net *net = trained_as(fades ? GOSSIP_ON_DEATH_FADE : GOSSIP_ON_DEATH_KEEP, net_seed(109));
        struct gossip_exchange *exchange = net->node[0].exchange;
        struct gossip_exchange_totals totals;
        const float pull[D] = {1};

        for (size_t i = 0; i < GOSSIP_ORPHANS_MAX; i++) {
            const struct gossip_orphan_record dead = {.peer = net_id(100 + i), .correction = pull};
            assert_int_equal(gossip_exchange_keep(exchange, &dead), BASE_OK);
        }
        train(net, 601, 620, false); // those have begun to fade
        die(net);
        gossip_exchange_totals(exchange, &totals);
        assert_int_equal(gossip_exchange_orphans(exchange), GOSSIP_ORPHANS_MAX);
        assert_int_equal(totals.orphans_dropped, 1);
        assert_true(has_orphan(exchange, net_id(DEAD)) && !has_orphan(exchange, net_id(100)));
        assert_true(has_orphan(exchange, net_id(101)));
        check_sum(exchange);
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_living_nodes_stay_where_all_had_gone),
        cmocka_unit_test(test_a_pull_fades),
        cmocka_unit_test(test_the_pull_of_a_node_that_is_no_neighbour_fades),
        cmocka_unit_test(test_the_pull_of_an_unmet_node_that_dies_fades_fast),
        cmocka_unit_test(test_the_pull_of_a_node_that_returns_fades),
        cmocka_unit_test(test_the_pull_of_a_node_that_was_stopped_fades_at_both_ends_alike),
        cmocka_unit_test(test_only_a_dead_node_leaves_a_pull),
        cmocka_unit_test(test_a_node_that_returns_takes_its_pull_back),
        cmocka_unit_test(test_the_pull_of_a_dead_node_survives_a_restart),
        cmocka_unit_test(test_a_restart_keeps_the_pace_of_fading),
        cmocka_unit_test(test_the_pulls_of_dead_nodes_are_bounded_in_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
