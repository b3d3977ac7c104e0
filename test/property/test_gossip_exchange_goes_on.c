// Sync: a node that begins, or goes on after a pause, first asks its neighbours for their round.
#include "exchange_alone.h"

// Node 0 pauses at round 5. The others are at `round`, and have not told it since.
static struct net *net_beside_one_that_paused(uint64_t round, uint64_t seed)
{
    struct net *net = net_of(3, seed);

    for (uint64_t r = 1; r <= 5; r++)
        net_round_all(net, r);
    for (size_t i = 1; i < 3; i++) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
        net->node[i].others = false;
        net_round(net, i, round + i - 1);
        assert_int_equal(net_step(net, i, &event), BASE_OK);
        net->node[i].others = true;
    }
    net->node[0].idle = net->node[0].follows = true;
    return net;
}

// A node that goes on after a pause takes the round at which its neighbours are now, not the one that they
// last reported; and they wait for it.
static void test_a_node_that_goes_on_asks_for_the_round_of_the_others(void **state)
{
    struct net *net = net_beside_one_that_paused(20, net_seed(911));
    uint64_t latest = 0;

    (void)state;
    net->watch = latest_clock;
    net->watcher = &latest;
    net_round(net, 0, 5);
    assert_int_equal(latest, 5); // not the round of an idle node
    assert_true(net->node[0].in_round);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_int_equal(net->node[0].goes_on, 19); // the next boundary is that of the last node
    net->node[0].idle = net->node[0].follows = false;
    for (size_t i = 0; i < 3; i++)
        net_round(net, i, i < 2 ? 20 + i : 22);
    net_settle(net, SECOND);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(net->node[i].goes_on, 20, 22);
    net_destroy(net);
}

// Nodes begin in turn, and one that has begun meets its other neighbours before it waits.
static void test_a_node_that_begins_stays_beside_those_that_wait_for_it(void **state)
{
    (void)state;
    for (uint64_t in_step = 14; in_step <= 17; in_step++) {
        struct net *net = net_beside_one_that_paused(20, net_seed(922));
        net->node[0].in_step = in_step;
        net_round(net, 0, 5);
        net_settle(net, SECOND / 20);
        assert_false(net->node[0].in_round);
        assert_int_equal(net->node[0].goes_on, in_step < 16 ? 19 : 5);
        net_destroy(net);
    }
}

// The node's links have just come up: it asks over them once the states are compared.
static void test_a_node_that_goes_on_asks_over_new_edges(void **state)
{
    struct net *net = net_beside_one_that_paused(20, net_seed(923));

    (void)state;
    for (size_t i = 1; i < 3; i++) {
        net_unlink(net, 0, i);
        net_link(net, 0, i);
    }
    net_round(net, 0, 5);
    assert_true(net->node[0].in_round);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_int_equal(net->node[0].goes_on, 19);
    net_destroy(net);
}

// The rest of the blocks need not be waited for: what the neighbour says of its round counts now.
static void test_a_node_that_goes_on_asks_during_a_resync(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange_event gives_up = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
    struct gossip_edge_info info;
    struct net *net = net_create(2, 40000, TOPOLOGY_RING, net_seed(927), &options);

    (void)state;
    net->bandwidth = 125000;
    for (size_t i = 0; i < 2; i++) {
        change_model(net, i);
        net_round(net, i, 5000);
    }
    net_link(net, 0, 1);
    net_settle(net, 50 * MS);
    net_round(net, 0, 5010);
    assert_int_equal(net_step(net, 0, &gives_up), BASE_OK);
    net->node[1].idle = net->node[1].follows = true;
    net_round(net, 1, 5000);
    assert_true(net->node[1].in_round);
    net_settle(net, SECOND);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_RESYNC);
    assert_false(net->node[1].in_round);
    assert_int_equal(net->node[1].goes_on, 5009);
    net_destroy(net);
}

// Once one neighbour has told its round, the node does not wait for an edge whose other end is not open yet.
static void test_after_one_answer_a_node_waits_for_no_edge(void **state)
{
    struct net *net = net_beside_one_that_paused(20, net_seed(924));

    (void)state;
    net_tell(net, 2, GOSSIP_EXCHANGE_LINK_DOWN, 0);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 2);
    net_round(net, 0, 5);
    assert_true(net->node[0].in_round);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_int_equal(net->node[0].goes_on, 19);
    net_destroy(net);
}

// The neighbour had closed the edge when the question came, and opens it again.
static void test_a_node_that_goes_on_asks_again_when_an_edge_is_reopened(void **state)
{
    struct net *net = net_beside_one_that_paused(20, net_seed(925));

    (void)state;
    net_tell(net, 1, GOSSIP_EXCHANGE_LINK_DOWN, 0);
    net_round(net, 0, 5);
    net_settle(net, SECOND / 20);
    assert_true(net->node[0].in_round);
    net_tell(net, 1, GOSSIP_EXCHANGE_LINK_UP, 0);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_int_equal(net->node[0].goes_on, 19);
    net_destroy(net);
}

// A silent neighbour delays the node until the deadline and then does not count; a neighbour whose link
// breaks delays it no longer. In async, and without neighbours, the node asks none.
static void test_a_node_that_goes_on_does_not_wait_for_answers_for_ever(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct net *net = net_beside_one_that_paused(20, net_seed(912));
        net->node[2].paused = true;
        if (k == 2)
            for (size_t i = 1; i < 3; i++)
                net_unlink(net, 0, i);
        net_round(net, 0, 5);
        assert_int_equal(net->node[0].in_round, k < 2);
        net_settle(net, MS);
        if (k == 1)
            net_unlink(net, 0, 2);
        round_lasts(net, 0, 0, k == 0 ? CEILING_MS : 0);
        assert_int_equal(net->node[0].goes_on, k < 2 ? 19 : 5);
        net_destroy(net);
    }
    struct net *async = linked_net(2, D, false, net_seed(913));
    async->node[0].idle = async->node[0].follows = true;
    net_round(async, 0, 1);
    assert_false(async->node[0].in_round);
    net_destroy(async);
}

static bool has_silent(const struct net *net, size_t node)
{
    struct gossip_edge_info info;

    for (size_t i = 0; i < gossip_exchange_edges(net->node[node].exchange); i++) {
        gossip_exchange_edge_info(net->node[node].exchange, i, &info);
        if (info.state == GOSSIP_EDGE_LIVE && info.silent)
            return true;
    }
    return false;
}

// A neighbour has missed rounds of this node, and neither has sent anything since: it is still asked.
static void test_a_node_that_goes_on_asks_silent_neighbours(void **state)
{
    struct net *net = net_of(3, net_seed(914));
    struct net_node *last = &net->node[2]; // the end that waits to be asked

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    for (uint64_t round = 6; round <= 11; round++) {
        net_round(net, 2, round);
        round_lasts(net, 2, 0, CEILING_MS);
    }
    assert_true(has_silent(net, 2));
    for (size_t i = 0; i < 2; i++) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};

        net->node[i].others = false;
        net_round(net, i, 20 + i);
        assert_int_equal(net_step(net, i, &event), BASE_OK);
    }
    last->idle = last->follows = true;
    net_round(net, 2, 11);
    assert_true(last->in_round);
    net_settle(net, SECOND / 20);
    assert_false(last->in_round);
    assert_int_equal(last->goes_on, 19);
    assert_false(has_silent(net, 2));
    net_destroy(net);
}

static void comes_to(struct net *net, size_t node, uint64_t round)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};

    net->node[node].others = false;
    net_round(net, node, round);
    assert_int_equal(net_step(net, node, &event), BASE_OK);
    net->node[node].others = true;
}

// The node's own request has no answer yet, as after a pause of either end: it still asks where the other end
// is, and waits for that answer although another neighbour has answered.
static void test_a_node_that_goes_on_in_doubt_asks(void **state)
{
    (void)state;
    for (size_t nodes = 2; nodes <= 3; nodes++) {
        struct net *net = net_of(nodes, net_seed(918));
        struct gossip_edge_info info;
        uint64_t round = 6;
        for (uint64_t r = 1; r <= 5; r++)
            net_round_all(net, r);
        while (topology_plan_partner(net->plan, 0, round) != 1)
            round++;
        net->node[1].paused = true;
        net_round(net, 0, round);
        round_lasts(net, 0, 0, CEILING_MS);
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_IN_DOUBT);
        net->node[1].paused = false;
        comes_to(net, 1, 20);
        if (nodes == 3)
            comes_to(net, 2, 30);
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_IN_DOUBT);
        net->node[0].idle = net->node[0].follows = true;
        net_round(net, 0, round);
        assert_true(net->node[0].in_round);
        net_settle(net, SECOND / 20);
        assert_false(net->node[0].in_round);
        assert_int_equal(net->node[0].goes_on, 19);
        net_destroy(net);
    }
}

// The answer to an earlier question, which was given up, arrives after the node has asked again. It reports
// an old round of the other end.
static void test_a_late_answer_does_not_answer_a_later_question(void **state)
{
    struct net *net = net_beside_one_that_paused(12, net_seed(919));
    const uint64_t asked_ns = net->now_ns;

    (void)state;
    net->delay_ns = 900 * MS; // the answer arrives after 1,800 ms
    net_round(net, 0, 5);
    round_lasts(net, 0, 0, CEILING_MS);
    assert_int_equal(net->node[0].goes_on, 5);
    net_settle(net, asked_ns + 1790 * MS - net->now_ns);
    net->now_ns = asked_ns + 1790 * MS;
    for (size_t i = 1; i < 3; i++)
        comes_to(net, i, 22 + i - 1);
    net->delay_ns = MS / 10;
    net_round(net, 0, 5);
    round_lasts(net, 0, 0, CEILING_MS);
    assert_int_equal(net->node[0].goes_on, 21);
    net_destroy(net);
}

// Two nodes that go on at the same time report the rounds where they were, not where they will be.
static void test_two_nodes_that_go_on_do_not_delay_each_other(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) { // at once; the second one when the first has gone on
        struct net *net = net_beside_one_that_paused(20, net_seed(915));
        net->node[1].idle = net->node[1].follows = true;
        net->node[1].round = 5;
        struct gossip_exchange_event back = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
        net_round(net, 1, 20);
        assert_int_equal(net_step(net, 1, &back), BASE_OK);
        net_round(net, 0, 5);
        if (k > 0)
            net_settle(net, SECOND / 20);
        net_round(net, 1, 20);
        net_settle(net, SECOND / 20);
        assert_int_equal(net->node[0].goes_on, 20);
        assert_int_equal(net->node[1].goes_on, 20);
        net_destroy(net);
    }
}

// A node that was away, and hears only from a node that is also coming back, waits for what that node hears
// from others: else it would begin in an old round. It does not wait for ever, nor if it is near the others.
static void test_a_node_that_follows_a_follower_waits_for_its_round(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct gossip_exchange_event over = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
        struct net *net = net_of(2, net_seed(928));
        for (uint64_t r = 1; r <= 5; r++)
            net_round_all(net, r);
        for (size_t i = 0; i < 2; i++)
            net->node[i].idle = net->node[i].follows = net->node[i].others = true;
        net->node[0].in_step = k == 2 ? 4 : 0;
        net_round(net, 0, 5);
        net_round(net, 1, 5);
        net_settle(net, SECOND / 20);
        assert_true(net->node[0].in_round == (k < 2));
        if (k == 0) {
            assert_int_equal(net_step(net, 1, &over), BASE_OK); // it has heard of round 20
            net->node[1].idle = net->node[1].follows = false;
            net_round(net, 1, 20);
            net_settle(net, SECOND / 20);
        }
        if (k == 1)
            round_lasts(net, 0, 0, CEILING_MS);
        assert_false(net->node[0].in_round);
        assert_int_equal(net->node[0].goes_on, k == 0 ? 19 : 5);
        net_destroy(net);
    }
}

static void count_told(struct net *net, size_t node, const struct gossip_exchange_event *event,
                       const struct gossip_exchange_actions *actions)
{
    size_t *told = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count && node == 1; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        if (actions->list[i].kind == GOSSIP_EXCHANGE_SEND && message->kind == GOSSIP_CLOCK)
            *told += message->as.clock.why == GOSSIP_CLOCK_TELLS;
    }
}

// A node that follows is about to leave its round, and a neighbour that also follows would take that round.
// So it only asks, and answers, whatever it hears meanwhile.
static void test_a_node_that_follows_does_not_tell_its_old_round(void **state)
{
    struct net *net = net_of(2, net_seed(929));
    size_t told = 0;

    (void)state;
    for (uint64_t r = 1; r <= 5; r++)
        net_round_all(net, r);
    net->watch = count_told;
    net->watcher = &told;
    net->node[0].paused = true;
    net->node[1].idle = net->node[1].follows = true;
    net_round(net, 1, 5);
    hears(net, 1, 0, 3, GOSSIP_CLOCK_TELLS);  // behind
    hears(net, 1, 0, 20, GOSSIP_CLOCK_TELLS); // it would wait for this node
    net_settle(net, 50 * MS);                 // a long round
    assert_true(net->node[1].in_round);
    assert_int_equal(told, 0);
    hears(net, 1, 0, 22, GOSSIP_CLOCK_ANSWERS);
    assert_int_equal(net->node[1].goes_on, 21);
    hears(net, 1, 0, 3, GOSSIP_CLOCK_TELLS); // its next round has not begun: it is not idle, either
    net_settle(net, 50 * MS);
    assert_int_equal(told, 0);
    net->node[1].idle = net->node[1].follows = false;
    net_round(net, 1, 21);
    net_settle(net, 50 * MS);
    assert_true(told > 0); // it has gone on
    net_destroy(net);
}

// Neighbours wait for a node that asks; if it pauses again at once, they do not.
static void test_a_node_that_asks_and_pauses_again_delays_no_other(void **state)
{
    struct net *net = net_beside_one_that_paused(20, net_seed(916));
    uint64_t latest = 0;

    (void)state;
    net_round(net, 0, 5);
    net_settle(net, SECOND / 20);
    assert_int_equal(net->node[0].goes_on, 19);
    net->watch = latest_clock;
    net->watcher = &latest;
    net->node[0].follows = false;
    net_round(net, 0, 20);
    assert_int_equal(latest, GOSSIP_CLOCK_IDLE);
    net_destroy(net);
}

// When a paused node has answered, others do not wait for it until it goes on: then it tells them its round.
static void test_a_node_that_answered_as_idle_tells_when_it_goes_on(void **state)
{
    struct net *net = net_beside_one_that_paused(6, net_seed(917));
    uint64_t latest = 0;

    (void)state;
    net->node[0].follows = false;
    net_round(net, 0, 5); // it pauses
    net->node[1].idle = net->node[1].follows = true;
    net_round(net, 1, 6);
    net->watch = latest_clock;
    net->watcher = &latest;
    net_settle(net, SECOND / 20);
    assert_int_equal(latest, GOSSIP_CLOCK_IDLE);
    net->node[0].idle = false;
    net_round(net, 0, 6);
    assert_int_equal(latest, 6);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_that_goes_on_asks_for_the_round_of_the_others),
        cmocka_unit_test(test_a_node_that_begins_stays_beside_those_that_wait_for_it),
        cmocka_unit_test(test_a_node_that_goes_on_asks_over_new_edges),
        cmocka_unit_test(test_a_node_that_goes_on_asks_during_a_resync),
        cmocka_unit_test(test_after_one_answer_a_node_waits_for_no_edge),
        cmocka_unit_test(test_a_node_that_goes_on_asks_again_when_an_edge_is_reopened),
        cmocka_unit_test(test_a_node_that_goes_on_does_not_wait_for_answers_for_ever),
        cmocka_unit_test(test_a_node_that_goes_on_asks_silent_neighbours),
        cmocka_unit_test(test_a_node_that_goes_on_in_doubt_asks),
        cmocka_unit_test(test_a_late_answer_does_not_answer_a_later_question),
        cmocka_unit_test(test_two_nodes_that_go_on_do_not_delay_each_other),
        cmocka_unit_test(test_a_node_that_follows_a_follower_waits_for_its_round),
        cmocka_unit_test(test_a_node_that_follows_does_not_tell_its_old_round),
        cmocka_unit_test(test_a_node_that_asks_and_pauses_again_delays_no_other),
        cmocka_unit_test(test_a_node_that_answered_as_idle_tells_when_it_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
