// How the two ends of an edge settle what is open: doubt, questions, lost HELLOs, RESYNC, and answers and
// requests that do not match.
#include "exchange_cases.h"

#include <math.h>

// With different seed models RESYNC averages them block by block, over more than one block, and leaves r =
// the mean.
static void test_resync_averages_block_by_block(void **state)
{
    enum { D = LIMIT_RESYNC_BLOCK + 1000 };
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(7), &options);
    float *other = malloc(D * sizeof *other);
    struct gossip_exchange *fresh;
    struct gossip_edge_info info;
    struct base_reason why;

    (void)state;
    assert_non_null(other);
    for (size_t j = 0; j < D; j++)
        other[j] = (float)base_rng_normal(&net->rng);
    net->node[1].options.start = other;
    assert_int_equal(gossip_exchange_create(&net->node[1].options, &fresh, &why), BASE_OK);
    net_node_restart(net, 1, fresh);
    net_link_all(net);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(info.resyncs >= 1);
    assert_true(net_references_match(net));
    const float *a = gossip_exchange_model(net->node[0].exchange),
                *b = gossip_exchange_model(net->node[1].exchange);
    for (size_t j = 0; j < D; j++) {
        assert_true(fabsf(a[j] - 0.5f * other[j]) < 1e-6f);
        assert_true(fabsf(a[j] - b[j]) < 1e-6f && fabsf(info.reference[j] - a[j]) < 1e-6f);
    }
    net_destroy(net);
    free(other);
}

// Payloads that do not decode are the sender's fault, and change nothing.
static void test_an_invalid_payload_changes_nothing(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(14));
    uint8_t garbage[64];
    float before[50];

    (void)state;
    net_round_all(net, 1);
    memcpy(before, gossip_exchange_model(net->node[0].exchange), sizeof before);
    for (int trial = 0; trial < 1000; trial++) {
        struct gossip_edge_info info;
        struct gossip_message message = {.kind = GOSSIP_XCHG};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &message};
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (uint8_t)base_rng_u64(&net->rng);
        net_edge(net, 0, 1, &info);
        message.as.exchange = (struct gossip_exchange_message){.epoch = info.epoch,
                                                               .sequence = info.sequence,
                                                               .clock = 2,
                                                               .step_scale = 0.1f,
                                                               .form = (uint8_t)(trial % 2),
                                                               .delta = garbage,
                                                               .delta_bytes = (uint32_t)(trial % 64)};
        assert_true(net_refuses(net, 0, &event, GOSSIP_REFUSAL_BROKEN));
        assert_int_equal(net_step(net, 0, &event),
                         BASE_OK); // the link is to end: nothing more is taken from it
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_DOWN);
        net_unlink(net, 0, 1);
        net_link(net, 0, 1);
        net_settle(net, SECOND);
    }
    assert_memory_equal(before, gossip_exchange_model(net->node[0].exchange), sizeof before);
    net_round_all(net, 2);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A late question about the previous exchange says nothing about the open request of this node. If the
// request were considered settled, a second one with other contents would go out under its number, and the
// answer to the first would be applied to it.
static void test_a_late_question_does_not_settle_the_doubt(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(16));
    struct gossip_edge_info info;
    struct gossip_message question = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(0), .message = &question};

    (void)state;
    net_edge(net, 0, 1, &info);
    question.as.hello = (struct gossip_hello){.epoch = info.epoch, .resync_offset = 50, .answer = 1};
    net_round(net, 0, 1);
    net->node[0].paused = true; // it asks, and does not see the answer
    net_settle(net, SECOND / 100);
    net_round(net, 1, 2); // its own request is in doubt
    net_settle(net, 3 * SECOND);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_IN_DOUBT);
    assert_int_equal(net_step(net, 1, &event), BASE_OK);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_IN_DOUBT);
    for (size_t j = 0; j < 50; j++)
        net->node[1].x[j] += (float)base_rng_normal(&net->rng);
    net_round(net, 1, 3);
    net->node[0].paused = false;
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    net_destroy(net);
}

static void tell_busy(struct net *net, size_t node, size_t peer, uint64_t sequence)
{
    struct gossip_message busy = {.kind = GOSSIP_BUSY, .as.busy = {.sequence = sequence}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(peer), .message = &busy};

    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

// An answer belongs to one request. Another request under the same number must not get it.
static void test_a_second_request_under_one_number_gets_no_answer(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(17));

    (void)state;
    net_round(net, 0, 1);
    tell_busy(net, 0, 1, 0); // a peer that answers BUSY, but commits
    change_model(net, 0);
    net_round(net, 0, 2); // the second request, before the answer to the first has arrived
    net_settle(net, 10 * SECOND);
    assert_true(net_references_match(net));
    for (uint64_t round = 3; round < 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// Models whose data have different scalings are not averaged. If a scaling is not known yet, it may be the
// same. An end that learns its own late sends it.
static void test_another_scaling_is_refused(void **state)
{
    static const uint64_t cases[][2] = {{5, 5}, {0, 5}, {5, 0}, {5, 6}};
    const uint64_t seed = net_seed(23);
    struct gossip_edge_info info;

    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const bool late = i % 2, refused = cases[i / 2][0] * cases[i / 2][1] == 30;
        struct gossip_exchange_options options = defaults(false);
        struct net *net = net_create(2, 50, TOPOLOGY_RING, seed + i, &options);
        net->forgets = true; // a refusal ends the link
        if (late) {
            net_link(net, 0, 1);
            net_settle(net, SECOND);
        }
        for (size_t end = 0; end < 2; end++) {
            gossip_exchange_scaling(net->node[end].exchange, cases[i / 2][end]);
            if (late) { // it does not wait for a round
                assert_int_equal(gossip_exchange_deadline(net->node[end].exchange) <= net->now_ns,
                                 cases[i / 2][end] != 0);
                net_settle(net, SECOND);
            }
        }
        if (!late) {
            net_link(net, 0, 1);
            net_settle(net, SECOND);
        }
        assert_int_equal(net_edge(net, 0, 1, &info)->other_scaling, refused ? 6 : 0);
        assert_int_equal(info.scaling, refused ? 5 : 0);
        assert_int_equal(net_edge(net, 1, 0, &info)->other_scaling, refused ? 5 : 0);
        assert_int_equal(info.scaling, refused ? 6 : 0);
        change_model(net, 0);
        net_round(net, 0, 1);
        net_round(net, 1, 1);
        net_settle(net, SECOND);
        assert_int_equal(net_edge(net, 0, 1, &info)->exchanges > 0, !refused);
        assert_int_equal(net_edge(net, 1, 0, &info)->exchanges > 0, !refused);
        if (refused)
            assert_true(gossip_exchange_model(net->node[1].exchange)[0] == 0);
        net_destroy(net);
    }
}

// The HELLO of one end arrives before the other's view has that node, and is dropped: the node is refused
// later, with the reason.
static void test_a_node_that_came_early_is_told_of_another_scaling(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct gossip_edge_info info;

    (void)state;
    for (size_t early = 0; early < 2; early++) {
        struct net *net = net_create(2, 50, TOPOLOGY_RING, net_seed(29), &options);
        net->forgets = true;
        gossip_exchange_scaling(net->node[0].exchange, 5);
        gossip_exchange_scaling(net->node[1].exchange, 6);
        net->up[1] = net->up[2] = true;
        net_tell(net, early, GOSSIP_EXCHANGE_LINK_UP, 1 - early);
        net_settle(net, SECOND / 10);
        assert_int_equal(net_edge(net, early, 1 - early, &info)->state, GOSSIP_EDGE_HELLO);
        net_tell(net, 1 - early, GOSSIP_EXCHANGE_LINK_UP, early);
        net_settle(net, SECOND / 2);
        assert_int_equal(net_edge(net, 0, 1, &info)->other_scaling, 6);
        assert_int_equal(net_edge(net, 1, 0, &info)->other_scaling, 5);
        net_destroy(net);
    }
}

// A HELLO that is lost although its link stays (its sender was out of memory) is repeated.
static void test_a_lost_hello_is_repeated(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(2, 50, TOPOLOGY_RING, net_seed(19), &options);
    struct gossip_edge_info info;

    (void)state;
    net->loss_chance = 1;
    net_link(net, 0, 1);
    net->loss_chance = 0;
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_LIVE);
    net_destroy(net);
}

// The HELLO that announces a RESYNC is lost: the answer to the other end's question announces it again.
static void test_a_lost_decision_to_resync_is_sent_again(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(23));
    struct gossip_message other = {.kind = GOSSIP_HELLO,
                                   .as.hello = {.epoch = 7, .sequence = 3, .resync_offset = 50}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &other};
    struct gossip_edge_info info;

    (void)state;
    net->loss_chance = 1;
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_RESYNC);
    net->loss_chance = 0;
    other = (struct gossip_message){.kind = GOSSIP_BUSY,
                                    .as.busy = {.epoch = 8}}; // the first block was lost as well
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(net_edge(net, 1, 0, &info)->epoch, 8);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// An answer that cannot be applied (the stored packets of the two ends do not match) ends one link, not every
// later one.
static void test_an_answer_that_does_not_match_is_asked_for_once(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(25));
    static const uint8_t garbage[8] = {0xff};
    struct gossip_message message = {
        .kind = GOSSIP_XACK,
        .as.exchange = {.step_scale = 0.1f, .weight = 0.5f, .delta = garbage, .delta_bytes = sizeof garbage}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &message};

    (void)state;
    net_round(net, 0, 1);
    net->node[0].paused = true;
    net_settle(net, SECOND / 100); // node 1 has committed
    assert_true(net_refuses(net, 0, &event, GOSSIP_REFUSAL_BROKEN));
    net_unlink(net, 0, 1);
    net->node[0].paused = false;
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_true(net_count(net, COUNTER(resyncs)) >= 2);
    for (uint64_t round = 2; round < 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// HELLOs cost nothing, the RESYNCs that they order do. Beyond a few at once and one a minute the peer is not
// met for a while; an honest one then finds the edge again.
static void test_few_resyncs_are_ordered(void **state)
{
    (void)state;
    for (uint64_t follows = 0; follows < 2; follows++) { // in a higher epoch, or at another place
        struct net *net = linked_net(2, 50, false, net_seed(27));
        struct gossip_message order = {.kind = GOSSIP_HELLO};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &order};
        struct gossip_edge_info info;

        for (uint64_t i = 1; i <= 100; i++) {
            order.as.hello = (struct gossip_hello){
                .epoch = 10 * i, .sequence = 3 * !follows, .resync_offset = 50 * !follows};
            assert_int_equal(net_step(net, 0, &event), BASE_OK);
        }
        assert_int_equal(net_edge(net, 0, 1, &info)->resyncs, 4);
        assert_int_equal(info.state, GOSSIP_EDGE_BARRED);
        net_settle(net, 55 * SECOND);
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_BARRED);
        net_settle(net, 10 * SECOND);
        assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
        assert_in_range(info.resyncs, 4, 5);
        assert_true(net_references_match(net));
        net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resync_averages_block_by_block),
        cmocka_unit_test(test_an_invalid_payload_changes_nothing),
        cmocka_unit_test(test_a_late_question_does_not_settle_the_doubt),
        cmocka_unit_test(test_a_second_request_under_one_number_gets_no_answer),
        cmocka_unit_test(test_another_scaling_is_refused),
        cmocka_unit_test(test_a_node_that_came_early_is_told_of_another_scaling),
        cmocka_unit_test(test_a_lost_hello_is_repeated),
        cmocka_unit_test(test_a_lost_decision_to_resync_is_sent_again),
        cmocka_unit_test(test_an_answer_that_does_not_match_is_asked_for_once),
        cmocka_unit_test(test_few_resyncs_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
