// Async: a node goes on while its exchange is under way, but only for a few rounds without any exchange while
// others train.
#include "exchange_cases.h"

#include <stdio.h>
#include <stdlib.h>

enum { D = 200, CEILING_MS = 1000, ROUND_MS = 2, MAX_DELAY = 4 };

#define MS 1000000ull

static struct net *async_net(size_t nodes, enum topology_kind kind, uint64_t max_delay, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);

    options.max_delay = max_delay;
    struct net *net = net_create(nodes, D, kind, seed, &options);
    for (size_t i = 0; i < nodes; i++)
        net->node[i].others = true;
    net_link_all(net);
    return net;
}

static uint64_t exchanges_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.exchanges;
}

struct course {
    uint64_t exchanges[8], since[8]; // at the latest look, and the rounds that were done by then
    uint64_t longest;                // rounds of a node without an exchange
};

static void look(const struct net *net, struct course *course)
{
    for (size_t i = 0; i < net->nodes; i++) {
        const uint64_t now = exchanges_of(net, i), done = net->node[i].rounds_done;
        if (now != course->exchanges[i])
            course->since[i] = done;
        course->exchanges[i] = now;
        if (done - course->since[i] > course->longest)
            course->longest = done - course->since[i];
    }
}

// Every node reaches a boundary ROUND_MS after it left the one before.
static struct course train(struct net *net, unsigned ms)
{
    uint64_t due_ns[8] = {0};
    struct course course = {.longest = 0};

    for (unsigned k = 0; k < 4 * ms; k++) {
        for (size_t i = 0; i < net->nodes; i++) {
            if (net->node[i].in_round)
                due_ns[i] = net->now_ns + ROUND_MS * MS;
            if (net->node[i].in_round || net->now_ns < due_ns[i])
                continue;
            change_model(net, i);
            net_round(net, i, net->node[i].round + 1);
            due_ns[i] = net->now_ns + ROUND_MS * MS;
        }
        net_settle(net, MS / 8);
        net->now_ns += MS / 4;
        look(net, &course);
    }
    return course;
}

// An exchange takes ten rounds and more on the wire.
static void test_on_a_slow_wire_rounds_between_exchanges_are_bounded(void **state)
{
    (void)state;
    for (uint64_t max_delay = 1; max_delay <= 7; max_delay += 3) {
        struct net *net = async_net(6, TOPOLOGY_RING, max_delay, net_seed(961));
        net->delay_ns = 5 * ROUND_MS * MS;
        struct course course = train(net, 2000);
        assert_in_range(course.longest, 1, max_delay);
        for (size_t i = 0; i < net->nodes; i++)
            assert_true(net->node[i].rounds_done > 2000 / (12 * ROUND_MS)); // no round lasted to its ceiling
        net_destroy(net);
    }
}

// An edge begins again: its blocks occupy both lines for longer than many rounds.
static void test_an_edge_that_begins_again_leaves_no_node_alone(void **state)
{
    struct net *net = async_net(6, TOPOLOGY_RING, MAX_DELAY, net_seed(962));
    struct gossip_exchange_event forget = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(1)};

    (void)state;
    train(net, 1000);
    assert_int_equal(net_step(net, 0, &forget), BASE_OK);
    net->bandwidth = 4 * D * 1000 / 100; // a model in 100 ms
    net_unlink(net, 0, 1);
    net_link(net, 0, 1);
    struct course course = train(net, 1000);
    assert_in_range(course.longest, 1, MAX_DELAY);
    assert_true(net_count(net, COUNTER(resyncs)) > 0);
    net_destroy(net);
}

// An edge that is not live: the rounds in which its ends would meet have an exchange with another neighbour.
static void test_a_round_whose_partner_cannot_be_met_meets_another_neighbour(void **state)
{
    struct net *net = async_net(6, TOPOLOGY_RING, MAX_DELAY, net_seed(968));
    uint64_t exchanges[2], rounds[2];

    (void)state;
    train(net, 100);
    net_unlink(net, 0, 1);
    for (size_t i = 0; i < 2; i++) {
        exchanges[i] = exchanges_of(net, i);
        rounds[i] = net->node[i].rounds_done;
    }
    train(net, 400);
    for (size_t i = 0; i < 2; i++) {
        rounds[i] = net->node[i].rounds_done - rounds[i];
        assert_true(rounds[i] > 100);
        assert_in_range(exchanges_of(net, i) - exchanges[i], rounds[i] - rounds[i] / 10, 2 * rounds[i]);
    }
    net_destroy(net);
}

static uint64_t round_lasts_ms(struct net *net, size_t node)
{
    const uint64_t begun_ns = net->now_ns;

    while (net->node[node].in_round) {
        assert_true(net->now_ns - begun_ns <= 10 * SECOND);
        net_settle(net, MS / 4);
        net->now_ns += MS / 4;
    }
    return (net->now_ns - begun_ns) / MS;
}

// No neighbour answers: a few rounds end at once, then each lasts as long as the ceiling. If no other node
// trains, and when idle, all end at once.
static void test_a_node_without_a_partner_waits_up_to_the_ceiling(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct net *net = async_net(2, TOPOLOGY_RING, MAX_DELAY, net_seed(963));
        net_unlink(net, 0, 1);
        net->node[0].others = k != 1;
        net->node[0].idle = k == 2;
        for (uint64_t round = 1; round <= MAX_DELAY + 3; round++) {
            const bool waits = k == 0 && round > MAX_DELAY;
            net_round(net, 0, round);
            assert_in_range(round_lasts_ms(net, 0), waits ? CEILING_MS - 1 : 0, waits ? CEILING_MS + 1 : 0);
        }
        net_destroy(net);
    }
}

// The partner of the round is absent: another neighbour is asked instead.
static void test_another_neighbour_is_asked(void **state)
{
    struct net *net = async_net(3, TOPOLOGY_RING, 0, net_seed(964));

    (void)state;
    net_unlink(net, 0, 1);
    for (uint64_t round = 1; round <= 12; round++) {
        const uint64_t before = exchanges_of(net, 0);
        net_round(net, 0, round);
        assert_in_range(round_lasts_ms(net, 0), 0, 5);
        net_settle(net, 5 * MS);
        assert_int_equal(exchanges_of(net, 0), before + 1);
    }
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A node that does every second round of the others has the same partner in all of its rounds.
static void test_a_neighbour_that_no_round_has_is_met_nevertheless(void **state)
{
    (void)state;
    for (uint64_t max_delay = 0; max_delay <= 4; max_delay += 2) {
        struct net *net = async_net(4, TOPOLOGY_RING, max_delay, net_seed(969));
        const size_t partner = topology_plan_partner(net->plan, 0, 1), other = 4 - partner;
        const uint64_t rounds = 40 * (max_delay + 1);
        for (uint64_t k = 0; k < rounds; k++) {
            assert_int_equal(topology_plan_partner(net->plan, 0, 1 + 2 * k), partner);
            change_model(net, 0);
            net_round(net, 0, 1 + 2 * k);
            assert_in_range(round_lasts_ms(net, 0), 0, CEILING_MS / 2);
        }
        struct gossip_edge_info edge;
        const uint64_t often = net_edge(net, 0, partner, &edge)->exchanges;
        const uint64_t seldom = net_edge(net, 0, other, &edge)->exchanges;
        assert_in_range(seldom, 8, 20); // once in 2 (max_delay + 1) rounds at most
        assert_int_equal(often + seldom, rounds);
        net_destroy(net);
    }
}

struct mute {
    struct gossip_message question;
    bool asked;
};

static void note_question(struct net *net, size_t node, const struct gossip_exchange_event *event,
                          const struct gossip_exchange_actions *actions)
{
    struct mute *mute = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count && node == 0; i++) {
        const struct gossip_exchange_action *action = &actions->list[i];
        if (action->kind != GOSSIP_EXCHANGE_SEND || action->message.kind != GOSSIP_HELLO ||
            net_index(&action->peer) != 1 || action->message.as.hello.answer - 1u >= 127)
            continue;
        mute->question = action->message;
        mute->asked = true;
    }
}

// Answers the question of node 0, with the same sequence number.
static void answer_question(struct net *net, struct mute *mute)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &mute->question};

    if (!mute->asked)
        return;
    mute->asked = false;
    mute->question.as.hello.answer |= 128;
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
}

// Of that many rounds of node 0, ROUND_MS each, the number that lasted until a neighbour was given up.
static unsigned rounds_held_up(struct net *net, struct mute *mute, unsigned rounds)
{
    unsigned held = 0;

    for (unsigned k = 0; k < rounds; k++) {
        const uint64_t begun_ns = net->now_ns;
        net_round(net, 0, net->node[0].round + 1);
        while (net->node[0].in_round || net->now_ns - begun_ns < ROUND_MS * MS) {
            net_settle(net, MS / 4);
            net->now_ns += MS / 4;
            answer_question(net, mute);
        }
        held += net->now_ns - begun_ns > CEILING_MS / 20 * MS;
    }
    return held;
}

// Node 1 compares its state and never exchanges. A node that has only this neighbour, or another one beside
// it, waits for it a few times, then no longer, except for an occasional attempt; when node 1 exchanges
// again, it counts again.
static void test_a_neighbour_that_never_exchanges_delays_no_node(void **state)
{
    (void)state;
    for (size_t nodes = 2; nodes <= 3; nodes++) {
        struct mute mute = {.asked = false};
        struct net *net = async_net(nodes, TOPOLOGY_RING, MAX_DELAY, net_seed(966));
        train(net, 20 * ROUND_MS); // an edge that never met would begin again
        net->watch = note_question;
        net->watcher = &mute;
        net->node[1].paused = true;
        const unsigned first = rounds_held_up(net, &mute, 100), later = rounds_held_up(net, &mute, 1000);
        printf("%zu nodes: %u of 100 rounds held up, then %u of 1,000\n", nodes, first, later);
        assert_in_range(first, nodes == 2, 5);
        assert_in_range(later, 0, 3);
        net->node[1].paused = false;
        net->watch = NULL;
        const uint64_t before = exchanges_of(net, 1);
        train(net, 200);
        assert_true(exchanges_of(net, 1) > before);
        net->node[1].paused = true;
        assert_true(rounds_held_up(net, &mute, 20) > 0 || nodes > 2);
        net_destroy(net);
    }
}

// Three nodes on a ring; the edge from node 0 to node 1 is mute.
static struct net *net_beside_a_mute(struct mute *mute, uint64_t max_delay, uint64_t seed)
{
    struct net *net = async_net(3, TOPOLOGY_RING, max_delay, seed);

    train(net, 20 * ROUND_MS);
    net->watch = note_question;
    net->watcher = mute;
    net->node[1].paused = true;
    rounds_held_up(net, mute, 100);
    return net;
}

// The link stays: messages sent to a node while it was mute are never read.
static void lose_messages_to(struct net *net, size_t node)
{
    struct net_message **at = &net->first;

    while (*at) {
        struct net_message *message = *at;
        if (message->to != node) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        free(message->bytes);
        free(message);
    }
    net->last = at;
}

// A neighbour that was mute is asked again even if every round needs an exchange and node 2 always has time
// for one. If node 0 were mute to node 1 as well, neither would ask again.
static void test_a_neighbour_that_was_mute_is_asked_again(void **state)
{
    (void)state;
    for (uint64_t max_delay = 0; max_delay <= MAX_DELAY; max_delay += MAX_DELAY) {
        struct mute mute = {.asked = false};
        struct net *net = net_beside_a_mute(&mute, max_delay, net_seed(967));
        const uint64_t before = exchanges_of(net, 1);
        lose_messages_to(net, 1);
        net->node[1].paused = false;
        net->watch = NULL;
        net->now_ns += 65 * SECOND; // the longest pause between two attempts
        rounds_held_up(net, &mute, 30);
        assert_true(exchanges_of(net, 1) > before);
        net_destroy(net);
    }
}

// Node 0 was away. It never catches up with node 1, which is mute, and yet becomes present: otherwise what it
// learns would never reach node 2.
static void test_a_mute_neighbour_does_not_keep_a_node_away(void **state)
{
    struct gossip_exchange_totals totals;
    struct mute mute = {.asked = false};
    struct net *net = net_beside_a_mute(&mute, MAX_DELAY, net_seed(968));

    (void)state;
    net->node[0].standing = GOSSIP_AWAY;
    rounds_held_up(net, &mute, 200);
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_int_equal(totals.standing, GOSSIP_PRESENT);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_a_slow_wire_rounds_between_exchanges_are_bounded),
        cmocka_unit_test(test_an_edge_that_begins_again_leaves_no_node_alone),
        cmocka_unit_test(test_a_round_whose_partner_cannot_be_met_meets_another_neighbour),
        cmocka_unit_test(test_a_node_without_a_partner_waits_up_to_the_ceiling),
        cmocka_unit_test(test_another_neighbour_is_asked),
        cmocka_unit_test(test_a_neighbour_that_no_round_has_is_met_nevertheless),
        cmocka_unit_test(test_a_neighbour_that_never_exchanges_delays_no_node),
        cmocka_unit_test(test_a_neighbour_that_was_mute_is_asked_again),
        cmocka_unit_test(test_a_mute_neighbour_does_not_keep_a_node_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
