// No node runs away from the cluster, and none is held by a straggler. Also the relative pace of nodes.
#include "exchange_cases.h"

#include "base/array.h"

enum { D = 40, N = 8, TICK_NS = 1000000, NEWS_TICKS = 100 };

static struct net *mixed_net(bool sync, bool bounded, uint64_t max_delay, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);

    options.bounded = bounded;
    options.max_delay = max_delay;
    struct net *net = net_create(N, D, TOPOLOGY_BUTTERFLY, seed, &options);
    for (size_t i = 0; i < N; i++)
        net->node[i].others = true;
    net_link_all(net);
    return net;
}

// Every node is told the rounds of all others, as by membership.
static void tell_news(struct net *net)
{
    struct gossip_report reports[GOSSIP_NEWS_MEMBERS];

    BASE_ASSERT(net->nodes <= GOSSIP_NEWS_MEMBERS + 1);
    for (size_t node = 0; node < net->nodes; node++) {
        size_t count = 0;
        for (size_t i = 0; i < net->nodes; i++)
            if (i != node)
                reports[count++] = (struct gossip_report){net_id(i), net->node[i].round};
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_NEWS,
                                              .news = {.reports = reports, .count = count, .members = count}};
        BASE_ASSERT(!net_step(net, node, &event));
    }
}

// The lower median of the rounds that the trainers are in.
static uint64_t cluster_round(const struct net *net)
{
    uint64_t rounds[N];

    for (size_t i = 0; i < N; i++)
        rounds[i] = net->node[i].round;
    qsort(rounds, N, sizeof *rounds, base_order_u64);
    return rounds[(N - 1) / 2];
}

// Node i reaches a boundary paces[i] ticks after it left the one before. Returns the largest lead that any
// had when it left a boundary, over the cluster's round.
static uint64_t train(struct net *net, const unsigned *paces, unsigned ticks)
{
    unsigned left[N] = {0};
    uint64_t lead = 0;

    for (unsigned tick = 0; tick < ticks; tick++) {
        if (tick % NEWS_TICKS == 0)
            tell_news(net);
        for (size_t i = 0; i < net->nodes; i++)
            if (!net->node[i].in_round && left[i]++ >= paces[i]) {
                left[i] = 0;
                change_model(net, i);
                net_round(net, i, net->node[i].round + 1);
            }
        net_settle(net, TICK_NS / 2);
        net->now_ns += TICK_NS / 2;
        const uint64_t cluster = cluster_round(net);
        for (size_t i = 0; i < N; i++)
            if (net->node[i].rounds_done > cluster + lead)
                lead = net->node[i].rounds_done - cluster;
    }
    return lead;
}

// Two nodes make rounds in a tenth of the time: they wait for the others' median.
static void test_fast_nodes_do_not_run_away(void **state)
{
    static const unsigned paces[N] = {1, 1, 20, 20, 20, 20, 20, 20};
    uint64_t seed = net_seed(91);

    (void)state;
    for (uint64_t max_delay = 0; max_delay <= 4; max_delay += 2) {
        struct net *net = mixed_net(false, true, max_delay, seed + max_delay);
        const uint64_t lead = train(net, paces, 4000);
        print_message("max_delay %llu: lead %llu\n", (unsigned long long)max_delay, (unsigned long long)lead);
        assert_in_range(lead, 1, max_delay + 3 + 2 * N);     // edges, members: gossip/pace/README.md
        assert_in_range(net->node[5].rounds_done, 180, 200); // of 20 ticks each
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The same without a bound: L follows from the reach.
static void test_in_async_fast_nodes_run_no_further_than_their_reach(void **state)
{
    static const unsigned paces[N] = {1, 1, 20, 20, 20, 20, 20, 20};
    struct net *net = mixed_net(false, false, 4, net_seed(93));
    const uint64_t reach = gossip_exchange_reach(net->node[0].exchange), least = reach > 32 ? reach : 32;

    (void)state;
    assert_in_range(train(net, paces, 4000), 5, least + 3 + 2 * N);
    net_destroy(net);
}

static void test_a_straggler_holds_nobody(void **state)
{
    static const unsigned paces[N] = {4, 4, 4, 20, 4, 4, 4, 4};

    (void)state;
    for (int bounded = 0; bounded < 2; bounded++) {
        struct net *net = mixed_net(false, bounded, 4, net_seed(92));
        train(net, paces, 2000);
        assert_in_range(net->node[3].rounds_done, 90, 100);
        for (size_t i = 0; i < N; i++)
            assert_true(i == 3 || net->node[i].rounds_done > 360); // of 400
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// In sync each waits for its partners, so all do as many rounds as the slowest.
static void test_sync_keeps_the_pace_of_the_slowest(void **state)
{
    static const unsigned paces[N] = {4, 4, 4, 20, 4, 5, 4, 3};
    struct net *net = mixed_net(true, false, 4, net_seed(94));

    (void)state;
    train(net, paces, 2000);
    assert_in_range(net->node[3].rounds_done, 85, 100);
    for (size_t i = 0; i < N; i++)
        assert_in_range(net->node[i].rounds_done, net->node[3].rounds_done - 1, net->node[3].rounds_done + 4);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

static void check_pace(const struct net *net, size_t node, double expected)
{
    double found = gossip_exchange_pace(net->node[node].exchange);

    if (found < 0.999 * expected || found > 1.001 * expected)
        fail_msg("node %zu: pace %g, expected %g", node, found, expected);
}

// Rounds from `from` on, until earlier reports no longer count.
static uint64_t many_rounds(struct net *net, uint64_t from)
{
    uint64_t round = from;

    for (; round < from + 700; round++)
        net_round_all(net, round);
    return round;
}

static void test_the_pace_is_relative_to_the_neighbours(void **state)
{
    static const uint64_t paces[] = {1000, 1200, 1100, 5000};
    // nodes 0 and 3 are neighbours of 1 and 2, and so on
    struct net *net = linked_net(4, D, true, net_seed(97));

    (void)state;
    check_pace(net, 0, 1);
    net_round_all(net, 1);
    check_pace(net, 0, 1); // no neighbour has reported
    for (size_t i = 0; i < 4; i++)
        net->node[i].pace_ns = paces[i];
    uint64_t round = many_rounds(net, 2);
    check_pace(net, 0, 1000.0 / 1100);
    check_pace(net, 3, 5000.0 / 1200);
    check_pace(net, 1, 1);
    net->node[3].pace_ns = 1000000;
    net->node[0].pace_ns = 1;
    round = many_rounds(net, round);
    check_pace(net, 3, 16);
    check_pace(net, 0, 1.0 / 16);
    net->node[0].pace_ns = 0; // not known this time: the latest value holds
    net_round_all(net, round++);
    check_pace(net, 0, 1.0 / 16);
    net_unlink(net, 0, 1);
    net_unlink(net, 0, 2);
    (void)many_rounds(net, round);
    // no neighbour to compare with: a broken link makes no node slower or faster
    check_pace(net, 0, 1.0 / 16);
    net_destroy(net);
}

// A rate that followed each measurement would jump with it, and at a high rate the model diverges.
static void test_a_few_slow_rounds_hardly_change_the_pace(void **state)
{
    struct net *net = linked_net(4, D, true, net_seed(98));
    uint64_t round = 1;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        net->node[i].pace_ns = 1000;
    round = many_rounds(net, round);
    net->node[0].pace_ns = 8000;
    for (size_t i = 0; i < 8; i++)
        net_round_all(net, round++);
    net->node[0].pace_ns = 1000;
    assert_true(gossip_exchange_pace(net->node[0].exchange) > 1.1); // the slow rounds were reported
    assert_true(gossip_exchange_pace(net->node[0].exchange) < 1.3);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_nodes_do_not_run_away),
        cmocka_unit_test(test_in_async_fast_nodes_run_no_further_than_their_reach),
        cmocka_unit_test(test_a_straggler_holds_nobody),
        cmocka_unit_test(test_sync_keeps_the_pace_of_the_slowest),
        cmocka_unit_test(test_the_pace_is_relative_to_the_neighbours),
        cmocka_unit_test(test_a_few_slow_rounds_hardly_change_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
