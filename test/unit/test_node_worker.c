// The worker thread between its mailboxes: rounds, messages that break the protocol, edges of a checkpoint,
// and snapshots that are given and fetched.
#include "node_worker_world.h"

// A member that is not a neighbour: it is opposite on a ring of four.
static void post_stranger(struct bench *bench, uint8_t other)
{
    const struct gossip_id peer = id_of(other);
    const struct gossip_record view[4] = {{.name = "self", .id = id_of(1)},
                                          {.name = "other", .id = peer},
                                          {.name = "a", .id = id_of(8)},
                                          {.name = "b", .id = id_of(9)}};
    for (struct topology_options options = ring;; options.seed++) {
        struct gossip_graph *graph = graph_of(&options, view, 4);
        bool meets = gossip_graph_meets(graph, &peer);
        gossip_graph_drop(graph);
        if (!meets) {
            post_members(bench, &options, view, 4);
            return;
        }
    }
}

static void a_round_without_a_partner_ends(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    settle_round(&bench, 1, false);
    settle_round(&bench, 2, true); // a failed checkpoint is reported, and nothing more
    bench_destroy(&bench);
}

// The correction that is left of an edge when its peer has died, or is only no longer a neighbour.
static float left_of(bool keep, bool dies)
{
    struct bench bench;
    bench_create_as(&bench, keep, false);
    import_edge(&bench);
    bench_start(&bench);
    if (dies)
        post_life(&bench, (struct gossip_life_action){.kind = GOSSIP_LIFE_FORGET, .peer = id_of(2)}, NULL);
    else
        post_stranger(&bench, 2);
    settle_round(&bench, 1, false);
    assert_int_equal(gossip_exchange_edges(bench.exchange), 0);
    float left = bench.correction[0];
    post_stranger(&bench, 2); // it is back, and no neighbour: it pulls for itself again
    settle_round(&bench, 2, false);
    assert_true(bench.correction[0] == 0);
    bench_destroy(&bench);
    return left;
}

static void only_the_pull_of_a_dead_node_is_kept(void **state)
{
    (void)state;
    assert_true(left_of(true, true) == 1);
    assert_true(left_of(true, false) == 0);
    assert_true(left_of(false, true) == 0);
}

// Both ends of an edge begin alike: what this node says about it is also the peer's answer.
static void make_live(struct bench *bench, uint8_t peer)
{
    struct gossip_message hello;
    post_peer(bench, NODE_MESSAGE_LINK_UP, peer);
    struct node_message *message = take_sent(bench, GOSSIP_HELLO, peer, &hello);
    post_message(bench, peer, &hello);
    node_message_free(message);
}

// Three on a base graph: in round 1 the first and the last of the ring meet with weight 2/3.
static void a_meeting_has_the_weight_of_the_schedule(void **state)
{
    struct bench bench;
    struct gossip_message received;
    struct topology_plan *plan;
    struct topology_options options = {.kind = TOPOLOGY_BASE};
    const struct gossip_record view[3] = {
        {.name = "a", .id = id_of(1)}, {.name = "b", .id = id_of(2)}, {.name = "c", .id = id_of(3)}};
    const struct topology_member members[3] = {
        {.name = "a", .id = {1}}, {.name = "b", .id = {2}}, {.name = "c", .id = {3}}};
    (void)state;
    for (;; options.seed++) {
        assert_int_equal(topology_plan_create(&options, members, 3, &plan), BASE_OK);
        bool first = topology_plan_place(plan, 0) == 0;
        if (first)
            break;
        topology_plan_destroy(plan);
    }
    uint8_t partner = members[topology_plan_partner(plan, 0, 1)].id[0];
    topology_plan_destroy(plan);
    bench_create(&bench);
    bench_start_as(&bench, &(struct node_worker_options){0});
    post_members(&bench, &options, view, 3);
    make_live(&bench, partner);
    settle_round(&bench, 1, false);
    struct node_message *message = take_sent(&bench, GOSSIP_XCHG, partner, &received);
    assert_true(received.as.exchange.weight > 0.6666f && received.as.exchange.weight < 0.6667f);
    node_message_free(message);
    bench_destroy(&bench);
}

// Whether the round is open or has just ended.
static void a_round_can_be_given_up(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, false, true);
    bench_start(&bench);
    post_view(&bench, 2);
    make_live(&bench, 2);
    post(&bench, node_message_new(NODE_MESSAGE_GIVE_UP)); // for a round that has just ended
    struct node_round round = round_of(&bench, 7);
    post_round(&bench, &round);
    post(&bench, node_message_new(NODE_MESSAGE_GIVE_UP));
    take_round_done(&bench, &round);
    assert_int_equal(round.round, 7);
    bench_destroy(&bench);
}

static void the_method_local_has_no_edges(void **state)
{
    struct bench bench;
    struct node_message *message;
    (void)state;
    bench_create(&bench);
    bench_start_as(&bench, &(struct node_worker_options){.local = true});
    post_view(&bench, 2);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 2);
    settle_round(&bench, 1, false);
    settle_round(&bench, 2, false);
    assert_int_equal(gossip_exchange_edges(bench.exchange), 0);
    while ((message = node_mailbox_take(bench.loop, 0))) {
        assert_int_not_equal(message->kind, NODE_MESSAGE_SEND);
        node_message_free(message);
    }
    bench_destroy(&bench);
}

static void contents_that_break_the_protocol_close_the_link(void **state)
{
    struct bench bench;
    const struct gossip_message beyond = {.kind = GOSSIP_HELLO, .as.hello.resync_offset = D + 1};
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_view(&bench, 2);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 2);
    post_message(&bench, 2, &beyond);
    struct node_message *message = take(&bench, NODE_MESSAGE_CLOSE);
    assert_int_equal(message->peer.bytes[0], 2);
    assert_non_null(strstr(message->as.reason, "contents break the exchange protocol"));
    node_message_free(message);
    bench_destroy(&bench);
}

// The numbers of a training that has diverged are well formed.
static void numbers_that_are_too_large_break_no_protocol(void **state)
{
    struct bench bench;
    struct gossip_message received;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_view(&bench, 2);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 2);
    struct node_message *message = take_sent(&bench, GOSSIP_HELLO, 2, &received);
    struct gossip_message hello = received; // of a node that began anew: both send blocks
    hello.as.hello.epoch++;
    hello.as.hello.reference_hash = 0;
    post_message(&bench, 2, &hello);
    node_message_free(message);
    message = take_sent(&bench, GOSSIP_XCHG, 2, &received);
    float *block = malloc(LIMIT_RESYNC_BLOCK * sizeof *block);
    assert_non_null(block);
    for (size_t i = 0; i < LIMIT_RESYNC_BLOCK; i++)
        block[i] = 1e20f;
    struct gossip_message answer = received;
    answer.kind = GOSSIP_XACK;
    answer.as.exchange.delta = (const uint8_t *)block;
    post_message(&bench, 2, &answer);
    node_message_free(message);
    message = take(&bench, NODE_MESSAGE_IMPLAUSIBLE);
    assert_int_equal(message->peer.bytes[0], 2);
    node_message_free(message);
    free(block);
    bench_destroy(&bench);
}

static enum base_error write_slowly(void *context, const struct node_round *round, struct base_reason *why)
{
    struct bench *bench = context;
    struct node_message *message;
    bool told = false;
    (void)why;
    assert_true(round->at.meet.last);
    while ((message = node_mailbox_take(bench->loop, 0))) {
        told |= message->kind == NODE_MESSAGE_LIVE && message->as.live.kind == GOSSIP_LIFE_FROZEN;
        node_message_free(message);
    }
    assert_true(told); // before the checkpoint, which can take many seconds
    return BASE_OK;
}

static void the_end_is_told_before_the_last_checkpoint(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start_as(&bench,
                   &(struct node_worker_options){.checkpoint = write_slowly, .checkpoint_context = &bench});
    settle_round(&bench, 1, false);
    struct node_round round = round_of(&bench, 1);
    round.at.meet.meets = false;
    round.at.meet.last = round.checkpoint = true;
    post_round(&bench, &round);
    take_round_done(&bench, &round);
    assert_int_equal(round.checkpoint_error, BASE_OK);
    bench_destroy(&bench);
}

static _Atomic unsigned kept;

// In the worker's thread. Messages that are on their way are of earlier steps, and none is a request.
static void keep_records(void *context, const uint8_t *records, size_t bytes)
{
    struct bench *bench = context;
    struct node_message *message;
    assert_true(records && bytes > 0);
    while ((message = node_mailbox_take(bench->loop, 0))) {
        struct gossip_message sent;
        if (message->kind == NODE_MESSAGE_SEND)
            assert_int_equal(gossip_message_decode(message->bytes, message->n_bytes, &sent), BASE_OK);
        assert_false(message->kind == NODE_MESSAGE_SEND && sent.kind == GOSSIP_XCHG);
        node_message_free(message);
    }
    kept++;
}

// What a neighbour knows of this node is in its journal: a killed process continues where they are.
static void a_request_is_journaled_before_it_is_sent(void **state)
{
    struct bench bench;
    struct gossip_message received;
    (void)state;
    kept = 0;
    bench_create(&bench);
    gossip_exchange_journal_begin(bench.exchange);
    bench_start_as(&bench,
                   &(struct node_worker_options){.journal = keep_records, .checkpoint_context = &bench});
    post_view(&bench, 2);
    make_live(&bench, 2);
    settle_round(&bench, 1, false);
    node_message_free(take_sent(&bench, GOSSIP_XCHG, 2, &received));
    assert_int_equal(kept, 1);
    bench_destroy(&bench);
}

static void only_a_neighbour_has_an_edge(void **state)
{
    struct bench bench;
    struct gossip_message received;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 5); // linked, but in no view
    post_view(&bench, 2);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 2);
    node_message_free(take_sent(&bench, GOSSIP_HELLO, 2, &received));
    settle_round(&bench, 1, false);
    assert_int_equal(gossip_exchange_edges(bench.exchange), 1);
    bench_destroy(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_without_a_partner_ends),
        cmocka_unit_test(only_the_pull_of_a_dead_node_is_kept),
        cmocka_unit_test(a_meeting_has_the_weight_of_the_schedule),
        cmocka_unit_test(a_round_can_be_given_up),
        cmocka_unit_test(the_method_local_has_no_edges),
        cmocka_unit_test(contents_that_break_the_protocol_close_the_link),
        cmocka_unit_test(numbers_that_are_too_large_break_no_protocol),
        cmocka_unit_test(only_a_neighbour_has_an_edge),
        cmocka_unit_test(a_request_is_journaled_before_it_is_sent),
        cmocka_unit_test(the_end_is_told_before_the_last_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
