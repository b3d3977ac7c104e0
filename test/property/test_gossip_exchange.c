// The exchange as a state machine: which node waits for which, ties, silence, stragglers, and deferred
// messages.
#include "exchange_cases.h"

#include <math.h>

static void test_edges_with_one_seed_model_need_no_resync(void **state)
{
    struct net *net = linked_net(8, 50, true, net_seed(1));

    (void)state;
    for (uint64_t round = 1; round <= 6; round++)
        net_round_all(net, round);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 8 * 6);
    net_destroy(net);
}

// Sync: a round ends for both ends with their exchange, and not before the later one is at its boundary.
static void test_sync_waits_for_the_partner(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(2));

    (void)state;
    net_round(net, 0, 1);
    net_settle(net, SECOND / 20);
    assert_true(net->node[0].in_round); // its request is deferred at node 1
    net_round(net, 1, 1);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_false(net->node[1].in_round);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

// Async: the round ends in the same step, and the exchange follows.
static void test_async_does_not_wait(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(3));

    (void)state;
    net->node[1].paused = true;
    net_round(net, 0, 1);
    assert_false(net->node[0].in_round);
    net->node[1].paused = false;
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_round(net, 1, 1); // they have already met for round 1
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_destroy(net);
}

static void test_of_two_crossing_requests_the_lower_id_wins(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(4));

    (void)state;
    net_round(net, 0, 1); // both requests are under way before either arrives
    net_round(net, 1, 1);
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A paused partner costs one deadline. Its edge is then in doubt and is skipped, and what was open is settled
// when it wakes.
static void check_paused_partner(size_t paused, size_t other)
{
    struct net *net = linked_net(2, 50, true, net_seed(5));
    struct gossip_edge_info info;
    uint64_t started;

    net_round_all(net, 1);
    net->node[paused].paused = true;
    started = net->now_ns;
    net_round(net, other, 2);
    net_settle(net, 3 * SECOND);
    assert_false(net->node[other].in_round);
    net->now_ns += SECOND;
    started = net->now_ns;
    net_round(net, other, 3);
    assert_false(net->node[other].in_round); // it does not wait a second time
    assert_int_equal(net->now_ns, started);
    net->node[paused].paused = false;
    net_settle(net, 3 * SECOND);
    assert_int_equal(net_edge(net, other, paused, &info)->state, GOSSIP_EDGE_LIVE);
    net_round(net, paused, 2);
    net_settle(net, 3 * SECOND);
    assert_false(net->node[paused].in_round);
    for (uint64_t round = 4; round < 30; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_true(net_edge(net, other, paused, &info)->exchanges > 20);
    net_destroy(net);
}

static void test_a_paused_partner_costs_one_deadline(void **state)
{
    (void)state;
    check_paused_partner(1, 0); // the initiator waits for an answer
    check_paused_partner(0, 1); // the responder waits for the request
}

static void test_the_death_of_the_partner_ends_the_round_at_once(void **state)
{
    struct net *net = linked_net(4, 50, true, net_seed(6));

    (void)state;
    net_round_all(net, 1);
    for (size_t i = 0; i < 3; i++) {
        net_round(net, i, 2);
        if (net->up[i * 4 + 3])
            net_unlink(net, i, 3);
    }
    net->node[3].paused = true;
    net_settle(net, SECOND / 20);
    for (size_t i = 0; i < 3; i++)
        assert_false(net->node[i].in_round);
    struct gossip_exchange_event forget = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(3)};
    assert_int_equal(net_step(net, 1, &forget), BASE_OK);
    assert_int_equal(gossip_exchange_edges(net->node[1].exchange), 1);
    for (uint64_t round = 3; round < 20; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Nodes of different speed in async: all meet, none diverges, and references stay identical.
static void test_async_agrees_with_a_straggler(void **state)
{
    enum { N = 8 };
    struct net *net = linked_net(N, 300, false, net_seed(12));

    (void)state;
    net->jitter_ns = 2000000;
    for (uint64_t tick = 1; tick <= 1500; tick++) {
        for (size_t i = 0; i < N; i++) {
            const bool steps = i == 3 && tick % 5; // five times slower
            if (!steps && !net->node[i].in_round)
                net_round(net, i, net->node[i].round + 1);
            net_settle(net, 300000);
        }
    }
    net_settle(net, 10 * SECOND);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-4);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

// A model that holds NaN is never sent, and a counter reports it; the neighbours go on.
static void test_a_model_that_is_not_finite_is_never_sent(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(13));
    struct gossip_exchange_totals totals;

    (void)state;
    net->node[0].x[7] = NAN;
    net_round_all(net, 1);
    net->node[1].x[7] = INFINITY;
    net->node[0].x[7] = 1;
    net_round_all(net, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_false(net->node[i].in_round);
        gossip_exchange_totals(net->node[i].exchange, &totals);
        assert_true(totals.not_finite >= 1);
        assert_int_equal(totals.exchanges, 0);
    }
    net_destroy(net);
}

// Sync: BUSY sets a time for the next attempt; if the edge is gone by then, no timer may be left in the past.
static void test_an_edge_that_goes_after_busy_leaves_no_timer(void **state)
{
    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        struct net *net = linked_net(2, 50, true, net_seed(15));
        struct gossip_message busy = {.kind = GOSSIP_BUSY};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &busy};
        net->node[1].paused = true;
        net_round(net, 0, 1);
        assert_int_equal(net_step(net, 0, &event), BASE_OK); // refuses node 0's request: epoch 0, sequence 0
        assert_true(gossip_exchange_deadline(net->node[0].exchange) < net->now_ns + SECOND);
        net_unlink(net, 0, 1);
        if (forgotten)
            net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
        assert_true(gossip_exchange_deadline(net->node[0].exchange) == UINT64_MAX);
        net_destroy(net);
    }
}

// If the deadline of a round passes in the same step that refuses a message, the round still ends in that
// step.
static void test_a_refused_message_does_not_hide_the_end_of_a_round(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(24));
    static const uint8_t garbage[8] = {0xff};
    struct gossip_message message = {
        .kind = GOSSIP_XCHG,
        .as.exchange = {.step_scale = 0.1f, .clock = 100, .delta = garbage, .delta_bytes = sizeof garbage}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(0), .message = &message};

    (void)state;
    net_round(net, 1, 1); // waits for the request of node 0
    assert_true(net->node[1].in_round);
    net->now_ns += SECOND;
    assert_true(net_refuses(net, 1, &event, GOSSIP_REFUSAL_BROKEN));
    assert_false(net->node[1].in_round);
    net_destroy(net);
}

// A peer may choose any finite step scale; the corrections stay finite.
static void test_a_tiny_step_scale_leaves_corrections_finite(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(26));

    (void)state;
    net->step_scale = 1e-44f;
    for (uint64_t round = 1; round < 10; round++)
        net_round_all(net, round);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 18);
    for (size_t j = 0; j < 50; j++)
        assert_true(isfinite(gossip_exchange_correction(net->node[0].exchange)[j]));
    net_destroy(net);
}

// Sync: more requests wait for a node that is behind than it answers in one step: the rest are answered
// without another event.
static void test_many_deferred_requests_are_all_answered(void **state)
{
    enum { N = 20 };
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(N, 50, TOPOLOGY_RING, net_seed(27), &options);
    struct gossip_exchange_event round = {.kind = GOSSIP_EXCHANGE_ROUND,
                                          .round = {.round = 1, .meets = true, .step_scale = 0.1f}};
    struct gossip_exchange_event over = {.kind = GOSSIP_EXCHANGE_GIVE_UP};

    (void)state;
    for (size_t i = 0; i + 1 < N; i++)
        net_link(net, i, N - 1);
    net_settle(net, SECOND);
    net->node[0].paused = true;
    for (size_t i = N; i-- > 1;) { // the last one asks node 0, and all others are ahead and ask the last one
        round.round.round = i == N - 1 ? 1 : 2;
        round.round.partner = net_id(i == N - 1 ? 0 : N - 1);
        round.round.model = net->node[i].x;
        assert_int_equal(net_step(net, i, &round), BASE_OK);
    }
    net_settle(net, SECOND / 100);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 0);
    assert_int_equal(net_step(net, N - 1, &over), BASE_OK);
    round.round.round = 2;
    round.round.partner = net_id(0);
    round.round.model = net->node[N - 1].x;
    assert_int_equal(net_step(net, N - 1, &round), BASE_OK);
    net_settle(net, SECOND / 100);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2 * (N - 2));
    net_destroy(net);
}

// Sync, after a pause: one end is some rounds behind. Both meet at once and the late end catches up; they do
// not each wait for a round of the other.
static void test_in_sync_a_late_end_meets_at_once_and_catches_up(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(21));

    (void)state;
    net_round(net, 0, 4);
    net_settle(net, SECOND / 20);
    assert_true(net->node[0].in_round);
    uint64_t started = net->now_ns;
    for (uint64_t round = 1; round <= 4; round++) {
        net_round(net, 1, round);
        net_settle(net, SECOND / 100);
        assert_false(net->node[1].in_round);
    }
    assert_false(net->node[0].in_round);
    assert_true(net->now_ns - started < SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges_with_one_seed_model_need_no_resync),
        cmocka_unit_test(test_sync_waits_for_the_partner),
        cmocka_unit_test(test_async_does_not_wait),
        cmocka_unit_test(test_of_two_crossing_requests_the_lower_id_wins),
        cmocka_unit_test(test_a_paused_partner_costs_one_deadline),
        cmocka_unit_test(test_the_death_of_the_partner_ends_the_round_at_once),
        cmocka_unit_test(test_async_agrees_with_a_straggler),
        cmocka_unit_test(test_a_model_that_is_not_finite_is_never_sent),
        cmocka_unit_test(test_an_edge_that_goes_after_busy_leaves_no_timer),
        cmocka_unit_test(test_a_refused_message_does_not_hide_the_end_of_a_round),
        cmocka_unit_test(test_a_tiny_step_scale_leaves_corrections_finite),
        cmocka_unit_test(test_many_deferred_requests_are_all_answered),
        cmocka_unit_test(test_in_sync_a_late_end_meets_at_once_and_catches_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
