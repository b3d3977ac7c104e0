// What the tests of node_worker share.
#ifndef TEST_UNIT_NODE_WORKER_WORLD_H
#define TEST_UNIT_NODE_WORKER_WORLD_H

#include "base/hash.h"
#include "node/average/worker.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
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

static void bench_create_as(struct bench *bench, bool keep_on_death, bool sync)
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
                                              .sync = sync,
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
    options.checkpoint = as->checkpoint ? as->checkpoint : no_checkpoint;
    assert_int_equal(node_worker_start(&options, &bench->worker), BASE_OK);
}

static void bench_start(struct bench *bench)
{
    const struct node_worker_options options = {0};
    bench_start_as(bench, &options);
}

static void post(struct bench *bench, struct node_message *message)
{
    assert_int_equal(node_mailbox_post(bench->inbox, message), BASE_OK);
}

static void bench_destroy(struct bench *bench)
{
    post(bench, node_message_new(NODE_MESSAGE_STOP));
    node_worker_join(bench->worker);
    gossip_exchange_destroy(bench->exchange);
    node_mailbox_destroy(bench->inbox, node_message_free);
    node_mailbox_destroy(bench->loop, node_message_free);
    node_mailbox_destroy(bench->learner, node_message_free);
    free(bench->start);
    free(bench->model);
    free(bench->correction);
    free(bench->outer);
}

static void post_round(struct bench *bench, struct node_round *round)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND);
    message->as.round = round;
    post(bench, message);
}

static void take_round_done(struct bench *bench, const struct node_round *round)
{
    struct node_message *message = node_mailbox_take(bench->learner, UINT64_MAX);
    assert_int_equal(message->kind, NODE_MESSAGE_ROUND_DONE);
    assert_ptr_equal(message->as.round, round);
    node_message_free(message);
}

static struct node_round round_of(struct bench *bench, uint64_t number)
{
    return (struct node_round){
        .at.meet = {.round = number, .meets = true, .step_scale = 0.1f},
        .at.vectors = {.model = bench->model, .correction = bench->correction, .outer = bench->outer},
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

// The next message of one kind to the loop. Only the worker posts there, so it arrives.
static struct node_message *take(struct bench *bench, enum node_message_kind kind)
{
    for (;;) {
        struct node_message *message = node_mailbox_take(bench->loop, UINT64_MAX);
        if (message->kind == kind)
            return message;
        node_message_free(message);
    }
}

static void post_message(struct bench *bench, uint8_t from, const struct gossip_message *received)
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes;
    assert_int_equal(gossip_message_encode_header(received, header, sizeof header, &bytes), BASE_OK);
    const size_t n = gossip_message_payloads(received, payloads);
    struct node_message *message = node_message_new(NODE_MESSAGE_EXCHANGE);
    message->peer = id_of(from);
    message->n_bytes = bytes;
    for (size_t i = 0; i < n; i++)
        message->n_bytes += payloads[i].count;
    message->bytes = malloc(message->n_bytes);
    assert_non_null(message->bytes);
    memcpy(message->bytes, header, bytes);
    for (size_t i = 0; i < n; bytes += payloads[i++].count)
        memcpy(message->bytes + bytes, payloads[i].bytes, payloads[i].count);
    assert_int_equal(gossip_message_decode(message->bytes, message->n_bytes, &message->as.received), BASE_OK);
    post(bench, message);
}

static void post_peer(struct bench *bench, enum node_message_kind kind, uint8_t peer)
{
    struct node_message *message = node_message_new(kind);
    message->peer = id_of(peer);
    post(bench, message);
}

// `array`: malloc'ed, what the action points to; or NULL.
static void post_life(struct bench *bench, struct gossip_life_action action, void *array)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_LIFE);
    message->as.life = action;
    message->bytes = array;
    post(bench, message);
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
    struct node_message *message = node_message_new(NODE_MESSAGE_VIEW);
    message->as.graph = graph_of(topology, view, n);
    post(bench, message);
}

static const struct topology_options ring = {.kind = TOPOLOGY_RING};

// A view of this node and one other.
static void post_view(struct bench *bench, uint8_t other)
{
    const struct gossip_record view[2] = {{.name = "self", .id = id_of(1), .slot = GOSSIP_NO_SLOT},
                                          {.name = "other", .id = id_of(other), .slot = GOSSIP_NO_SLOT}};
    post_members(bench, &ring, view, 2);
}

// The next message of one kind that the worker sends; *received points into it.
static struct node_message *take_sent(struct bench *bench, enum gossip_message_kind kind, uint8_t to,
                                      struct gossip_message *received)
{
    for (;;) {
        struct node_message *message = take(bench, NODE_MESSAGE_SEND);
        assert_int_equal(gossip_message_decode(message->bytes, message->n_bytes, received), BASE_OK);
        if (received->kind == kind) {
            assert_int_equal(message->peer.bytes[0], to);
            return message;
        }
        node_message_free(message);
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

#endif
