// Sync rounds that have drifted apart: neighbours in different rounds never wait for each other in a circle,
// so that a node waits until a deadline only for dead neighbours.
#include "exchange_cases.h"

enum { NODES = 16, D = 40, ROUNDS = 120, APART = 6, DEAD = 5, CASES = 4, TICK_NS = 1000000 };

#define LONG_NS (SECOND / 5) // for the nodes ahead: several rounds of the others

struct clock {
    uint64_t begun_ns, longest_ns;
    bool waits;
};

static struct net *strict_net(enum topology_kind kind, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);

    options.deadline_floor_ns = options.deadline_ceiling_ns = SECOND;
    struct net *net = net_create(NODES, D, kind, seed, &options);
    net_link_all(net);
    net_settle(net, SECOND);
    return net;
}

// Every node goes on as soon as it may, up to round `last`, or for `limit_ns`; records how long the longest
// rounds took.
static void run(struct net *net, struct clock *clocks, uint64_t last, uint64_t limit_ns)
{
    uint64_t end_ns = net->now_ns + limit_ns;
    bool done = false;

    for (uint64_t tick_ns = net->now_ns + TICK_NS; !done && tick_ns <= end_ns; tick_ns += TICK_NS) {
        done = true;
        for (size_t i = 0; i < net->nodes; i++) {
            struct net_node *node = &net->node[i];
            if (clocks[i].waits && net->now_ns - clocks[i].begun_ns > clocks[i].longest_ns)
                clocks[i].longest_ns = net->now_ns - clocks[i].begun_ns;
            clocks[i].waits = node->in_round;
            if (node->paused || (!node->in_round && node->round >= last))
                continue;
            done = false;
            if (node->in_round)
                continue;
            change_model(net, i);
            clocks[i] = (struct clock){net->now_ns, clocks[i].longest_ns, true};
            net_round(net, i, node->round + 1);
        }
        net_settle(net, TICK_NS);
        net->now_ns = tick_ns;
    }
}

static uint64_t longest(struct clock *clocks)
{
    uint64_t most = 0;

    for (size_t i = 0; i < NODES; i++)
        if (i != DEAD && clocks[i].longest_ns > most)
            most = clocks[i].longest_ns;
    return most;
}

static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_BUTTERFLY, TOPOLOGY_RANDOM};

static struct net *net_apart(enum topology_kind kind, uint64_t seed)
{
    struct net *net = strict_net(kind, seed);

    for (size_t i = 0; i < NODES; i++) {
        net->node[i].round = base_rng_below(&net->rng, APART);
        net->node[i].others = seed % 2; // without others, a node that can meet no neighbour would not wait
    }
    return net;
}

static void test_nodes_that_are_behind_catch_up(void **state)
{
    uint64_t seed = net_seed(171);

    (void)state;
    for (size_t k = 0; k < 3 * CASES; k++) {
        struct net *net = net_apart(kinds[k % 3], seed + k);
        struct clock clocks[NODES] = {0};
        run(net, clocks, ROUNDS, 10 * SECOND);
        for (size_t i = 0; i < NODES; i++)
            assert_true(net->node[i].round == ROUNDS && !net->node[i].in_round);
        assert_in_range(longest(clocks), 0, LONG_NS);
        assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
        assert_true(net_count(net, COUNTER(exchanges)) > (ROUNDS - APART - 2) * NODES); // at both ends
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The nodes learn of the death of one at different times. Until then each neighbour waits for it once.
static void test_a_death_delays_each_neighbour_once(void **state)
{
    uint64_t seed = net_seed(172);

    (void)state;
    for (size_t k = 0; k < 3 * CASES; k++) {
        struct net *net = net_apart(kinds[k % 3], seed + k);
        struct clock clocks[NODES] = {0};
        net->node[DEAD].paused = true;
        for (size_t i = 0; i < NODES; i++) {
            run(net, clocks, UINT64_MAX, base_rng_below(&net->rng, SECOND / 5));
            if (i == DEAD)
                continue;
            net_tell(net, i, GOSSIP_EXCHANGE_LINK_DOWN, DEAD);
            net_tell(net, i, GOSSIP_EXCHANGE_FORGET, DEAD); // its view drops the dead node
        }
        run(net, clocks, UINT64_MAX, SECOND / 5);
        uint64_t known = net_count(net, COUNTER(timeouts));
        assert_in_range(known, 0, 8); // neighbours of the dead
        for (size_t i = 0; i < NODES; i++)
            clocks[i].longest_ns = 0;
        run(net, clocks, UINT64_MAX, SECOND);
        assert_in_range(longest(clocks), 0, LONG_NS);
        assert_int_equal(net_count(net, COUNTER(timeouts)), known);
        net_destroy(net);
    }
}

static void in_step(const struct net *net, size_t a, size_t b)
{
    const uint64_t x = net->node[a].round, y = net->node[b].round;

    assert_in_range(x > y ? x - y : y - x, 0, 1);
}

// Node 0 has a new neighbour that is silent so far, and waits for it, up to the ceiling. The others wait for
// node 0, which tells them that it is behind.
static void test_neighbours_wait_for_a_node_that_waits(void **state)
{
    struct gossip_exchange_options options = defaults(true);

    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        struct net *net = net_create(4, D, TOPOLOGY_RING, net_seed(173) + k, &options);
        struct clock clocks[4] = {0};
        for (size_t i = 0; i < 3; i++)
            net->node[i].others = true;
        net_link(net, 0, 1);
        net_link(net, 1, 2);
        run(net, clocks, 20, SECOND);
        net->up[3] = net->up[12] = true;
        net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 3); // the other end does not hear of the link
        net->node[3].paused = true;
        run(net, clocks, UINT64_MAX, options.deadline_ceiling_ns - SECOND / 20);
        assert_true(net->node[0].in_round);
        in_step(net, 0, 1);
        in_step(net, 1, 2);
        run(net, clocks, UINT64_MAX, SECOND);
        assert_true(net->node[0].round > 50);
        in_step(net, 0, 1);
        in_step(net, 1, 2);
        net_destroy(net);
    }
}

// Node `late` comes to a round `ms` after the other one.
static void meets_late(struct net *net, size_t late, uint64_t round, unsigned ms)
{
    const uint64_t then_ns = net->now_ns + ms * 1000000ull;

    net_round(net, 1 - late, round);
    net_settle(net, then_ns - net->now_ns);
    net->now_ns = then_ns;
    net_round(net, late, round);
    net_settle(net, SECOND / 20);
}

// The next answer, if it took longer, would miss a deadline that is no longer than the first one took.
static void test_one_answer_does_not_make_a_strict_deadline(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(174));

    (void)state;
    meets_late(net, 1, 1, 300);
    meets_late(net, 1, 2, 700);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 4); // two, counted at both ends
    net_destroy(net);
}

// Where all take equally long, the spread is zero. An exchange whose requests do not cross takes twice as
// long.
static void test_a_deadline_leaves_time_for_two_packets(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(176));

    (void)state;
    for (uint64_t round = 1; round <= 6; round++)
        meets_late(net, 1, round, 400);
    meets_late(net, 1, 7, 700);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 14);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_that_are_behind_catch_up),
        cmocka_unit_test(test_a_death_delays_each_neighbour_once),
        cmocka_unit_test(test_neighbours_wait_for_a_node_that_waits),
        cmocka_unit_test(test_one_answer_does_not_make_a_strict_deadline),
        cmocka_unit_test(test_a_deadline_leaves_time_for_two_packets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
