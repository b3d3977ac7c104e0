// What an edge costs: vectors from its first exchange on, none before; and how many edges without a link keep
// theirs.
#include "exchange_cases.h"
#include "test/support/cpu_kernels.h"
#include "test/support/exchange_looks.h"

enum { D = 500, VECTOR = D * sizeof(float) };

static uint64_t memory_of(const struct net *net, size_t node)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(net->node[node].exchange, &totals);
    return totals.memory;
}

static bool has_vectors(const struct net *net, size_t a, size_t b)
{
    struct gossip_edge_info info;

    assert_non_null(net_edge(net, a, b, &info));
    assert_true(!info.reference == !info.correction);
    return info.reference != NULL;
}

// Node 0 asks its partner, which never answers.
static void ask_in_vain(struct net *net, size_t partner)
{
    net->node[partner].paused = true;
    begin_round(net, 0, &partner, 1);
}

static void test_a_member_that_makes_no_exchange_costs_no_vector(void **state)
{
    enum { OTHERS = 12 };
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(1 + OTHERS, D, TOPOLOGY_RING, net_seed(1), &options);
    struct gossip_edge_info info;
    const uint64_t before = memory_of(net, 0);

    (void)state;
    for (size_t i = 1; i <= OTHERS; i++)
        net_link(net, 0, i);
    net_settle(net, SECOND);
    for (size_t i = 1; i <= OTHERS; i++) {
        assert_int_equal(net_edge(net, 0, i, &info)->state, GOSSIP_EDGE_LIVE);
        assert_false(has_vectors(net, 0, i));
    }
    assert_int_equal(memory_of(net, 0), before);
    ask_in_vain(net, 1);
    assert_true(memory_of(net, 0) >= before + VECTOR && memory_of(net, 0) < before + 2 * VECTOR);
    for (size_t i = 1; i <= OTHERS; i++)
        net_unlink(net, 0, i);
    assert_true(memory_of(net, 0) < before + VECTOR / 2); // the request stays, for a late answer
    net_destroy(net);
}

static void test_an_edge_has_vectors_from_its_first_exchange_on(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(2));
    const uint64_t before = memory_of(net, 0);

    (void)state;
    net_settle(net, SECOND);
    assert_false(has_vectors(net, 0, 1) || has_vectors(net, 1, 0));
    net_round_all(net, 1);
    assert_true(has_vectors(net, 0, 1) && has_vectors(net, 1, 0));
    assert_true(net_references_match(net));
    assert_true(memory_of(net, 0) >= before + 2 * VECTOR && memory_of(net, 0) < before + 3 * VECTOR);
    net_destroy(net);
}

// A HELLO that orders a RESYNC costs its sender nothing. Without a block it costs this end nothing either.
static void test_an_ordered_resync_frees_the_vectors_until_its_first_block(void **state)
{
    struct net *net = linked_net(2, D, true, net_seed(3));
    struct gossip_message order = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &order};

    (void)state;
    net_round_all(net, 1);
    assert_true(has_vectors(net, 0, 1));
    order.as.hello = (struct gossip_hello){.epoch = 1};
    event.now_ns = net->now_ns;
    net->node[1].paused = true;
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    assert_false(has_vectors(net, 0, 1));
    net_unlink(net, 0, 1);
    net->node[1].paused = false;
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 2);
    for (uint64_t round = 2; round <= 4; round++)
        net_round_all(net, round);
    assert_true(has_vectors(net, 0, 1) && net_references_match(net));
    net_destroy(net);
}

static size_t vectors_left = SIZE_MAX;

static void *may_fail(size_t bytes)
{
    return vectors_left-- > 0 ? cpu_kernels()->alloc(bytes) : NULL;
}

// The request of node 0 arrives where there is memory for `most` more vectors. Node 1 has reached its round.
static void answer_without_memory(struct net *net, size_t most)
{
    struct gossip_message message;
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .now_ns = net->now_ns, .peer = net_id(0), .message = &message};
    const struct net_message *request = net->first;
    const uint64_t before = edges_hash(net->node[1].exchange, D);

    assert_true(request && request->to == 1);
    assert_int_equal(gossip_message_decode(request->bytes, request->count, &message), BASE_OK);
    vectors_left = most;
    assert_int_equal(net_step(net, 1, &event), BASE_ENOMEM);
    vectors_left = SIZE_MAX;
    assert_true(edges_hash(net->node[1].exchange, D) == before && !has_vectors(net, 1, 0));
}

// The first exchange needs vectors. Without memory for them it is as if its message had been lost.
static void test_without_memory_the_first_exchange_changes_nothing(void **state)
{
    struct kernels kernels = *cpu_kernels();
    struct gossip_exchange_options options = defaults(true);
    struct gossip_exchange *fresh;
    struct base_reason why;
    const size_t partner = 1;

    (void)state;
    if (getenv("P2PML_FAR")) // the twin's memory does not end
        skip();
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(4), &options);
    kernels.alloc = may_fail;
    net->node[1].options.kernels = &kernels;
    assert_int_equal(gossip_exchange_create(&net->node[1].options, &fresh, &why), BASE_OK);
    net_node_restart(net, 1, fresh);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    begin_round(net, 1, NULL, 1);
    begin_round(net, 0, &partner, 1);
    answer_without_memory(net, 0); // of the seed model, for an answer
    answer_without_memory(net, 1); // of the correction
    net_settle(net, 10 * SECOND);
    assert_true(has_vectors(net, 1, 0) && net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    net_destroy(net);
}

static void test_edges_without_a_link_have_a_bound(void **state)
{
    enum { OTHERS = GOSSIP_EDGES_DOWN + 3, FAITHFUL = 1 };
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(1 + OTHERS, D, TOPOLOGY_RING, net_seed(5), &options);
    struct gossip_id peer;
    uint64_t round = 0;
    size_t forgotten = 0;

    (void)state;
    for (size_t i = 1; i <= OTHERS; i++) {
        net_link(net, 0, i);
        net_settle(net, SECOND);
        for (unsigned times = i == FAITHFUL ? 3 : 1; times > 0; times--) {
            begin_round(net, i, NULL, ++round);
            begin_round(net, 0, &i, round);
            net_settle(net, SECOND);
        }
    }
    assert_false(gossip_exchange_surplus(net->node[0].exchange, &peer)); // all are linked
    for (size_t i = 1; i <= OTHERS; i++)
        net_unlink(net, 0, i);
    for (; gossip_exchange_surplus(net->node[0].exchange, &peer); forgotten++) {
        assert_int_equal(net_index(&peer), FAITHFUL + 1 + forgotten); // the fewest exchanges, the longest ago
        net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, net_index(&peer));
    }
    assert_int_equal(forgotten, OTHERS - GOSSIP_EDGES_DOWN);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_that_makes_no_exchange_costs_no_vector),
        cmocka_unit_test(test_an_edge_has_vectors_from_its_first_exchange_on),
        cmocka_unit_test(test_an_ordered_resync_frees_the_vectors_until_its_first_block),
        cmocka_unit_test(test_without_memory_the_first_exchange_changes_nothing),
        cmocka_unit_test(test_edges_without_a_link_have_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
