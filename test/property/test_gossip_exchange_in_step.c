// Sync: what neighbours learn of each other's rounds when an edge begins, when their views differ and when a
// view changes; and that a neighbour that lies about its round neither stalls nor hurries a node.
#include "exchange_alone.h"

struct clocks {
    size_t sent[4][4]; // by one node to another
};

static void count_clocks(struct net *net, size_t node, const struct gossip_exchange_event *event,
                         const struct gossip_exchange_actions *actions)
{
    struct clocks *clocks = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_exchange_action *action = &actions->list[i];
        if (action->kind == GOSSIP_EXCHANGE_SEND && action->message.kind == GOSSIP_CLOCK)
            clocks->sent[node][net_index(&action->peer)]++;
    }
}

static void counts(struct net *net, struct clocks *clocks)
{
    *clocks = (struct clocks){0};
    net->watch = count_clocks;
    net->watcher = clocks;
}

static void meets(struct net *net, size_t node, size_t partner, uint64_t round)
{
    net->node[node].in_round = true;
    net->node[node].round = round;
    ask(net, node, partner, round);
}

static struct net *ring_of(size_t nodes, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(nodes, D, TOPOLOGY_RING, seed, &options);

    net_link_all(net);
    for (uint64_t round = 1; round <= 12; round++)
        net_round_all(net, round);
    return net;
}

// -- an edge begins

// Two nodes whose models differ, and whose link has just come up; a block takes half a second. Node `ahead`
// is 16 rounds ahead. `asks`: the other node is about to go on, and asks.
static struct net *net_in_resync(size_t ahead, bool asks, uint64_t seed, struct clocks *clocks)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(2, 40000, TOPOLOGY_RING, seed, &options);
    struct gossip_edge_info info;

    net->bandwidth = 125000;
    for (size_t i = 0; i < 2; i++) {
        change_model(net, i);
        if (i == ahead || !asks)
            net_round(net, i, i == ahead ? 5016 : 5000);
        assert_false(net->node[i].in_round);
    }
    counts(net, clocks);
    net_link(net, 0, 1);
    net->node[1 - ahead].idle = net->node[1 - ahead].follows = asks;
    if (asks)
        net_round(net, 1 - ahead, 5000);
    net_settle(net, 700 * MS);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(net_edge(net, i, 1 - i, &info)->state, GOSSIP_EDGE_RESYNC);
    return net;
}

// Both ends tell their rounds when the edge begins, and the end that is ahead does so again when it hears the
// other. It takes no further step until the other end is beside it.
static void test_ends_of_a_new_edge_tell_their_rounds(void **state)
{
    (void)state;
    for (size_t ahead = 0; ahead < 2; ahead++) {
        struct clocks clocks;
        struct net *net = net_in_resync(ahead, false, net_seed(931), &clocks);
        assert_int_equal(clocks.sent[ahead][1 - ahead], 2);
        assert_int_equal(clocks.sent[1 - ahead][ahead], 1);
        net_round(net, ahead, 5017);
        net_settle(net, 100 * MS);
        assert_true(net->node[ahead].in_round);
        net_round(net, 1 - ahead, 5016);
        net_settle(net, 850 * MS); // its clock is behind its block
        assert_false(net->node[ahead].in_round);
        net_destroy(net);
    }
}

// The end that is behind says no more: each later round would be delayed, were it waited for again.
static void test_an_end_that_stays_behind_is_waited_for_once(void **state)
{
    (void)state;
    for (size_t ahead = 0; ahead < 2; ahead++) {
        struct clocks clocks;
        struct net *net = net_in_resync(ahead, false, net_seed(932), &clocks);
        for (uint64_t round = 5017; round < 5021; round++) {
            net_round(net, ahead, round);
            round_lasts(net, ahead, round == 5017 ? CEILING_MS - 1 : 0, round == 5017 ? CEILING_MS : 0);
            assert_int_equal(net->node[ahead].goes_on, round);
        }
        net_destroy(net);
    }
}

// The round of an end that asks is the one that it is about to leave.
static void test_an_end_that_asks_is_not_waited_for(void **state)
{
    struct clocks clocks;
    struct net *net = net_in_resync(0, true, net_seed(933), &clocks);

    (void)state;
    assert_false(net->node[1].in_round);
    assert_int_equal(net->node[1].goes_on, 5015);
    net_round(net, 0, 5017);
    assert_false(net->node[0].in_round);
    net_destroy(net);
}

// -- views that differ

// Node 1 waits for node 0, which meets node 2 in that round and says so: node 1 ends its round, and does not
// skip node 0 from then on.
static void test_a_neighbour_in_another_view_says_where_it_is(void **state)
{
    struct net *net = ring_of(3, net_seed(934));
    struct gossip_edge_info info;
    struct clocks clocks;

    (void)state;
    const uint64_t timeouts = net_edge(net, 1, 0, &info)->timeouts;
    counts(net, &clocks);
    meets(net, 0, 2, 20);
    meets(net, 1, 0, 20);
    assert_true(net->node[0].in_round && net->node[1].in_round);
    round_lasts(net, 1, 0, CEILING_MS / 20); // the deadline is a tenth at least
    assert_true(net->node[0].in_round);
    assert_int_equal(clocks.sent[0][1], 1);
    assert_in_range(clocks.sent[1][0], 1, 2); // again after twice the time
    assert_false(net_edge(net, 1, 0, &info)->silent);
    assert_int_equal(info.timeouts, timeouts);
    net_destroy(net);
}

// Both meet others in the round: each says so once, whatever comes, and again in another round.
static void test_neighbours_that_meet_others_do_not_answer_for_ever(void **state)
{
    struct net *net = ring_of(4, net_seed(935)); // its edges: 0-1, 1-2, 2-3, 3-0
    struct clocks clocks;

    (void)state;
    for (uint64_t round = 20; round < 23; round++) {
        counts(net, &clocks);
        net->node[2].paused = net->node[3].paused = true;
        meets(net, 0, 3, round);
        meets(net, 1, 2, round);
        for (size_t k = 0; k < 5; k++)
            hears(net, 0, 1, round, GOSSIP_CLOCK_TELLS);
        net_settle(net, MS);
        assert_int_equal(clocks.sent[0][1], 1);
        assert_int_equal(clocks.sent[1][0], 1);
        for (size_t i = 0; i < 2; i++) {
            struct gossip_exchange_event over = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
            assert_int_equal(net_step(net, i, &over), BASE_OK);
        }
    }
    net_destroy(net);
}

// Node 0 has said where it is, and node 1 goes on without it: node 0 says so again after a part of a
// deadline, and at once whenever node 1 is further ahead. Otherwise node 1 would soon skip node 0, and go on
// alone.
static void test_a_neighbour_that_goes_ahead_is_told_again(void **state)
{
    struct net *net = ring_of(3, net_seed(940));
    struct clocks clocks;

    (void)state;
    net->node[1].paused = net->node[2].paused = true;
    counts(net, &clocks);
    meets(net, 0, 2, 20);
    hears(net, 0, 1, 20, GOSSIP_CLOCK_TELLS);
    hears(net, 0, 1, 21, GOSSIP_CLOCK_TELLS);
    assert_int_equal(clocks.sent[0][1], 1);
    net_settle(net, CEILING_MS / 20 * MS);
    assert_true(net->node[0].in_round);
    assert_int_equal(clocks.sent[0][1], 2);
    for (uint64_t round = 22; round < 26; round++) {
        for (size_t k = 0; k < 3; k++)
            hears(net, 0, 1, round, GOSSIP_CLOCK_TELLS);
        net_settle(net, MS);
        assert_int_equal(clocks.sent[0][1], round - 19);
    }
    assert_true(net->node[0].in_round);
    net_destroy(net);
}

// The request of the lower id is under way when the other end says that it waits.
static void test_an_end_that_asks_waits_for_its_exchange(void **state)
{
    struct net *net = ring_of(3, net_seed(936));
    struct gossip_edge_info info;

    (void)state;
    const uint64_t exchanges = net_edge(net, 0, 1, &info)->exchanges;
    net->delay_ns = 5 * MS;
    meets(net, 1, 0, 20);
    meets(net, 0, 1, 20);
    hears(net, 0, 1, 20, GOSSIP_CLOCK_TELLS);
    assert_true(net->node[0].in_round);
    round_lasts(net, 0, 10, 11);
    assert_int_equal(net_edge(net, 0, 1, &info)->exchanges, exchanges + 1);
    net_destroy(net);
}

// An end that asked may be about to leave its round, so it does not reply to an answer.
static void test_an_answer_gets_no_reply(void **state)
{
    (void)state;
    for (uint64_t round = 4; round <= 12; round += 8) {
        struct net *net = ring_of(3, net_seed(937));
        struct clocks clocks;
        net->node[2].paused = true;
        counts(net, &clocks);
        meets(net, 0, 2, 12);
        hears(net, 0, 1, round, GOSSIP_CLOCK_ANSWERS);
        assert_int_equal(clocks.sent[0][1], 0);
        net_destroy(net);
    }
}

// -- a view changes

// Each edge is replaced: no round ends before the new one is there, as it would with one of the old edges.
static void test_no_round_ends_between_two_views(void **state)
{
    struct net *net = ring_of(4, net_seed(938));
    const size_t old[] = {1, 3};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        net->node[i].paused = i > 0;
    net->node[0].others = true;
    net_round(net, 0, topology_plan_partner(net->plan, 0, 20) == 1 ? 20 : 21);
    assert_true(net->node[0].in_round);
    for (size_t i = 0; i < 2; i++) {
        struct gossip_exchange_event ends = {
            .kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = net_id(old[i]), .unmet = true};
        assert_int_equal(net_step(net, 0, &ends), BASE_OK);
        assert_true(net->node[0].in_round);
        assert_true(gossip_exchange_deadline(net->node[0].exchange) <= net->now_ns);
    }
    net->node[2].paused = false;
    net_link(net, 0, 2);
    assert_true(net->node[0].in_round);
    round_lasts(net, 0, 0, 1);
    net_destroy(net);
}

// -- lies

static uint64_t any_lie(struct net *net, uint64_t near)
{
    const uint64_t lies[] = {near - 1 - base_rng_below(&net->rng, 10),
                             near,
                             near + 1 + base_rng_below(&net->rng, 10),
                             near + base_rng_below(&net->rng, 1000000),
                             base_rng_below(&net->rng, 3),
                             UINT64_C(1) << 40,
                             GOSSIP_CLOCK_IDLE};

    return lies[base_rng_below(&net->rng, sizeof lies / sizeof *lies)];
}

static void lies_to(struct net *net, size_t node, uint64_t near)
{
    for (uint64_t n = base_rng_below(&net->rng, 4); n > 0; n--)
        hears(net, node, 2, any_lie(net, near), (uint8_t)base_rng_below(&net->rng, 3));
}

// Node 2 exchanges nothing and tells any round. Nodes 0 and 1 are in step; now and then one of them pauses
// and goes on, and asks. Each round ends in two deadlines, and neither skips a round that the other has still
// to take; where the other has asked and not told its round since, at most `reach` of them.
static void test_one_that_lies_neither_stalls_nor_hurries(void **state)
{
    struct net *net = ring_of(3, net_seed(939));
    const uint64_t reach = gossip_exchange_reach(net->node[0].exchange);
    struct gossip_edge_info info;
    size_t asked = SIZE_MAX;

    (void)state;
    net->node[2].paused = true;
    for (uint64_t round = 20; round < 320; round++) {
        const uint64_t begun_ns = net->now_ns;
        const size_t asks = base_rng_below(&net->rng, 6);
        for (size_t i = 0; i < 2; i++) {
            net->node[i].others = true;
            net->node[i].idle = net->node[i].follows = i == asks;
            net->node[i].in_step = base_rng_below(&net->rng, 2) ? 2 : 0;
            net_round(net, i, round);
        }
        while (net->node[0].in_round || net->node[1].in_round) {
            for (size_t i = 0; i < 2; i++)
                lies_to(net, i, round);
            assert_true(net->now_ns - begun_ns <= (2 * CEILING_MS + 50) * MS);
            net_settle(net, 30 * MS);
        }
        for (size_t i = 0; i < 2; i++)
            assert_in_range(net->node[i].goes_on, round,
                            1 - i == asks || 1 - i == asked ? round + reach : round);
        asked = asks;
    }
    assert_in_range(net_edge(net, 0, 1, &info)->exchanges, 50, 312);
    assert_true(net_references_match(net));
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_of_a_new_edge_tell_their_rounds),
        cmocka_unit_test(test_an_end_that_stays_behind_is_waited_for_once),
        cmocka_unit_test(test_an_end_that_asks_is_not_waited_for),
        cmocka_unit_test(test_a_neighbour_in_another_view_says_where_it_is),
        cmocka_unit_test(test_neighbours_that_meet_others_do_not_answer_for_ever),
        cmocka_unit_test(test_a_neighbour_that_goes_ahead_is_told_again),
        cmocka_unit_test(test_an_end_that_asks_waits_for_its_exchange),
        cmocka_unit_test(test_an_answer_gets_no_reply),
        cmocka_unit_test(test_no_round_ends_between_two_views),
        cmocka_unit_test(test_one_that_lies_neither_stalls_nor_hurries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
