// The worker thread between its mailboxes: rounds, messages that break the protocol, edges of a checkpoint,
// snapshots given and fetched.
#include "base/hash.h"
#include "node/average/snapshot.h"
#include "node/average/worker.h"
#include "node/queue/clock.h"
#include "node/queue/mail.h"
#include "test/support/cpu_kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { D = LIMIT_SNAPSHOT_BLOCK + 20, BLOCKS = 2 };

struct bench {
    float *start, *model, *correction, *outer; // [D]
    struct gossip_exchange *exchange;
    struct node_mailbox *inbox, *loop, *learner;
    struct node_counters counters;
    struct node_worker *worker;
};

static struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static enum base_error no_checkpoint(void *context, const struct node_round *round, struct base_reason *why)
{
    (void)context;
    (void)round;
    return base_fail(why, BASE_EIO, "none in this test");
}

static void bench_create_as(struct bench *bench, bool keep_on_death, bool bounded)
{
    struct gossip_exchange_options options = {.self = id_of(1),
                                              .kernels = cpu_kernels(),
                                              .parameters = D,
                                              .ratio = 0.5f,
                                              .values = KERNELS_FP32,
                                              .drift_correction = true,
                                              .drift_gain = 2,
                                              .drift_limit = 0.25f,
                                              .on_death =
                                                  keep_on_death ? GOSSIP_ON_DEATH_KEEP : GOSSIP_ON_DEATH_DROP,
                                              .bounded = bounded,
                                              .deadline_floor_ns = 1000000,
                                              .deadline_ceiling_ns = 1000000000};
    struct base_reason why;
    *bench = (struct bench){.start = calloc(D, sizeof(float)),
                            .model = calloc(D, sizeof(float)),
                            .correction = calloc(D, sizeof(float)),
                            .outer = calloc(D, sizeof(float))};
    assert_true(bench->start && bench->model && bench->correction && bench->outer);
    options.start = bench->start;
    assert_int_equal(gossip_exchange_create(&options, &bench->exchange, &why), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->inbox), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->loop), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->learner), BASE_OK);
}

static void bench_create(struct bench *bench)
{
    bench_create_as(bench, false, false);
}

static void bench_start_as(struct bench *bench, const struct node_worker_options *as)
{
    struct node_worker_options options = *as;
    options.exchange = bench->exchange;
    options.self = id_of(1);
    options.inbox = bench->inbox;
    options.loop = bench->loop;
    options.learner = bench->learner;
    options.counters = &bench->counters;
    options.checkpoint = no_checkpoint;
    assert_int_equal(node_worker_start(&options, &bench->worker), BASE_OK);
}

static void bench_start(struct bench *bench)
{
    const struct node_worker_options options = {0};
    bench_start_as(bench, &options);
}

static void post(struct bench *bench, struct node_mail *mail)
{
    assert_int_equal(node_mailbox_post(bench->inbox, mail), BASE_OK);
}

static void bench_destroy(struct bench *bench)
{
    post(bench, node_mail_new(NODE_MAIL_STOP));
    node_worker_join(bench->worker);
    gossip_exchange_destroy(bench->exchange);
    node_mailbox_destroy(bench->inbox, node_mail_free);
    node_mailbox_destroy(bench->loop, node_mail_free);
    node_mailbox_destroy(bench->learner, node_mail_free);
    free(bench->start);
    free(bench->model);
    free(bench->correction);
    free(bench->outer);
}

static void post_round(struct bench *bench, struct node_round *round)
{
    struct node_mail *mail = node_mail_new(NODE_MAIL_ROUND);
    mail->round = round;
    post(bench, mail);
}

static void take_round_done(struct bench *bench, const struct node_round *round)
{
    struct node_mail *mail = node_mailbox_take(bench->learner, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_ROUND_DONE);
    assert_ptr_equal(mail->round, round);
    node_mail_free(mail);
}

static struct node_round round_of(struct bench *bench, uint64_t number)
{
    return (struct node_round){.meet = {.round = number, .meets = true, .step_scale = 0.1f},
                               .model = bench->model,
                               .correction = bench->correction,
                               .outer = bench->outer,
                               .step = 10 * number};
}

static void settle_round(struct bench *bench, uint64_t number, bool checkpoint)
{
    struct node_round round = round_of(bench, number);
    round.checkpoint = checkpoint;
    post_round(bench, &round);
    take_round_done(bench, &round);
    assert_int_equal(round.checkpoint_error, checkpoint ? BASE_EIO : BASE_OK);
}

// The next mail to the loop of one kind. Only the worker posts there, so it comes.
static struct node_mail *take(struct bench *bench, enum node_mail_kind kind)
{
    for (;;) {
        struct node_mail *mail = node_mailbox_take(bench->loop, UINT64_MAX);
        if (mail->kind == kind)
            return mail;
        node_mail_free(mail);
    }
}

static void post_message(struct bench *bench, uint8_t from, const struct gossip_message *message)
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes;
    assert_int_equal(gossip_message_encode_header(message, header, sizeof header, &bytes), BASE_OK);
    size_t n = gossip_message_payloads(message, payloads), payload = n ? payloads[0].count : 0;
    struct node_mail *mail = node_mail_new(NODE_MAIL_MESSAGE);
    mail->peer = id_of(from);
    mail->n_bytes = bytes + payload;
    mail->bytes = malloc(mail->n_bytes);
    assert_non_null(mail->bytes);
    memcpy(mail->bytes, header, bytes);
    if (payload)
        memcpy(mail->bytes + bytes, payloads[0].bytes, payload);
    post(bench, mail);
}

static void post_peer(struct bench *bench, enum node_mail_kind kind, uint8_t peer)
{
    struct node_mail *mail = node_mail_new(kind);
    mail->peer = id_of(peer);
    post(bench, mail);
}

static struct gossip_graph *graph_of(const struct topology_options *topology,
                                     const struct gossip_record *view, size_t n)
{
    const struct gossip_id self = id_of(1);
    struct gossip_graph *graph;
    struct gossip_plan *plan;
    assert_int_equal(gossip_plan_create(topology, view, n, &plan), BASE_OK);
    assert_int_equal(gossip_graph_create(plan, &self, LIMIT_NEIGHBOURS, &graph), BASE_OK);
    gossip_plan_drop(plan);
    return graph;
}

static void post_members(struct bench *bench, const struct topology_options *topology,
                         const struct gossip_record *view, size_t n)
{
    struct node_mail *mail = node_mail_new(NODE_MAIL_VIEW);
    mail->graph = graph_of(topology, view, n);
    post(bench, mail);
}

static const struct topology_options ring = {.kind = TOPOLOGY_RING};

// This node and one other.
static void post_view(struct bench *bench, uint8_t other)
{
    const struct gossip_record view[2] = {{.name = "self", .id = id_of(1), .slot = GOSSIP_NO_SLOT},
                                          {.name = "other", .id = id_of(other), .slot = GOSSIP_NO_SLOT}};
    post_members(bench, &ring, view, 2);
}

// A member that is no neighbour: across a ring of four.
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

static void post_donors_of(struct bench *bench, const uint8_t *donors, size_t n, struct node_progress limits)
{
    struct gossip_id *ids = calloc(n + 1, sizeof *ids);
    struct node_mail *mail = node_mail_new(NODE_MAIL_DONORS);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = id_of(donors[i]);
    mail->bytes = (uint8_t *)ids;
    mail->n_bytes = n * sizeof *ids;
    mail->progress = limits;
    post(bench, mail);
}

static void post_donors(struct bench *bench, const uint8_t *donors, size_t n)
{
    post_donors_of(bench, donors, n, (struct node_progress){.round = 30, .step = 300});
}

static void take_fetch(struct bench *bench, int status)
{
    struct node_mail *mail = take(bench, NODE_MAIL_FETCH);
    assert_int_equal(mail->status, status);
    node_mail_free(mail);
}

// The next message that the worker sends of one kind; returns its mail, which *message points into.
static struct node_mail *take_sent(struct bench *bench, enum gossip_message_kind kind, uint8_t to,
                                   struct gossip_message *message)
{
    for (;;) {
        struct node_mail *mail = take(bench, NODE_MAIL_SEND);
        assert_int_equal(gossip_message_decode(mail->bytes, mail->n_bytes, message), BASE_OK);
        if (message->kind == kind) {
            assert_int_equal(mail->peer.bytes[0], to);
            return mail;
        }
        node_mail_free(mail);
    }
}

static void import_edge(struct bench *bench)
{
    float *correction = malloc(D * sizeof *correction);
    static const uint8_t nothing_open[2];
    assert_non_null(correction);
    for (size_t i = 0; i < D; i++)
        correction[i] = 1;
    struct gossip_edge_record record = {.peer = id_of(2),
                                        .sequence = 3,
                                        .resync_offset = D,
                                        .reference = bench->start,
                                        .correction = correction,
                                        .transactions = nothing_open,
                                        .transactions_bytes = sizeof nothing_open};
    assert_int_equal(gossip_exchange_import(bench->exchange, &record), BASE_OK);
    free(correction);
}

static void a_round_alone_ends(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    settle_round(&bench, 1, false);
    settle_round(&bench, 2, true); // a checkpoint that fails is told, and nothing more
    bench_destroy(&bench);
}

// The correction that is left of an edge when its peer has died, or is only met no more.
static float left_of(bool keep, bool dies)
{
    struct bench bench;
    bench_create_as(&bench, keep, false);
    import_edge(&bench);
    bench_start(&bench);
    if (dies)
        post_peer(&bench, NODE_MAIL_FORGET, 2);
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

static void only_the_pull_of_the_dead_is_kept(void **state)
{
    (void)state;
    assert_true(left_of(true, true) == 1);
    assert_true(left_of(true, false) == 0);
    assert_true(left_of(false, true) == 0);
}

// Both ends of an edge begin alike: what this node says of it is also the peer's answer.
static void make_live(struct bench *bench, uint8_t peer)
{
    struct gossip_message hello;
    post_peer(bench, NODE_MAIL_LINK_UP, peer);
    struct node_mail *mail = take_sent(bench, GOSSIP_HELLO, peer, &hello);
    post_message(bench, peer, &hello);
    node_mail_free(mail);
}

// Three on a base graph: in round 1 the first and the last of the ring meet with weight 2/3.
static void a_meeting_has_the_weight_of_the_schedule(void **state)
{
    struct bench bench;
    struct gossip_message message;
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
    struct node_mail *mail = take_sent(&bench, GOSSIP_XCHG, partner, &message);
    assert_true(message.as.exchange.weight > 0.6666f && message.as.exchange.weight < 0.6667f);
    node_mail_free(mail);
    bench_destroy(&bench);
}

// Those who wait with max_delay need not wait for a learner that stands still.
static void who_stands_still_is_waited_for_by_nobody(void **state)
{
    struct bench bench;
    struct gossip_message message;
    struct node_mail *mail;
    (void)state;
    bench_create_as(&bench, false, true);
    bench_start(&bench);
    post_view(&bench, 2);
    make_live(&bench, 2);
    struct node_round round = round_of(&bench, 7);
    round.meet.meets = false;
    post_round(&bench, &round);
    take_round_done(&bench, &round);
    do { // how far it is may be told before
        mail = take_sent(&bench, GOSSIP_CLOCK, 2, &message);
        node_mail_free(mail);
    } while (message.as.clock.round != GOSSIP_CLOCK_IDLE);
    bench_destroy(&bench);
}

// Whether it is open or has just ended.
static void a_round_can_be_given_up(void **state)
{
    struct bench bench;
    const struct gossip_message behind = {.kind = GOSSIP_CLOCK, .as.clock.round = 1};
    (void)state;
    bench_create_as(&bench, false, true);
    bench_start(&bench);
    post_view(&bench, 2);
    make_live(&bench, 2);
    post_message(&bench, 2, &behind);
    post(&bench, node_mail_new(NODE_MAIL_GIVE_UP)); // of a round that has just ended
    struct node_round round = round_of(&bench, 7);
    post_round(&bench, &round);
    post(&bench, node_mail_new(NODE_MAIL_GIVE_UP));
    take_round_done(&bench, &round);
    assert_int_equal(round.round, 7);
    bench_destroy(&bench);
}

static void local_has_no_edges(void **state)
{
    struct bench bench;
    struct node_mail *mail;
    (void)state;
    bench_create(&bench);
    bench_start_as(&bench, &(struct node_worker_options){.local = true});
    post_view(&bench, 2);
    post_peer(&bench, NODE_MAIL_LINK_UP, 2);
    settle_round(&bench, 1, false);
    settle_round(&bench, 2, false);
    assert_int_equal(gossip_exchange_edges(bench.exchange), 0);
    while ((mail = node_mailbox_take(bench.loop, 0)) != NULL) {
        assert_int_not_equal(mail->kind, NODE_MAIL_SEND);
        node_mail_free(mail);
    }
    bench_destroy(&bench);
}

static void a_message_that_breaks_the_protocol_closes_its_link(void **state)
{
    struct bench bench;
    struct node_mail *mail = node_mail_new(NODE_MAIL_MESSAGE);
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    mail->peer = id_of(2);
    mail->bytes = calloc(1, 4);
    assert_non_null(mail->bytes);
    mail->n_bytes = 4;
    post(&bench, mail);
    mail = node_mailbox_take(bench.loop, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_CLOSE);
    assert_int_equal(mail->peer.bytes[0], 2);
    node_mail_free(mail);
    bench_destroy(&bench);
}

static void post_ask(struct bench *bench, uint8_t from, uint8_t part, uint32_t block)
{
    struct gossip_message message = {.kind = GOSSIP_SNAPSHOT_ASK, .as.ask = {.part = part, .block = block}};
    post_message(bench, from, &message);
}

static void check_given(struct bench *bench, uint8_t to, uint8_t part, float value, uint64_t round)
{
    struct gossip_message message;
    struct node_mail *mail = take_sent(bench, GOSSIP_SNAPSHOT_TELL, to, &message);
    const struct gossip_snapshot_tell *tell = &message.as.tell;
    float first;
    memcpy(&first, tell->values, sizeof first);
    assert_int_equal(tell->part, part);
    assert_int_equal(tell->parts, 3); // model and outer momentum
    assert_int_equal(tell->round, round);
    assert_int_equal(tell->step, 10 * round);
    assert_true(first == value);
    node_mail_free(mail);
}

static void a_block_is_given_at_the_next_rendezvous(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    bench.model[0] = 7;
    bench.outer[0] = 8;
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0);
    post_ask(&bench, 3, GOSSIP_PART_OUTER, 0);
    settle_round(&bench, 4, false);
    check_given(&bench, 2, GOSSIP_PART_MODEL, 7, 4);
    check_given(&bench, 3, GOSSIP_PART_OUTER, 8, 4);
    bench.model[0] = 9;
    post_ask(&bench, 4, GOSSIP_PART_MODEL, 0); // from the same copy, or a new one if this machine is slow
    settle_round(&bench, 5, false);
    node_mail_free(take(&bench, NODE_MAIL_SEND));
    bench_destroy(&bench);
}

// The learner has finished, or waits: no rendezvous comes.
static void a_learner_that_stands_still_gives_too(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    bench.model[0] = 7;
    bench.outer[0] = 8;
    struct node_round round = round_of(&bench, 5);
    round.meet.meets = false; // round 5 was the last
    round.step = 50;
    post_round(&bench, &round);
    take_round_done(&bench, &round);
    bench.outer[0] = 0; // no longer the worker's
    post_ask(&bench, 2, GOSSIP_PART_OUTER, 0);
    check_given(&bench, 2, GOSSIP_PART_OUTER, 8, 5);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0);
    check_given(&bench, 2, GOSSIP_PART_MODEL, 7, 5);
    bench_destroy(&bench);
}

static void an_ask_for_what_is_not_there_closes_its_link(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, BLOCKS);
    struct node_mail *mail = take(&bench, NODE_MAIL_CLOSE);
    assert_int_equal(mail->peer.bytes[0], 2);
    node_mail_free(mail);
    bench_destroy(&bench);
}

static float donated(uint8_t part, size_t index)
{
    return (float)(index % 100) + 1000 * (float)part;
}

// Answers one ask as `from`, or takes it and answers not.
static void answer(struct bench *bench, uint8_t from, bool answers)
{
    struct gossip_message ask, block = {.kind = GOSSIP_SNAPSHOT_TELL};
    struct node_mail *mail = take_sent(bench, GOSSIP_SNAPSHOT_ASK, from, &ask);
    uint8_t part = ask.as.ask.part;
    size_t first = (size_t)ask.as.ask.block * LIMIT_SNAPSHOT_BLOCK, count = first ? 20 : LIMIT_SNAPSHOT_BLOCK;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = donated(part, first + i);
    block.as.tell = (struct gossip_snapshot_tell){.snapshot = 1,
                                                  .parts = 3,
                                                  .part = part,
                                                  .block = ask.as.ask.block,
                                                  .round = 30,
                                                  .step = 300,
                                                  .hash = base_hash_vector(values, count),
                                                  .values = (const uint8_t *)values,
                                                  .values_bytes = (uint32_t)(count * sizeof *values)};
    if (answers)
        post_message(bench, from, &block);
    free(values);
    node_mail_free(mail);
}

static void check_fetched(struct bench *bench, struct node_round *round)
{
    take_fetch(bench, 0);
    take_round_done(bench, round);
    assert_true(round->fetched);
    assert_int_equal(round->round, 30);
    assert_int_equal(round->step, 300);
    for (size_t i = 0; i < D; i++) {
        assert_true(bench->model[i] == donated(GOSSIP_PART_MODEL, i));
        assert_true(bench->outer[i] == donated(GOSSIP_PART_OUTER, i));
        assert_true(bench->correction[i] == 0);
    }
}

static void begin_fetch(struct bench *bench, struct node_round *round)
{
    *round = round_of(bench, 1);
    round->fetch = true;
    post_round(bench, round);
    take_fetch(bench, 1);
}

static void a_model_is_fetched_and_its_edges_begin_anew(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message message;
    (void)state;
    bench_create(&bench);
    import_edge(&bench); // from before
    bench_start(&bench);
    post_view(&bench, 2);
    post_peer(&bench, NODE_MAIL_LINK_UP, 2);
    node_mail_free(take_sent(&bench, GOSSIP_HELLO, 2, &message));
    assert_int_equal(message.as.hello.sequence, 3);
    begin_fetch(&bench, &round);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0); // has nothing to give meanwhile
    post_donors(&bench, (const uint8_t[]){2}, 1);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 2, true);
    node_mail_free(take_sent(&bench, GOSSIP_HELLO, 2, &message));
    assert_int_equal(message.as.hello.sequence, 0);
    check_fetched(&bench, &round);
    assert_memory_equal(gossip_exchange_model(bench.exchange), bench.model, D * sizeof(float));
    bench_destroy(&bench);
}

static void what_is_asked_while_fetching_is_given_afterwards(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message message;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    begin_fetch(&bench, &round);
    post_ask(&bench, 3, GOSSIP_PART_MODEL, 0); // there is nothing to give now
    post_donors(&bench, (const uint8_t[]){4}, 1);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 4, true);
    check_fetched(&bench, &round);
    settle_round(&bench, 31, false);
    node_mail_free(take_sent(&bench, GOSSIP_SNAPSHOT_TELL, 3, &message));
    bench_destroy(&bench);
}

static void another_donor_goes_on(void **state)
{
    struct bench bench;
    struct node_round round;
    (void)state;
    for (int how = 0; how < 3; how++) {
        const uint8_t then = how == 2 ? 2 : 3;
        const uint64_t begun_ns = node_clock_ns();
        bench_create(&bench);
        bench_start(&bench);
        begin_fetch(&bench, &round);
        post_donors(&bench, (const uint8_t[]){2}, 1);
        answer(&bench, 2, true);
        answer(&bench, 2, true);
        answer(&bench, 2, false); // both are lost with their donor
        answer(&bench, 2, false);
        if (how == 0)
            post_peer(&bench, NODE_MAIL_LINK_DOWN, 2);
        if (how == 2)
            post_peer(&bench, NODE_MAIL_LINK_UP, 2); // or another link replaces the one that was asked over
        post_donors(&bench, &then, 1);               // or it is told to be no donor any more
        answer(&bench, then, true);
        answer(&bench, then, true);
        assert_true(node_clock_ns() - begun_ns < 4 * NODE_SECOND_NS); // not for want of patience: 5 s
        check_fetched(&bench, &round);
        bench_destroy(&bench);
    }
}

static void a_donor_that_lies_is_closed(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message message;
    float value = 1;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    begin_fetch(&bench, &round);
    post_donors(&bench, (const uint8_t[]){2}, 1);
    node_mail_free(take_sent(&bench, GOSSIP_SNAPSHOT_ASK, 2, &message));
    message = (struct gossip_message){
        .kind = GOSSIP_SNAPSHOT_TELL,
        .as.tell = {
            .snapshot = 1, .parts = 3, .values = (const uint8_t *)&value, .values_bytes = sizeof value}};
    post_message(&bench, 2, &message);
    struct node_mail *mail = take(&bench, NODE_MAIL_CLOSE);
    assert_int_equal(mail->peer.bytes[0], 2);
    node_mail_free(mail);
    post_donors(&bench, (const uint8_t[]){2, 3}, 2);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 3, true);
    check_fetched(&bench, &round);
    bench_destroy(&bench);
}

// Membership says how far the cluster may be; `answer` tells of round 30 and step 300.
static void a_donor_beyond_the_cluster_is_closed(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        const struct node_progress limits = {.round = how ? 29 : 30, .step = how ? 300 : 299};
        struct bench bench;
        struct node_round round;
        bench_create(&bench);
        bench_start(&bench);
        begin_fetch(&bench, &round);
        post_donors_of(&bench, (const uint8_t[]){2}, 1, limits);
        answer(&bench, 2, true);
        struct node_mail *mail = take(&bench, NODE_MAIL_CLOSE);
        assert_int_equal(mail->peer.bytes[0], 2);
        node_mail_free(mail);
        bench_destroy(&bench);
    }
}

static uint64_t starved_ns; // as told last

static void sent(void *owner, const struct gossip_id *peer, const struct gossip_message *message)
{
    (void)owner, (void)peer, (void)message;
}

static void closed(void *owner, const struct gossip_id *peer, const char *why)
{
    (void)owner, (void)peer, (void)why;
    fail();
}

static void starved(void *owner, uint64_t silent_ns)
{
    (void)owner;
    starved_ns = silent_ns;
}

static void donors_that_give_nothing_are_told_of(void **state)
{
    const struct node_snapshot_options options = {.send = sent, .close = closed, .starved = starved};
    const uint64_t now_ns = 1000000000, starve_ns = GOSSIP_SNAPSHOT_STARVE_NS;
    const struct gossip_id donor = id_of(2);
    struct node_snapshot_options of = options;
    struct node_snapshot *snapshot;
    struct bench bench;
    (void)state;
    bench_create(&bench);
    of.exchange = bench.exchange;
    assert_int_equal(node_snapshot_create(&of, &snapshot), BASE_OK);
    struct node_round round = round_of(&bench, 1);
    assert_int_equal(node_snapshot_fetch(snapshot, &round), BASE_OK);
    node_snapshot_donors(snapshot, &donor, 1, 0, 0, now_ns);
    node_snapshot_tick(snapshot, now_ns);
    starved_ns = 0;
    node_snapshot_tick(snapshot, now_ns + starve_ns - 1);
    assert_int_equal(starved_ns, 0);
    assert_true(node_snapshot_deadline(snapshot) <= now_ns + starve_ns);
    node_snapshot_tick(snapshot, now_ns + starve_ns);
    assert_int_equal(starved_ns, starve_ns);
    node_snapshot_destroy(snapshot);
    bench_start(&bench);
    bench_destroy(&bench);
}

static void a_fetch_can_be_ended(void **state)
{
    struct bench bench;
    struct node_round round;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    begin_fetch(&bench, &round);
    post_donors(&bench, (const uint8_t[]){2}, 1);
    answer(&bench, 2, true);
    post(&bench, node_mail_new(NODE_MAIL_FETCH));
    take_round_done(&bench, &round);
    assert_false(round.fetched);
    struct node_mail *ended = take(&bench, NODE_MAIL_FETCH);
    assert_int_equal(ended->status, -1);
    node_mail_free(ended);
    begin_fetch(&bench, &round); // the thread ends in the middle of another
    bench_destroy(&bench);
}

static void only_a_neighbour_has_an_edge(void **state)
{
    struct bench bench;
    struct gossip_message message;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_peer(&bench, NODE_MAIL_LINK_UP, 5); // linked, and in no view
    post_view(&bench, 2);
    post_peer(&bench, NODE_MAIL_LINK_UP, 2);
    node_mail_free(take_sent(&bench, GOSSIP_HELLO, 2, &message));
    settle_round(&bench, 1, false);
    assert_int_equal(gossip_exchange_edges(bench.exchange), 1);
    bench_destroy(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_alone_ends),
        cmocka_unit_test(only_the_pull_of_the_dead_is_kept),
        cmocka_unit_test(a_meeting_has_the_weight_of_the_schedule),
        cmocka_unit_test(who_stands_still_is_waited_for_by_nobody),
        cmocka_unit_test(a_round_can_be_given_up),
        cmocka_unit_test(local_has_no_edges),
        cmocka_unit_test(a_message_that_breaks_the_protocol_closes_its_link),
        cmocka_unit_test(a_block_is_given_at_the_next_rendezvous),
        cmocka_unit_test(a_learner_that_stands_still_gives_too),
        cmocka_unit_test(an_ask_for_what_is_not_there_closes_its_link),
        cmocka_unit_test(a_model_is_fetched_and_its_edges_begin_anew),
        cmocka_unit_test(what_is_asked_while_fetching_is_given_afterwards),
        cmocka_unit_test(another_donor_goes_on),
        cmocka_unit_test(a_donor_that_lies_is_closed),
        cmocka_unit_test(a_donor_beyond_the_cluster_is_closed),
        cmocka_unit_test(donors_that_give_nothing_are_told_of),
        cmocka_unit_test(a_fetch_can_be_ended),
        cmocka_unit_test(only_a_neighbour_has_an_edge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
