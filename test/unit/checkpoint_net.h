// Node 0 with a learner and two neighbours that average with it, for tests of edges in checkpoints.
#ifndef TEST_UNIT_CHECKPOINT_NET_H
#define TEST_UNIT_CHECKPOINT_NET_H

#include "checkpoint_world.h"

#include "base/bf16.h"
#include "gossip/session/identity.h"
#include "node/store/journal.h"
#include "test/support/cpu_kernels.h"

#define ENDS 3

struct sent_message {
    size_t from, to;
    uint8_t *bytes;
    size_t count;
    struct sent_message *next;
};

// The node under test (end 0, with a learner) and its neighbours; the links keep order and take no time.
struct net {
    struct learner learner;
    size_t parameters;
    float *start, *x[ENDS], *correction;
    struct gossip_exchange *exchange[ENDS];
    struct sent_message *first, **last;
    uint64_t now_ns, round;
    enum gossip_message_kind lost; // messages of this kind never arrive
    struct node_journal *journal;  // of node 0, or NULL
};

static bool in_bf16;      // references and corrections of all exchanges
static size_t hidden = 6; // units of the models

static inline struct gossip_id id_of(size_t end)
{
    return (struct gossip_id){{(uint8_t)(0x10 + end), 7}};
}

static inline size_t end_of(const struct gossip_id *id)
{
    return (size_t)id->bytes[0] - 0x10;
}

static inline struct gossip_exchange *make_exchange(const struct net *net, size_t end)
{
    struct base_reason why = {.text = ""};
    struct gossip_exchange *exchange = NULL;
    const struct gossip_exchange_options options = {.self = id_of(end),
                                                    .kernels = cpu_kernels(),
                                                    .parameters = net->parameters,
                                                    .start = net->start,
                                                    .model = net->x[end],
                                                    .ratio = 1.0f / 32,
                                                    .values = KERNELS_INT8,
                                                    .reference_bf16 = in_bf16,
                                                    .drift_correction = true,
                                                    .drift_gain = 2,
                                                    .drift_limit = 0.25f,
                                                    .on_death = GOSSIP_ON_DEATH_KEEP,
                                                    .fade_rounds = 40,
                                                    .deadline_floor_ns = 1000000000,
                                                    .deadline_ceiling_ns = 2000000000};
    if (gossip_exchange_create(&options, &exchange, &why))
        fail_msg("%s", why.text);
    return exchange;
}

static inline void net_make(struct net *net)
{
    learner_make(&net->learner, TRAIN_SGD, hidden);
    net->learner.parts.id = id_of(0);
    net->parameters = train_model_parameters(net->learner.model);
    net->last = &net->first;
    net->start = calloc(net->parameters, sizeof(float));
    net->correction = calloc(net->parameters, sizeof(float));
    assert_true(net->start && net->correction);
    train_model_initialise(net->learner.model, 1, net->start);
    net->x[0] = train_trainer_model(net->learner.trainer);
    for (size_t i = 0; i < ENDS; i++) {
        if (i > 0) {
            net->x[i] = malloc(net->parameters * sizeof(float));
            assert_non_null(net->x[i]);
        }
        memcpy(net->x[i], net->start, net->parameters * sizeof(float));
        net->exchange[i] = make_exchange(net, i);
    }
    net->learner.parts.exchange = net->exchange[0];
}

static inline void net_free(struct net *net)
{
    assert_null(net->first);
    for (size_t i = 0; i < ENDS; i++) {
        gossip_exchange_destroy(net->exchange[i]);
        if (i > 0)
            free(net->x[i]);
    }
    free(net->start);
    free(net->correction);
    learner_free(&net->learner);
}

static inline void post(struct net *net, size_t from, const struct gossip_exchange_action *action)
{
    const struct gossip_message *message = &action->message;
    if (net->lost && message->kind == net->lost)
        return;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t count;
    assert_int_equal(gossip_message_encode_header(message, header, sizeof header, &count), BASE_OK);
    const bool carries = message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK;
    const size_t delta = carries ? message->as.exchange.delta_bytes : 0;
    struct sent_message *sent = calloc(1, sizeof *sent);
    assert_non_null(sent);
    *sent = (struct sent_message){.from = from, .to = end_of(&action->peer), .count = count + delta};
    sent->bytes = malloc(sent->count);
    assert_non_null(sent->bytes);
    memcpy(sent->bytes, header, count);
    if (delta)
        memcpy(sent->bytes + count, message->as.exchange.delta, delta);
    *net->last = sent;
    net->last = &sent->next;
}

static inline void step(struct net *net, size_t end, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;
    event->now_ns = ++net->now_ns;
    assert_int_equal(gossip_exchange_step(net->exchange[end], event, &actions), BASE_OK);
    size_t bytes;
    const uint8_t *records = gossip_exchange_journal(net->exchange[end], &bytes);
    if (end == 0 && net->journal && bytes > 0)
        node_journal_append(net->journal, records, bytes);
    for (size_t i = 0; i < actions.count; i++)
        if (actions.list[i].kind == GOSSIP_EXCHANGE_SEND)
            post(net, end, &actions.list[i]);
}

static inline void deliver_all(struct net *net)
{
    while (net->first) {
        struct sent_message *sent = net->first;
        struct gossip_message message;
        net->first = sent->next;
        if (!net->first)
            net->last = &net->first;
        assert_int_equal(gossip_message_decode(sent->bytes, sent->count, &message), BASE_OK);
        step(net, sent->to,
             &(struct gossip_exchange_event){
                 .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = id_of(sent->from), .message = &message});
        free(sent->bytes);
        free(sent);
    }
}

static inline void link_ends(struct net *net, size_t a, size_t b, enum gossip_exchange_event_kind kind)
{
    step(net, a, &(struct gossip_exchange_event){.kind = kind, .peer = id_of(b)});
    step(net, b, &(struct gossip_exchange_event){.kind = kind, .peer = id_of(a)});
    deliver_all(net);
}

// Changes x of `end` a little and begins its round with `partner`.
static inline void begin_round(struct net *net, size_t end, size_t partner)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_ROUND};
    for (size_t i = 0; i < net->parameters; i++)
        net->x[end][i] += 0.01f * (float)((i * 7 + net->round * 13 + end * 5) % 11) - 0.05f;
    event.round.round = ++net->round;
    event.round.meets = true;
    event.round.partner = id_of(partner);
    event.round.step_scale = 0.1f;
    event.round.model = net->x[end];
    event.round.correction = net->correction;
    step(net, end, &event);
}

static inline struct gossip_edge_info info_of(const struct net *net, size_t end, size_t peer)
{
    const struct gossip_id id = id_of(peer);
    struct gossip_edge_info info = {0};
    for (size_t i = 0; i < gossip_exchange_edges(net->exchange[end]); i++) {
        gossip_exchange_edge_info(net->exchange[end], i, &info);
        if (!gossip_id_compare(&info.peer, &id))
            return info;
    }
    fail_msg("node %zu has no edge to %zu", end, peer);
    return info;
}

static inline void check_both_ends(const struct net *net, size_t peer)
{
    const struct gossip_edge_info here = info_of(net, 0, peer), there = info_of(net, peer, 0);
    assert_int_equal(here.state, GOSSIP_EDGE_LIVE);
    assert_int_equal(there.state, GOSSIP_EDGE_LIVE);
    assert_int_equal(here.sequence, there.sequence);
    for (size_t i = 0; i < net->parameters && in_bf16; i++) {
        assert_int_equal(here.reference_bf16[i], there.reference_bf16[i]);
        assert_true(bf16_widen(here.correction_bf16[i]) == -bf16_widen(there.correction_bf16[i]));
    }
    for (size_t i = 0; i < net->parameters && !in_bf16; i++) {
        assert_true(here.reference[i] == there.reference[i]);
        assert_true(here.correction[i] == -there.correction[i]);
    }
}

// Node 0 after a restart: a new trainer and a new exchange object from the directory.
static inline void restart(struct world *world, struct net *net)
{
    struct base_reason why = {.text = ""};
    struct node_safetensors *file;
    gossip_exchange_destroy(net->exchange[0]);
    learner_free(&net->learner);
    net->learner = (struct learner){0};
    learner_make(&net->learner, TRAIN_SGD, hidden);
    net->learner.parts.id = id_of(0);
    if (node_checkpoint_resume(world->directory, &net->learner.parts, &file, &why))
        fail_msg("%s", why.text);
    net->x[0] = train_trainer_model(net->learner.trainer);
    net->exchange[0] = make_exchange(net, 0);
    net->learner.parts.exchange = net->exchange[0];
    node_checkpoint_resume_edges(file, net->exchange[0]);
    node_safetensors_free(file);
}

static inline void write_here(struct world *world, struct net *net)
{
    struct base_reason why;
    if (node_checkpoint_write(world->directory, 3, &net->learner.parts, &why))
        fail_msg("%s", why.text);
}

static inline void exchange_some(struct net *net, size_t rounds)
{
    link_ends(net, 0, 1, GOSSIP_EXCHANGE_LINK_UP);
    link_ends(net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
    for (size_t i = 0; i < rounds; i++) {
        begin_round(net, 0, 1 + i % 2);
        deliver_all(net);
        begin_round(net, 1, 0);
        deliver_all(net);
    }
    assert_true(info_of(net, 0, 1).sequence > 2);
}

#endif
