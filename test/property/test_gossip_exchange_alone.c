// Sync: a node takes no step alone while others train, and skips the rounds that the others are past.
#include "exchange_alone.h"

// Without a link, with a broken one, or with one whose other end is silent, a round lasts as long as the
// ceiling. A neighbour that was waited for that long in vain is not waited for again until a fifth of the
// time allows it. If no other node trains, in async, and when idle, the round ends at once.
static void test_a_node_without_a_partner_waits_up_to_the_ceiling(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct net *net = net_of(2, net_seed(901));
        if (k > 0)
            net_unlink(net, 0, 1);
        net->node[1].paused = true;
        if (k > 1) {
            net->up[1] = net->up[2] = true;
            net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 1);
        }
        net_round(net, 0, 1);
        round_lasts(net, 0, CEILING_MS - 1, CEILING_MS);
        for (uint64_t round = 2; round <= 5; round++) {
            net_round(net, 0, round);
            round_lasts(net, 0, 0, CEILING_MS);
        }
        net->node[0].idle = k == 1;
        net->node[0].others = k == 1;
        for (uint64_t round = 6; round <= 8 && k > 0; round++) {
            net_round(net, 0, round);
            assert_false(net->node[0].in_round);
        }
        net_destroy(net);
    }
}

// The node need not wait any longer: whatever the round waits for, it ends in that step, and the others go on
// as before.
static void test_a_round_can_be_given_up(void **state)
{
    const struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct net *net = net_of(2, net_seed(907));
        struct gossip_exchange_event give_up = event;
        if (k == 0)
            net_unlink(net, 0, 1);
        assert_int_equal(net_step(net, k == 1, &give_up), BASE_OK); // no round is open
        net_round(net, k == 1, 1);
        net_settle(net, 50 * MS);
        assert_true(net->node[k == 1].in_round);
        give_up = event;
        assert_int_equal(net_step(net, k == 1, &give_up), BASE_OK);
        assert_false(net->node[k == 1].in_round);
        assert_int_equal(net->node[k == 1].goes_on, 1);
        if (k > 0)
            net_round_all(net, 2);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The link comes up while the round waits: the round meets over it.
static void test_a_link_that_comes_is_used(void **state)
{
    struct net *net = net_of(2, net_seed(902));
    struct gossip_edge_info info;

    (void)state;
    net_unlink(net, 0, 1);
    for (size_t i = 0; i < 2; i++)
        net_round(net, i, 1);
    net_settle(net, 300 * MS);
    assert_true(net->node[0].in_round && net->node[1].in_round);
    net_link(net, 0, 1);
    round_lasts(net, 0, 0, 5);
    assert_false(net->node[1].in_round);
    assert_int_equal(net_edge(net, 0, 1, &info)->exchanges, 1);
    assert_int_equal(info.clock, 1);
    net_destroy(net);
}

// If one neighbour is there, a broken link to another delays the node only once: the link may come back, the
// view may drop the neighbour, or the edge is forgotten.
static void test_a_broken_link_is_waited_for_once(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct gossip_exchange_options options = defaults(true);
        struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(903), &options);
        struct gossip_exchange_event over[] = {
            {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(1), .dead = true},
            {.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = net_id(1), .unmet = true}};
        uint64_t waited = 0;
        net_link_all(net);
        net_unlink(net, 0, 1);
        net->node[0].others = true;
        for (uint64_t round = 1; round <= 9; round++) {
            if (topology_plan_partner(net->plan, 0, round) != 1)
                continue;
            net_round(net, 0, round);
            waited += net->node[0].in_round;
            if (k == 0) {
                round_lasts(net, 0, 0, CEILING_MS);
            } else if (net->node[0].in_round) {
                net_settle(net, SECOND / 2);
                assert_true(net->node[0].in_round);
                assert_int_equal(net_step(net, 0, &over[k - 1]), BASE_OK); // the neighbour is dead
                assert_false(net->node[0].in_round);
            }
        }
        assert_int_equal(waited, 1);
        net_destroy(net);
    }
}

// A node waits for a partner in the middle of a RESYNC; the round meets after it.
static void test_a_round_waits_for_a_resync(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_edge_info info;

    (void)state;
    options.deadline_floor_ns = options.deadline_ceiling_ns = 10 * SECOND;
    struct net *net = net_create(2, 10000, TOPOLOGY_RING, net_seed(904), &options);
    net->bandwidth = 125000;
    for (size_t i = 0; i < 2; i++) {
        change_model(net, i);
        net_round(net, i, 5000);
        net->node[i].others = true;
    }
    net_link(net, 0, 1);
    net_settle(net, 50 * MS);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_RESYNC);
    for (size_t i = 0; i < 2; i++)
        net_round(net, i, 5001);
    net_settle(net, 20 * SECOND);
    assert_false(net->node[0].in_round || net->node[1].in_round);
    assert_int_equal(net_edge(net, 0, 1, &info)->exchanges, 1);
    assert_int_equal(info.clock, 5001);
    net_destroy(net);
}

// The peer took another model meanwhile and dropped the block: it is sent again at once, not after a
// deadline.
static void test_a_block_to_an_edge_that_began_anew_is_asked_about(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_edge_info info;

    (void)state;
    options.deadline_floor_ns = options.deadline_ceiling_ns = 10 * SECOND;
    struct net *net = net_create(2, 10000, TOPOLOGY_RING, net_seed(926), &options);
    net->bandwidth = 125000;
    for (size_t i = 0; i < 2; i++) {
        change_model(net, i);
        net_round(net, i, 5000);
    }
    net_link(net, 0, 1);
    net_settle(net, 50 * MS);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_RESYNC); // its block is under way
    net_tell(net, 1, GOSSIP_EXCHANGE_LINK_DOWN, 0);
    net_tell(net, 1, GOSSIP_EXCHANGE_FORGET, 0);
    net_settle(net, SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_RESYNC);
    net_tell(net, 1, GOSSIP_EXCHANGE_LINK_UP, 0);
    net_settle(net, 2 * SECOND);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(net_edge(net, i, 1 - i, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A node that is further behind than one in step can be takes the round of the others, at once if within its
// reach and else step by step. A node that is ahead waits for it, and skips no round itself.
static void test_missed_rounds_are_not_made_up_for(void **state)
{
    struct net *net = net_of(2, net_seed(905));
    uint64_t reach = gossip_exchange_reach(net->node[0].exchange), behind[] = {reach / 2, 5 * reach};

    (void)state;
    assert_int_equal(reach, 20); // 2 d/k
    for (size_t k = 0; k < 2; k++) {
        uint64_t first = 100 + 1000 * k, made[2] = {0};
        net->node[0].goes_on = first;
        net->node[1].goes_on = first + behind[k];
        while (net->node[0].goes_on + 1 < net->node[1].goes_on || net->node[1].in_round) {
            for (size_t i = 0; i < 2; i++) {
                if (net->node[i].in_round)
                    continue;
                assert_true(made[i]++ < 7);
                net_round(net, i, net->node[i].goes_on + 1);
            }
            net_settle(net, SECOND / 20);
            assert_true(net->node[0].goes_on <= net->node[1].round);
        }
        assert_in_range(made[0], 1, k ? 7 : 2);
        assert_in_range(made[1], 1, 3);
        assert_int_equal(net->node[1].goes_on, first + behind[k] + made[1]);
    }
    net_destroy(net);
}

// Two neighbours that were away return and are behind a third node: neither delays the other.
static void test_two_nodes_that_were_away_do_not_delay_each_other(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(4, D, TOPOLOGY_RING, net_seed(908), &options);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        net_link(net, i, i + 1);
        net->node[i].standing = GOSSIP_AWAY;
    }
    net->node[2].round = 115;
    for (size_t i = 0; i < 3; i++) {
        net->node[i].others = true;
        net->node[i].goes_on = i < 2 ? 100 : 115;
    }
    for (unsigned ms = 0; ms < 100; ms++) {
        for (size_t i = 0; i < 3; i++)
            if (!net->node[i].in_round)
                net_round(net, i, net->node[i].goes_on + 1);
        net_settle(net, MS / 2);
        net->now_ns += MS / 2;
    }
    assert_true(net->node[2].goes_on > 115 + 60); // a round takes a millisecond
    for (size_t i = 0; i < 2; i++)
        assert_in_range(net->node[2].goes_on - net->node[i].goes_on, 0, 16);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

static void test_nodes_in_step_skip_no_round(void **state)
{
    struct net *net = net_of(8, net_seed(906));

    (void)state;
    net->jitter_ns = 20 * MS;
    for (uint64_t round = 1; round <= 100; round++) {
        net_round_all(net, round);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(net->node[i].goes_on, round);
    }
    net_destroy(net);
}

// A node that has finished or is paused answers at once, also requests of rounds that it has not reached.
static void test_a_node_that_stands_still_answers_at_once(void **state)
{
    (void)state;
    for (size_t finished = 0; finished < 2; finished++) {
        struct net *net = net_of(2, net_seed(910));
        net_round_all(net, 1);
        net->node[0].idle = true;
        net->node[0].standing = finished ? GOSSIP_FINISHED : GOSSIP_PRESENT;
        net_round(net, 0, 2);
        for (uint64_t round = 2; round <= 9; round++) {
            net_round(net, 1, round);
            round_lasts(net, 1, 0, 5);
        }
        assert_int_equal(net_count(net, COUNTER(exchanges)), 2 * 9);
        assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
        net_destroy(net);
    }
}

// Node 1 says that it is behind, for ever, and makes no exchange.
static void test_a_neighbour_that_only_says_that_it_is_behind_holds_nobody(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(939), &options);
    struct gossip_edge_info info;

    (void)state;
    net_link_all(net);
    for (uint64_t round = 1; round <= 6; round++)
        net_round_all(net, round);
    for (size_t i = 0; i < 3; i++)
        net->node[i].others = true;
    net->node[1].paused = true;
    const uint64_t begun_ns = net->now_ns;
    uint64_t waited_ns = 0, round = 6;
    while (net->now_ns - begun_ns < 60 * SECOND) {
        const uint64_t from_ns = net->now_ns;
        round++;
        net_round(net, 0, round);
        net_round(net, 2, round);
        while (net->node[0].in_round || net->node[2].in_round) {
            for (size_t i = 0; i < 3; i += 2) {
                assert_non_null(net_edge(net, i, 1, &info));
                const struct gossip_message parked = {
                    .kind = GOSSIP_PARKED, .as.parked = {info.epoch, info.sequence, 1 + round / 100}};
                struct gossip_exchange_event event = {
                    .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &parked};
                assert_int_equal(net_step(net, i, &event), BASE_OK);
            }
            net_settle(net, MS);
            net->now_ns += MS;
        }
        waited_ns += net->now_ns - from_ns;
        net->now_ns += 10 * MS; // of steps
    }
    print_message("%.1f of 60 s waited, %llu rounds\n", (double)waited_ns / 1e9, (unsigned long long)round);
    // A deadline's ceiling and a fifth of the time for each of the two ends, one after the other at worst;
    // and the exchanges between them.
    assert_true(waited_ns < 2 * (SECOND + 12 * SECOND) + 6 * SECOND);
    assert_true(round > 1000);
    net_destroy(net);
}

// A word takes 1.6 s, the deadline is 4 s. Node 1 has asked before and knows the way, node 0 has only
// answered. When node 0 asks, node 1 is behind, and says at once that it has the request: node 0 goes on
// waiting.
static void test_a_far_neighbour_that_is_behind_is_heard_before_the_deadline(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_totals totals;

    (void)state;
    options.deadline_ceiling_ns = 4 * SECOND;
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(941), &options);
    net_link_all(net);
    net->node[0].others = net->node[1].others = true;
    net->delay_ns = 1600 * MS;
    net_round(net, 1, 1);
    net_settle(net, 2 * SECOND);
    net_round(net, 0, 1);
    net_settle(net, 8 * SECOND);
    net_round(net, 0, 2);
    net_settle(net, 3500 * MS);
    net_round(net, 1, 2);
    net_settle(net, 8 * SECOND);
    assert_false(net->node[0].in_round);
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_int_equal(totals.waits.overdue, 0);
    assert_int_equal(totals.exchanges, 2);
    net_destroy(net);
}

// Node 1's request waits at node 0, which is behind, when node 0's view loses the edge for a moment. Node 1
// hears so and asks again.
static void test_a_request_that_waits_is_declined_when_its_edge_goes(void **state)
{
    struct net *net = net_of(2, net_seed(943));
    struct gossip_exchange_totals totals;

    (void)state;
    net_round_all(net, 1);
    net_round(net, 1, 2);
    net_settle(net, 20 * MS);
    assert_true(net->node[1].in_round);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_DOWN, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 1);
    net_settle(net, 20 * MS);
    net_round(net, 0, 2);
    round_lasts(net, 1, 0, 50);
    round_lasts(net, 0, 0, 50);
    for (size_t i = 0; i < 2; i++) {
        gossip_exchange_totals(net->node[i].exchange, &totals);
        assert_int_equal(totals.waits.overdue, 0);
        assert_int_equal(totals.exchanges, 2);
    }
    assert_true(net_references_match(net));
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_without_a_partner_waits_up_to_the_ceiling),
        cmocka_unit_test(test_a_round_can_be_given_up),
        cmocka_unit_test(test_a_link_that_comes_is_used),
        cmocka_unit_test(test_a_broken_link_is_waited_for_once),
        cmocka_unit_test(test_a_round_waits_for_a_resync),
        cmocka_unit_test(test_missed_rounds_are_not_made_up_for),
        cmocka_unit_test(test_two_nodes_that_were_away_do_not_delay_each_other),
        cmocka_unit_test(test_nodes_in_step_skip_no_round),
        cmocka_unit_test(test_a_node_that_stands_still_answers_at_once),
        cmocka_unit_test(test_a_neighbour_that_only_says_that_it_is_behind_holds_nobody),
        cmocka_unit_test(test_a_far_neighbour_that_is_behind_is_heard_before_the_deadline),
        cmocka_unit_test(test_a_block_to_an_edge_that_began_anew_is_asked_about),
        cmocka_unit_test(test_a_request_that_waits_is_declined_when_its_edge_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
