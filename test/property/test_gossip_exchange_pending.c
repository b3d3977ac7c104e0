// The updates that the trainer gets at a boundary for exchanges made while it computed: the same ones that
// moved the published model, whether they were kept as packets or as their sum.
#include "exchange_cases.h"
#include "gossip/exchange/state.h"

#include <math.h>

enum { D = 100000 }; // 1,000 entries in a packet of 2 KB; 16 KB of packets may be kept

static struct net *net_of(size_t nodes, const char *filters, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(false);
    struct base_reason why;

    options.ratio = 0.01f;
    assert_int_equal(compress_filters_parse(filters, &options.filters, &why), BASE_OK);
    struct net *net = net_create(nodes, D, TOPOLOGY_BUTTERFLY, net_seed(seed), &options);
    net_link_all(net);
    for (size_t i = 0; i < nodes; i++)
        change_model(net, i);
    return net;
}

// All nodes but node 0 reach the boundaries `first` to `last`, and those that meet node 0 are answered.
static void others_train(struct net *net, uint64_t first, uint64_t last)
{
    for (uint64_t round = first; round <= last; round++)
        for (size_t i = 1; i < net->nodes; i++) {
            net_round(net, i, round);
            net_settle(net, SECOND);
            change_model(net, i);
        }
}

static const struct gossip_pending *forces_of(const struct net *net)
{
    return &net->node[0].exchange->pending;
}

static size_t kept(const struct net *net)
{
    size_t count = 0;

    for (const struct gossip_pending_update *update = forces_of(net)->first; update; update = update->next)
        count++;
    return count;
}

static float *copy_of(const float *x)
{
    float *copy = malloc(D * sizeof *copy);

    assert_non_null(copy);
    memcpy(copy, x, D * sizeof *copy);
    return copy;
}

static void check_near(const float *found, const float *expected)
{
    for (size_t j = 0; j < D; j++)
        assert_true(fabsf(found[j] - expected[j]) <= 1e-5f * (1 + fabsf(expected[j])));
}

// Node 0's trainer has taken `steps` and reaches its boundary.
static void check_boundary(struct net *net, uint64_t round, float steps, bool exactly)
{
    struct net_node *node = &net->node[0];
    float *expected = copy_of(gossip_exchange_model(node->exchange));

    for (size_t j = 0; j < D; j++) {
        node->x[j] += steps * (float)(j % 7);
        expected[j] += steps * (float)(j % 7);
    }
    net_round(net, 0, round);
    assert_false(node->in_round);
    if (exactly)
        assert_memory_equal(node->x, expected, D * sizeof *expected);
    else
        check_near(node->x, expected);
    assert_int_equal(kept(net), 0);
    assert_false(forces_of(net)->sum_holds);
    free(expected);
    net_settle(net, SECOND);
}

// A trainer that took no step gets the published model, bit for bit: the same updates in the same order.
static void a_few_exchanges_are_kept_as_packets(void **state)
{
    (void)state;
    struct net *net = net_of(4, "", 1);
    net_round(net, 0, 1);
    net_settle(net, SECOND);
    others_train(net, 1, 2);
    assert_true(kept(net) >= 2);
    assert_null(forces_of(net)->sum);
    check_boundary(net, 3, 0, true);
    others_train(net, 3, 5);
    assert_true(kept(net) >= 2);
    check_boundary(net, 6, 0.125f, false);
    net_destroy(net);
}

// Only two nodes: every answer is made in the memory of the one before it.
static void kept_packets_survive_later_ones_of_the_edge(void **state)
{
    (void)state;
    struct net *net = net_of(2, "", 2);
    net_round(net, 0, 1);
    net_settle(net, SECOND);
    others_train(net, 2, 4);
    assert_int_equal(kept(net), 3 + 1); // and the request of this node
    check_boundary(net, 5, 0, true);
    assert_true(net_references_match(net));
    others_train(net, 6, 7);
    net_unlink(net, 0, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
    assert_true(kept(net) >= 2);
    check_boundary(net, 8, 0, true);
    net_destroy(net);
}

// The memory of the sum is released after a round that did without it.
static void many_exchanges_become_their_sum(void **state)
{
    (void)state;
    struct net *net = net_of(4, "", 3);
    net_round(net, 0, 1);
    net_settle(net, SECOND);
    for (uint64_t round = 2; round <= 22; round += 20) {
        others_train(net, round, round + 18);
        assert_true(forces_of(net)->sum_holds);
        assert_int_equal(kept(net), 0);
        check_boundary(net, round + 19, 0.125f, false);
        assert_non_null(forces_of(net)->sum);
        for (size_t j = 0; j < D; j++)
            assert_true(forces_of(net)->sum[j] == 0);
    }
    check_boundary(net, 42, 0.125f, false);
    assert_null(forces_of(net)->sum);
    net_destroy(net);
}

static void packets_without_indices_are_kept_with_their_indices(void **state)
{
    (void)state;
    struct net *net = net_of(2, "same-keys:8", 4);
    for (uint64_t round = 1; round <= 3; round++) {
        net_round(net, 0, 2 * round);
        net_settle(net, SECOND);
        others_train(net, 2 * round + 1, 2 * round + 1);
    }
    assert_non_null(forces_of(net)->first);
    assert_non_null(forces_of(net)->first->keys);
    check_boundary(net, 8, 0, true);
    others_train(net, 9, 9);
    check_boundary(net, 10, 0.125f, false);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// In the middle of a round: what was kept of earlier exchanges stays.
static void a_resync_is_kept_in_the_sum(void **state)
{
    (void)state;
    struct net *net = net_of(2, "", 5);
    net_round(net, 0, 1);
    net_settle(net, SECOND);
    others_train(net, 2, 3);
    assert_true(kept(net) >= 2);
    net_unlink(net, 0, 1);
    net_tell(net, 1, GOSSIP_EXCHANGE_FORGET, 0);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 2);
    assert_true(forces_of(net)->sum_holds);
    check_near(gossip_exchange_model(net->node[0].exchange), gossip_exchange_model(net->node[1].exchange));
    check_boundary(net, 4, 0.125f, false);
    net_destroy(net);
}

// They are of the model that it replaces, whether they were kept as packets or as their sum.
static void updates_of_a_replaced_model_move_no_fetched_one(void **state)
{
    (void)state;
    for (uint64_t rounds = 2; rounds < 30; rounds += 18) {
        struct net *net = net_of(4, "", 6);
        struct net_node *node = &net->node[0];
        net_round(net, 0, 1);
        net_settle(net, SECOND);
        others_train(net, 2, rounds);
        assert_true(forces_of(net)->sum_holds == (rounds > 2) && forces_of(net)->sum_holds == !kept(net));
        float *fetched = copy_of(gossip_exchange_model(net->node[1].exchange));
        gossip_exchange_adopt(node->exchange, fetched, NULL, rounds + 1);
        memcpy(node->x, fetched, D * sizeof *fetched);
        node->idle = true;
        net_round(net, 0, rounds + 1);
        net_settle(net, SECOND);
        assert_false(node->in_round);
        assert_memory_equal(node->x, fetched, D * sizeof *fetched);
        free(fetched);
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_exchanges_are_kept_as_packets),
        cmocka_unit_test(kept_packets_survive_later_ones_of_the_edge),
        cmocka_unit_test(many_exchanges_become_their_sum),
        cmocka_unit_test(packets_without_indices_are_kept_with_their_indices),
        cmocka_unit_test(a_resync_is_kept_in_the_sum),
        cmocka_unit_test(updates_of_a_replaced_model_move_no_fetched_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
