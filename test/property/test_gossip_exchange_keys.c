// Packets without indices (filter same-keys): when they are sent, that they give the same models as full
// packets, and what follows if the other end does not have the indices.
#include "exchange_cases.h"

enum { D = 600, HEADER_BYTES = 6, SAME_KEYS = 4 };

struct seen {
    size_t bytes[2];               // of their deltas, by sender
    size_t packets, short_packets; // of sparse exchanges, replays included
};

static void watch(struct net *net, size_t node, const struct gossip_exchange_event *event,
                  const struct gossip_exchange_actions *actions)
{
    struct seen *seen = net->watcher;

    (void)event;
    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_message *message = &actions->list[i].message;
        if (actions->list[i].kind != GOSSIP_EXCHANGE_SEND ||
            (message->kind != GOSSIP_XCHG && message->kind != GOSSIP_XACK) ||
            message->as.exchange.form != GOSSIP_DELTA_SPARSE)
            continue;
        assert_true(message->as.exchange.delta_bytes > HEADER_BYTES);
        seen->packets++;
        seen->bytes[node] += message->as.exchange.delta_bytes;
        seen->short_packets += message->as.exchange.delta[0] >> 4 == SAME_KEYS;
    }
    assert_true(net_edge_matches(net, node, !node));
}

static struct net *net_that(bool sync, const char *filters, struct seen *seen)
{
    struct gossip_exchange_options options = defaults(sync);
    struct base_reason why;

    options.ratio = 0.2f;
    assert_int_equal(compress_filters_parse(filters, &options.filters, &why), BASE_OK);
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(1), &options);
    *seen = (struct seen){0};
    net->watch = watch;
    net->watcher = seen;
    net_link_all(net);
    return net;
}

static struct net *net_of(const char *filters, struct seen *seen)
{
    return net_that(true, filters, seen);
}

static void rounds(struct net *net, uint64_t first, uint64_t last)
{
    for (uint64_t round = first; round <= last; round++) {
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < D; j++)
                net->node[i].x[j] += (float)base_rng_normal(&net->rng);
        net_round_all(net, round);
    }
}

static void test_a_list_of_indices_is_reused_as_often_as_configured(void **state)
{
    struct gossip_exchange_totals totals;
    struct seen seen;
    struct net *net = net_of("same-keys:4", &seen);

    (void)state;
    rounds(net, 1, 1); // the first exchange of an edge is followed by a HELLO, which drops the list
    seen.packets = seen.short_packets = 0;
    rounds(net, 2, 31);
    assert_int_equal(seen.packets, 60);
    assert_int_equal(seen.short_packets, 48); // four of five
    gossip_exchange_totals(net->node[0].exchange, &totals);
    assert_int_equal(totals.delta_bytes_out, seen.bytes[0]);
    gossip_exchange_totals(net->node[1].exchange, &totals);
    assert_int_equal(totals.delta_bytes_out, seen.bytes[1]);
    assert_true(net_references_match(net));
    net_unlink(net, 0, 1);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    seen = (struct seen){0};
    rounds(net, 32, 32); // over a new link it is not known what the other end remembers
    assert_int_equal(seen.packets, 2);
    assert_int_equal(seen.short_packets, 0);
    net_destroy(net);
}

// `node` restarts from a checkpoint of this moment, and the other end does not notice.
static void forget_in_silence(struct net *net, size_t node)
{
    struct net_node *at = &net->node[node];
    struct gossip_exchange_options options = at->options;
    struct gossip_exchange_actions actions;
    struct gossip_edge_record record;
    struct gossip_exchange *fresh;
    struct base_reason why;

    options.model = gossip_exchange_model(at->exchange);
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    assert_int_equal(gossip_exchange_edges(at->exchange), 1);
    assert_int_equal(gossip_exchange_export(at->exchange, 0, &record), BASE_OK);
    assert_int_equal(gossip_exchange_import(fresh, &record), BASE_OK);
    net_node_restart(net, node, fresh);
    struct gossip_exchange_event up = {
        .kind = GOSSIP_EXCHANGE_LINK_UP, .now_ns = net->now_ns, .peer = net_id(!node)};
    assert_int_equal(gossip_exchange_step(fresh, &up, &actions), BASE_OK);
    assert_int_equal(actions.count, 1);
    // Its question, as the other end would answer it.
    struct gossip_message hello = actions.list[0].message;
    hello.as.hello.answer |= 128;
    struct gossip_exchange_event answer = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .now_ns = net->now_ns, .peer = net_id(!node), .message = &hello};
    assert_int_equal(gossip_exchange_step(fresh, &answer, &actions), BASE_OK);
    assert_int_equal(actions.count, 0);
}

static void check_recovery(struct net *net, uint64_t sequence)
{
    struct gossip_edge_info info;

    for (size_t i = 0; i < 2; i++) {
        net_edge(net, i, !i, &info);
        assert_int_equal(info.state, GOSSIP_EDGE_LIVE);
        assert_int_equal(info.sequence, sequence);
    }
    assert_true(net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_int_equal(net_count(net, COUNTER(mismatches)), 0);
}

// The lower id asks. Its request refers to indices that the other end has forgotten: the answer is BUSY, and
// the request is repeated in the same round, with indices.
static void test_a_request_over_forgotten_indices_is_repeated(void **state)
{
    struct seen seen;
    struct net *net = net_of("same-keys:9", &seen);

    (void)state;
    rounds(net, 1, 4);
    forget_in_silence(net, 1);
    seen = (struct seen){0};
    rounds(net, 5, 5);
    assert_int_equal(seen.packets, 3);
    assert_int_equal(seen.short_packets, 1);
    check_recovery(net, 5);
    rounds(net, 6, 12);
    check_recovery(net, 12);
    assert_true(seen.short_packets > 10);
    net_destroy(net);
}

// The same when the other end has just withdrawn its own request.
static void test_a_request_withdrawn_for_it_refuses_no_later_one(void **state)
{
    struct seen seen;
    struct net *net = net_that(false, "same-keys:9", &seen);

    (void)state;
    rounds(net, 1, 4);
    forget_in_silence(net, 1);
    seen = (struct seen){0};
    cross(net, 5);
    begin_round(net, 1, NULL, 6);
    assert_int_equal(seen.short_packets, 1);
    check_crossed(net, 5);
    net_destroy(net);
}

// An answer over them is asked for once more and replayed with indices: the other end has already applied it.
static void test_an_answer_over_forgotten_indices_is_replayed(void **state)
{
    struct seen seen;
    struct net *net = net_of("same-keys:9", &seen);

    (void)state;
    rounds(net, 1, 4);
    forget_in_silence(net, 0);
    seen = (struct seen){0};
    rounds(net, 5, 5);
    assert_int_equal(seen.packets, 3);
    assert_int_equal(seen.short_packets, 1);
    assert_int_equal(net_count(net, COUNTER(replays)), 1);
    check_recovery(net, 5);
    rounds(net, 6, 12);
    check_recovery(net, 12);
    net_destroy(net);
}

// Only one end has the filter: its packets go without indices, those of the other end never.
static void test_only_one_end_may_use_the_filter(void **state)
{
    struct seen seen;
    struct net *net = net_of("", &seen);
    struct gossip_exchange_options options = net->node[1].options;
    struct gossip_exchange *fresh;
    struct base_reason why;

    (void)state;
    net_unlink(net, 0, 1);
    assert_int_equal(compress_filters_parse("same-keys:4", &options.filters, &why), BASE_OK);
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    net_node_restart(net, 1, fresh);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    rounds(net, 1, 1);
    seen = (struct seen){0};
    rounds(net, 2, 11);
    assert_int_equal(seen.packets, 20);
    assert_int_equal(seen.short_packets, 8);
    check_recovery(net, 11);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_indices_is_reused_as_often_as_configured),
        cmocka_unit_test(test_a_request_over_forgotten_indices_is_repeated),
        cmocka_unit_test(test_a_request_withdrawn_for_it_refuses_no_later_one),
        cmocka_unit_test(test_an_answer_over_forgotten_indices_is_replayed),
        cmocka_unit_test(test_only_one_end_may_use_the_filter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
