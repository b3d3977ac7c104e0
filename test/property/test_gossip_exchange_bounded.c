// Bounded mode: no node is more than max_delay rounds ahead of a live neighbour. Also the relative pace of
// nodes.
#include "exchange_cases.h"
#include "gossip/exchange/state.h"

enum { D = 40, TICK_NS = 1000000 };

static struct net *bounded_net(size_t nodes, enum topology_kind kind, uint64_t max_delay, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);

    options.bounded = true;
    options.max_delay = max_delay;
    struct net *net = net_create(nodes, D, kind, seed, &options);
    net_link_all(net);
    return net;
}

static uint64_t waits_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.waits;
}

// At the boundary that it last left, a node is at most max_delay ahead of every neighbour.
static void check_bound(const struct net *net, uint64_t max_delay)
{
    for (size_t a = 0; a < net->nodes; a++)
        for (size_t b = 0; b < net->nodes; b++)
            if (net->up[a * net->nodes + b] && net->node[a].rounds_done > net->node[b].round)
                assert_true(net->node[a].rounds_done - net->node[b].round <= max_delay);
}

// Node i reaches a boundary paces[i] ticks after it left the one before.
static void train(struct net *net, const unsigned *paces, unsigned ticks, uint64_t max_delay)
{
    unsigned left[16] = {0};

    for (unsigned tick = 0; tick < ticks; tick++) {
        for (size_t i = 0; i < net->nodes; i++)
            if (!net->node[i].in_round && left[i]++ >= paces[i]) {
                left[i] = 0;
                change_model(net, i);
                net_round(net, i, net->node[i].round + 1);
            }
        net_settle(net, TICK_NS / 2);
        net->now_ns += TICK_NS / 2;
        check_bound(net, max_delay);
    }
}

static void test_no_node_leaves_a_straggler_behind(void **state)
{
    static const unsigned paces[8] = {4, 4, 4, 20, 4, 5, 4, 3};
    uint64_t seed = net_seed(91);

    (void)state;
    for (uint64_t max_delay = 0; max_delay <= 4; max_delay += 2) {
        struct net *net = bounded_net(8, TOPOLOGY_BUTTERFLY, max_delay, seed + max_delay);
        train(net, paces, 2000, max_delay);
        uint64_t slowest = net->node[3].rounds_done, most = slowest + 3 * max_delay + 1; // three edges away
        assert_in_range(slowest, 90, 100);                                               // of 20 ticks each
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(waits_of(net, i), 0);
            assert_true(net->node[i].rounds_done >= slowest && net->node[i].rounds_done <= most);
        }
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

static void test_async_runs_ahead(void **state)
{
    static const unsigned paces[8] = {4, 4, 4, 20, 4, 4, 4, 4};
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(8, D, TOPOLOGY_BUTTERFLY, net_seed(92), &options);

    (void)state;
    net_link_all(net);
    train(net, paces, 1000, UINT64_MAX);
    assert_true(net->node[0].rounds_done > 3 * net->node[3].rounds_done);
    net_destroy(net);
}

// A node that hangs delays the others once; once it has moved, they wait for it again.
static void test_a_round_ends_by_its_deadline(void **state)
{
    struct net *net = bounded_net(2, TOPOLOGY_RING, 1, net_seed(93));
    uint64_t begun_ns = net->now_ns;

    (void)state;
    net_round_all(net, 1);
    net_round(net, 0, 2);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round); // one ahead is allowed
    net_round(net, 0, 3);
    net_settle(net, SECOND / 2);
    assert_true(net->node[0].in_round);
    net_settle(net, 10 * SECOND);
    assert_false(net->node[0].in_round);
    assert_true(net->now_ns - begun_ns < 2 * SECOND);
    assert_int_equal(waits_of(net, 0), 1);
    net_round(net, 0, 4);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round); // they have given up waiting
    net_round(net, 1, 2);
    net_settle(net, SECOND / 100);
    net_round(net, 0, 5);
    net_settle(net, SECOND / 100);
    assert_true(net->node[0].in_round);
    for (uint64_t round = 3; round <= 4; round++) {
        net_round(net, 1, round);
        net_settle(net, SECOND / 100);
        assert_true(net->node[0].in_round == (round < 4));
    }
    assert_int_equal(waits_of(net, 0), 1);
    net_destroy(net);
}

static void test_a_node_that_is_gone_or_idle_delays_no_other(void **state)
{
    struct net *net = bounded_net(4, TOPOLOGY_BUTTERFLY, 0, net_seed(94)); // all edges but 0-3 and 1-2

    (void)state;
    net_round_all(net, 1);
    net_round(net, 0, 2);
    net_settle(net, SECOND / 100);
    assert_true(net->node[0].in_round); // for 1 and 2
    net_unlink(net, 0, 1);
    net_settle(net, SECOND / 2); // the link does not come back
    assert_true(net->node[0].in_round);
    net->node[2].idle = true;
    net_round(net, 2, 2);
    assert_false(net->node[2].in_round); // nor does node 2 wait: 0 is there, 3 is not
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round);
    for (uint64_t round = 3; round < 6; round++) {
        net_round(net, 0, round);
        net_settle(net, SECOND / 100);
        assert_false(net->node[0].in_round);
    }
    net_link(net, 0, 1); // it learns that node 1 is behind
    net_settle(net, SECOND / 100);
    net_round(net, 0, 6);
    net_settle(net, SECOND / 100);
    assert_true(net->node[0].in_round);
    net->node[2].idle = false; // it works again
    net_round(net, 2, 3);
    net_settle(net, SECOND / 100);
    net->node[1].idle = true;
    net_round(net, 1, 2);
    net_settle(net, SECOND / 100);
    assert_true(net->node[0].in_round); // now it waits for node 2
    assert_int_equal(waits_of(net, 0), 0);
    net_destroy(net);
}

// The broken link may come back, or the view drops the peer. Until then its last round counts, for two
// deadlines at most.
static void test_a_broken_link_is_waited_for_once(void **state)
{
    (void)state;
    for (int unmet = 0; unmet < 2; unmet++) {
        struct net *net = bounded_net(2, TOPOLOGY_RING, 1, net_seed(912));
        net_round_all(net, 1);
        net_settle(net, SECOND / 100);
        net_unlink(net, 0, 1);
        const uint64_t begun_ns = net->now_ns;
        net_round(net, 0, 2);
        assert_false(net->node[0].in_round);
        net_round(net, 0, 3);
        net_settle(net, SECOND / 100);
        assert_true(net->node[0].in_round);
        if (unmet) {
            struct gossip_exchange_event event = {
                .kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = net_id(1), .unmet = true};
            assert_int_equal(net_step(net, 0, &event), BASE_OK);
        }
        while (net->node[0].in_round)
            net_settle(net, SECOND / 100);
        assert_true(net->now_ns - begun_ns < (unmet ? SECOND / 20 : SECOND / 2));
        assert_int_equal(waits_of(net, 0), 0);
        net_destroy(net);
    }
}

// The HELLO of a new neighbour may be late, and until it comes nobody knows how far behind that node is.
static void test_a_new_neighbour_is_waited_for_once(void **state)
{
    struct net *net = bounded_net(3, TOPOLOGY_RING, 4, net_seed(913));
    struct gossip_exchange_event lost = {.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = net_id(1), .unmet = true};

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    net_settle(net, SECOND / 100);
    net_unlink(net, 0, 1);
    assert_int_equal(net_step(net, 0, &lost), BASE_OK);
    net_round(net, 0, 6);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round);
    net_link(net, 0, 1);
    net_round(net, 0, 7);
    assert_true(net->node[0].in_round);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round); // it has spoken
    net_unlink(net, 0, 1);
    assert_int_equal(net_step(net, 0, &lost), BASE_OK);
    struct gossip_exchange_event again = {.kind = GOSSIP_EXCHANGE_LINK_UP, .peer = net_id(1)};
    assert_int_equal(net_step(net, 0, &again), BASE_OK); // the other end does not hear of the link
    const uint64_t begun_ns = net->now_ns;
    net_round(net, 0, 8);
    assert_true(net->node[0].in_round);
    while (net->node[0].in_round)
        net_settle(net, SECOND / 100);
    assert_true(net->now_ns - begun_ns < SECOND / 2);
    net_round(net, 0, 9);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round);
    assert_int_equal(waits_of(net, 0), 0);
    net_destroy(net);
}

static uint64_t clock_known(const struct net *net, size_t node, size_t peer)
{
    const struct gossip_id id = net_id(peer);

    return gossip_edge_find(net->node[node].exchange, &id)->round;
}

static void meet_nobody(struct net *net, size_t node, uint64_t round)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};

    event.round.round = round;
    event.round.model = net->node[node].x;
    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

static void rounds_of_two(struct net *net, uint64_t from, uint64_t to)
{
    for (uint64_t round = from; round <= to; round++)
        for (size_t i = 1; i <= 2; i++) {
            net_round(net, i, round);
            net_settle(net, SECOND / 100);
            assert_false(net->node[i].in_round);
        }
}

// The others go on while a node pauses. When it continues, it takes the round of the others, and from its
// question on they wait for it.
static void test_a_node_that_goes_on_takes_the_round_of_the_others(void **state)
{
    struct net *net = bounded_net(3, TOPOLOGY_RING, 4, net_seed(910));

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    net->node[0].idle = true;
    net_round(net, 0, 5);
    net_settle(net, SECOND / 100);
    rounds_of_two(net, 6, 20);
    net->node[0].follows = true;
    net_round(net, 0, 5);
    assert_true(net->node[0].in_round);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round);
    assert_int_equal(net->node[0].goes_on, 19);
    net_round(net, 1, 21);
    net_settle(net, SECOND / 100);
    assert_true(net->node[1].in_round);
    net->node[0].idle = net->node[0].follows = false;
    net_round(net, 0, 20);
    net_settle(net, SECOND / 100);
    assert_false(net->node[1].in_round);
    net_destroy(net);
}

// A slow node does not skip rounds, though all others are ahead.
static void test_a_slow_node_keeps_its_rounds(void **state)
{
    struct net *net = bounded_net(3, TOPOLOGY_RING, 4, net_seed(911));

    (void)state;
    net_round_all(net, 1);
    rounds_of_two(net, 2, 5);
    net_round(net, 0, 2);
    net_settle(net, SECOND / 100);
    assert_int_equal(net->node[0].goes_on, 2);
    net_destroy(net);
}

// A clock that was lost with a link is sent again over the next one.
static void test_a_lost_clock_is_sent_again(void **state)
{
    struct net *net = bounded_net(2, TOPOLOGY_RING, 0, net_seed(98));

    (void)state;
    net_round_all(net, 1);
    meet_nobody(net, 1, 2);
    net_unlink(net, 0, 1);
    net_link(net, 0, 1);
    net_settle(net, SECOND / 100);
    assert_int_equal(clock_known(net, 0, 1), 2);
    net_round(net, 0, 2);
    net_settle(net, SECOND / 100);
    assert_false(net->node[0].in_round);
    net_destroy(net);
}

// There are more neighbours than actions of a step.
static void test_all_neighbours_get_the_clock(void **state)
{
    enum { NODES = 40 };
    struct net *net = bounded_net(NODES, TOPOLOGY_COMPLETE, 0, net_seed(95));

    (void)state;
    for (uint64_t round = 1; round <= 3; round++) {
        for (size_t i = 0; i < NODES; i++)
            net_round(net, i, round);
        net_settle(net, SECOND / 10);
        for (size_t i = 0; i < NODES; i++) {
            const struct gossip_exchange *exchange = net->node[i].exchange;
            assert_int_equal(exchange->n_edges, NODES - 1);
            assert_false(net->node[i].in_round);
            for (size_t e = 0; e < exchange->n_edges; e++)
                assert_true(exchange->edges[e]->heard && exchange->edges[e]->round == round);
        }
    }
    meet_nobody(net, 0, 4); // so that no neighbour sends anything in return
    net_settle(net, SECOND / 10);
    for (size_t i = 1; i < NODES; i++)
        assert_int_equal(clock_known(net, i, 0), 4);
    net_destroy(net);
}

static void test_sync_waits_for_both_neighbours(void **state)
{
    struct gossip_exchange_options options = defaults(true);

    (void)state;
    options.bounded = true;
    struct net *net = net_create(4, D, TOPOLOGY_BUTTERFLY, net_seed(96), &options);
    net_link_all(net);
    net_round(net, 0, 1); // meets node 2
    net_round(net, 2, 1);
    net_settle(net, SECOND / 100);
    assert_true(net->node[0].in_round && net->node[2].in_round); // they have met; nodes 1 and 3 are to come
    net_round(net, 1, 1);
    net_settle(net, SECOND / 100);
    assert_true(!net->node[0].in_round && net->node[1].in_round);
    net_round(net, 3, 1);
    net_settle(net, SECOND / 100);
    for (size_t i = 0; i < 4; i++)
        assert_false(net->node[i].in_round);
    assert_true(net_count(net, COUNTER(exchanges)) == 4);
    net_destroy(net);
}

static uint64_t clock_under_way(const struct net *net)
{
    struct gossip_message message;

    for (const struct net_message *at = net->first; at; at = at->next)
        if (at->from == 0 && !gossip_message_decode(at->bytes, at->count, &message) &&
            message.kind == GOSSIP_CLOCK)
            return message.as.clock.round;
    return 0;
}

// A neighbour that sends its clock is told the round of the node, or IDLE if the node takes no steps.
static void test_a_clock_is_answered_with_the_round_of_the_node_or_idle(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(99));
    struct gossip_message clock = {.kind = GOSSIP_CLOCK, .as.clock.round = 2};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &clock};

    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        net->node[0].idle = idle;
        net_round(net, 0, 5 + (uint64_t)idle);
        net_settle(net, 20 * SECOND);
        assert_int_equal(net_step(net, 0, &event), BASE_OK);
        assert_true(clock_under_way(net) == (idle ? GOSSIP_CLOCK_IDLE : 5));
        net_settle(net, SECOND);
    }
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
        cmocka_unit_test(test_no_node_leaves_a_straggler_behind),
        cmocka_unit_test(test_async_runs_ahead),
        cmocka_unit_test(test_a_round_ends_by_its_deadline),
        cmocka_unit_test(test_a_node_that_is_gone_or_idle_delays_no_other),
        cmocka_unit_test(test_a_broken_link_is_waited_for_once),
        cmocka_unit_test(test_a_new_neighbour_is_waited_for_once),
        cmocka_unit_test(test_a_node_that_goes_on_takes_the_round_of_the_others),
        cmocka_unit_test(test_a_slow_node_keeps_its_rounds),
        cmocka_unit_test(test_a_lost_clock_is_sent_again),
        cmocka_unit_test(test_all_neighbours_get_the_clock),
        cmocka_unit_test(test_a_clock_is_answered_with_the_round_of_the_node_or_idle),
        cmocka_unit_test(test_sync_waits_for_both_neighbours),
        cmocka_unit_test(test_the_pace_is_relative_to_the_neighbours),
        cmocka_unit_test(test_a_few_slow_rounds_hardly_change_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
