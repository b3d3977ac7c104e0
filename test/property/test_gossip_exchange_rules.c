// Single rules that no other test covers: second moments that reach the trainer, when a node answers, what is
// counted, and what HELLO compares.
#include "exchange_cases.h"
#include "exchange_saved.h"
#include "gossip/exchange/state.h"

#include <math.h>

enum { D = 60 };

static struct net *moments_net(uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);

    options.share_second_moment = 1;
    struct net *net = net_create(2, D, TOPOLOGY_RING, seed, &options);
    net_link_all(net);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < D; j++)
            net->node[i].v[j] = i ? 3 : 1;
    return net;
}

// Second moments that neighbours changed while the trainer computed are included when it goes on.
static void test_moments_reach_the_trainer(void **state)
{
    struct net *net = moments_net(net_seed(801));

    (void)state;
    net_round_all(net, 1);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < D; j++)
            net->node[i].v[j] = i ? 3 : 1;
    net_round(net, 0, 2);
    net_round(net, 1, 2); // their exchange is made after both boundaries
    net_settle(net, SECOND);
    for (size_t i = 0; i < 2; i++)
        net->node[i].idle = true;
    net_round_all(net, 3);
    for (size_t j = 0; j < D; j++) {
        assert_float_equal(net->node[0].v[j] + net->node[1].v[j], 4, 1e-4f);
        assert_float_equal(net->node[0].v[j], 2, 0.5f);
        assert_float_equal(gossip_exchange_second_moment(net->node[0].exchange)[j], net->node[0].v[j], 0);
    }
    net_destroy(net);
}

static void copy_moments(const struct net *net, float kept[D])
{
    memcpy(kept, gossip_exchange_second_moment(net->node[0].exchange), D * sizeof *kept);
}

// They are undone with the model, and are never published.
static void test_moments_that_are_not_finite_are_taken_back(void **state)
{
    struct net *net = moments_net(net_seed(809));
    struct net_node *node = &net->node[0];
    float kept[D], now[D];

    (void)state;
    net_round_all(net, 1);
    copy_moments(net, kept);
    for (size_t j = 0; j < D; j++)
        node->v[j] = NAN;
    node->unusable = true;
    net_round(net, 0, 2);
    assert_memory_equal(node->v, kept, sizeof kept);
    copy_moments(net, now);
    assert_memory_equal(now, kept, sizeof kept);
    net_settle(net, SECOND);
    net_destroy(net);
}

// What neighbours changed while the trainer computed was of the model that a fetched one replaces.
static void test_moments_of_a_replaced_model_change_no_fetched_ones(void **state)
{
    struct net *net = moments_net(net_seed(810));
    struct net_node *node = &net->node[0];
    const float fetched = 0.5f;

    (void)state;
    net_round(net, 0, 1);
    net_round(net, 1, 1);
    net_settle(net, SECOND);
    assert_true(node->exchange->second_moved);
    for (size_t j = 0; j < D; j++)
        node->v[j] = fetched;
    gossip_exchange_adopt(node->exchange, node->x, node->v, 9);
    node->idle = true;
    net_round(net, 0, 9);
    net_settle(net, SECOND);
    for (size_t j = 0; j < D; j++)
        assert_float_equal(node->v[j], fetched, 0);
    net_destroy(net);
}

struct answers {
    size_t count[3]; // by each node
    float weight;    // of the latest
};

static void count_answers(struct net *net, size_t node, const struct gossip_exchange_event *event,
                          const struct gossip_exchange_actions *actions)
{
    struct answers *answers = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND || message->kind != GOSSIP_XACK)
            continue;
        answers->count[node]++;
        answers->weight = message->as.exchange.weight;
    }
}

// While its own exchange is out, a node answers others at half the weight: updates that are under way
// together do not move a model by more than their mean.
static void test_a_node_that_asks_answers_at_less_weight(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct gossip_exchange_options options = defaults(k & 2);
        struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(802), &options);
        struct answers answers = {.weight = 0};
        size_t silent = k & 1 ? 0 : 2, other = 2 - silent;
        net_link_all(net);
        net->watch = count_answers;
        net->watcher = &answers;
        net->node[silent].paused = true;
        ask(net, 1, silent, 1);
        ask(net, other, 1, 1);
        net_settle(net, SECOND / 100); // no deadline yet
        assert_int_equal(answers.count[1], 1);
        assert_true(answers.weight > 0.2f && answers.weight < 0.34f); // 1/2 is out
        net->node[silent].paused = false;
        if (k & 2)
            ask(net, silent, 1, 1);
        net_settle(net, SECOND);
        assert_int_equal(net_count(net, COUNTER(exchanges)), 4); // two, counted at both ends
        assert_int_equal(net_count(net, COUNTER(busy)) + net_count(net, COUNTER(timeouts)), 0);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// Node 1 withdraws its request to node 0 in favour of node 0's, but cannot answer that one. Its next request
// has the same sequence number, and node 0's answer to the withdrawn one must not refuse it.
static void test_a_withdrawn_request_refuses_no_later_one(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct gossip_exchange_options options = defaults(false);
        struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(807), &options);
        struct gossip_edge_info info;
        net_link_all(net);
        net->node[0].paused = true;
        ask(net, 1, 0, 1);
        net_settle(net, 3 * SECOND); // its edge is in doubt
        assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_IN_DOUBT);
        net->node[2].paused = true;
        ask(net, 1, 2, 2);
        ask(net, 0, 1, 1);
        begin_round(net, 0, NULL, 2); // it asks no more
        meets_again(net, 0, 1);
        net_settle(net, SECOND / 100);
        if (k == 1) { // both ends compare states again, on the same link
            meets_again(net, 1, 0);
            meets_again(net, 0, 1);
        }
        net->node[2].paused = false;
        net_settle(net, SECOND / 100);
        ask(net, 1, 0, 3);
        net_settle(net, SECOND / 100);
        net->node[0].paused = false;
        net_settle(net, SECOND);
        assert_int_equal(net_count(net, COUNTER(mismatches)), 0);
        assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_LIVE);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

// The same if the node has no model to answer with.
static void test_a_request_withdrawn_without_a_model_refuses_no_later_one(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(808), &options);

    (void)state;
    net_link_all(net);
    cross(net, 1);
    net->node[1].x[0] = NAN;
    begin_round(net, 1, NULL, 2);
    net_settle(net, SECOND / 100);
    net->node[1].x[0] = 1;
    check_crossed(net, 1);
    net_destroy(net);
}

// A RESYNC belongs to no round: its blocks are answered while an exchange is out.
static void test_blocks_are_answered_while_an_exchange_is_out(void **state)
{
    struct gossip_exchange_options options = defaults(true);
    struct net *net = net_create(3, D, TOPOLOGY_RING, net_seed(806), &options);
    struct gossip_edge_info info;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        net_round(net, i, 5000); // long after the start: edges RESYNC
    net_link(net, 1, 2);
    net_settle(net, SECOND);
    net->node[2].paused = true;
    ask(net, 1, 2, 5001);
    net_link(net, 0, 1);
    net_settle(net, SECOND / 100);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(net_count(net, COUNTER(busy)) + net_count(net, COUNTER(timeouts)), 0);
    assert_int_equal(net_edge(net, 1, 2, &info)->exchanges, 0); // it is still out
    net->node[2].paused = false;
    ask(net, 2, 1, 5001);
    net_settle(net, SECOND);
    assert_int_equal(net_edge(net, 1, 2, &info)->exchanges, 1);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// The byte counts in the totals are those that crossed, second moments included.
static void test_all_bytes_are_counted(void **state)
{
    struct net *net = moments_net(net_seed(803));
    uint64_t counted = 0, sent = 0;

    (void)state;
    for (uint64_t round = 1; round <= 20; round++) {
        change_model(net, 0);
        change_model(net, 1);
        net_round(net, 0, round);
        net_settle(net, SECOND); // only one node asks, so no request is withdrawn
        net_round(net, 1, round);
        net_settle(net, SECOND);
    }
    for (size_t i = 0; i < 2; i++) {
        struct gossip_exchange_totals totals;
        gossip_exchange_totals(net->node[i].exchange, &totals);
        counted += totals.delta_bytes_out;
        sent += net->node[i].payload_out;
    }
    assert_int_equal(net_count(net, COUNTER(busy)) + net_count(net, COUNTER(replays)), 0);
    assert_true(sent > 20 * D); // one byte for each second moment
    assert_int_equal(counted, sent);
    net_destroy(net);
}

// Both ends were in the middle of something when the link broke: this one had answered, and had then asked
// for the next exchange. The other end has finished both. So the answer is repeated and the request
// withdrawn, at once and not after a deadline.
static void test_a_request_behind_a_lost_answer_is_discarded(void **state)
{
    struct net *net = linked_net(2, D, false, net_seed(804));
    struct gossip_edge_info info;

    (void)state;
    net->node[1].paused = true;
    net->node[0].paused = false;
    net_round(net, 1, 1); // its request is under way
    net_settle(net, SECOND / 100);
    net_round(net, 0, 2); // it was answered, and another request follows
    net_settle(net, SECOND / 100);
    assert_int_equal(net_edge(net, 0, 1, &info)->sequence, 1);
    net_unlink(net, 0, 1);
    net->node[1].paused = false;
    net_link(net, 0, 1);
    net_settle(net, SECOND / 100);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(info.discards, 1);
    assert_true(info.replays >= 1);
    assert_int_equal(net_edge(net, 1, 0, &info)->sequence, 1 + (uint64_t)(info.sequence > 1));
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Ends whose corrections are not opposite both drop them.
static void test_ends_compare_their_corrections(void **state)
{
    struct net *net = linked_net(2, D, false, net_seed(805));
    struct gossip_exchange *fresh;
    struct gossip_edge_info info;
    struct base_reason why;
    struct saved saved = {0};

    (void)state;
    for (uint64_t round = 1; round <= 5; round++) {
        change_model(net, 0);
        net_round_all(net, round);
    }
    saved_take(&saved, net, 0);
    net_unlink(net, 0, 1);
    ((float *)(uintptr_t)saved.record[0].correction)[D / 2] += 1;
    struct gossip_exchange_options options = net->node[0].options;
    options.model = saved.model;
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    assert_int_equal(gossip_exchange_import(fresh, &saved.record[0]), BASE_OK);
    net_node_restart(net, 0, fresh);
    saved_free(&saved);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(net_edge(net, i, 1 - i, &info)->state, GOSSIP_EDGE_LIVE);
        assert_null(info.correction);
    }
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments_reach_the_trainer),
        cmocka_unit_test(test_moments_that_are_not_finite_are_taken_back),
        cmocka_unit_test(test_moments_of_a_replaced_model_change_no_fetched_ones),
        cmocka_unit_test(test_a_node_that_asks_answers_at_less_weight),
        cmocka_unit_test(test_a_withdrawn_request_refuses_no_later_one),
        cmocka_unit_test(test_a_request_withdrawn_without_a_model_refuses_no_later_one),
        cmocka_unit_test(test_blocks_are_answered_while_an_exchange_is_out),
        cmocka_unit_test(test_all_bytes_are_counted),
        cmocka_unit_test(test_a_request_behind_a_lost_answer_is_discarded),
        cmocka_unit_test(test_ends_compare_their_corrections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
