// Sync rounds that have come apart: neighbours that stand in different rounds never wait for each other in a
// circle, so that nobody waits until a deadline but for the dead.
#include "exchange_cases.h"

enum { NODES = 16, D = 40, ROUNDS = 120, APART = 6, DEAD = 5, CASES = 4, TICK_NS = 1000000 };

#define LONG_NS (SECOND / 5) // for those ahead: several rounds of others

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

// Everybody goes on as soon as he may, to round `last`, or for `limit_ns`; what the longest rounds took.
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
        net->node[i].others = seed % 2; // or those who can meet nobody would not wait
    }
    return net;
}

static void test_those_behind_catch_up(void **state)
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
        assert_true(net_count(net, COUNTER(exchanges)) > (ROUNDS - APART - 2) * NODES); // each on both ends
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// Everybody learns at a time of his own that one is gone. Until then its neighbours wait for it, once each.
static void test_a_death_leaves_no_waiting_behind(void **state)
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
            net_tell(net, i, GOSSIP_EXCHANGE_FORGET, DEAD); // its view does without it
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

// Node 0 has a new neighbour that says nothing yet: it waits for it, as for any edge that is not live, until
// the ceiling, once. The others wait for node 0, though for a neighbour that says nothing they would wait for
// a tenth of that.
static void test_who_waits_is_waited_for(void **state)
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
        net->node[3].paused = true;
        net_link(net, 0, 3);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_those_behind_catch_up),
        cmocka_unit_test(test_a_death_leaves_no_waiting_behind),
        cmocka_unit_test(test_who_waits_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
