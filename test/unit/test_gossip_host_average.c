// gossip/host/average: what leads to what between links, exchange, models that are given or fetched and the
// merge, and in which order. One node; its peers are written by the test, or are such objects as well.
#include "base/hash.h"
#include "gossip/host/average.h"
#include "test/support/cpu_kernels.h"
#include "test/support/graph_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { D = LIMIT_SNAPSHOT_BLOCK + 20, BLOCKS = 2, MEMBERS = 6, LOG = 64 };
#define SECOND 1000000000ull

struct packet {
    size_t to;
    size_t bytes;
    uint8_t *data;
};

struct node {
    size_t self;
    float *start, *model, *correction, *outer; // [D]
    struct gossip_exchange *exchange;
    struct gossip_average *average;
    uint64_t now_ns;
    bool rests;
    struct gossip_average_action action[LOG]; // since the latest event of the test
    enum gossip_message_kind sent[LOG];       // ... of SEND
    size_t n;
    struct packet packet[LOG]; // not delivered yet
    size_t n_packets;
};

static bool rests(const void *owner, struct gossip_snapshot_vectors *vectors)
{
    const struct node *node = owner;
    *vectors =
        (struct gossip_snapshot_vectors){.part = {[GOSSIP_PART_OUTER] = node->outer}, .round = 7, .step = 70};
    return node->rests;
}

static float *vector(float value)
{
    float *values = malloc(D * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < D; i++)
        values[i] = value;
    return values;
}

static void create_as(struct node *node, size_t self, float value, bool judges)
{
    struct base_reason why;
    *node = (struct node){.self = self,
                          .start = vector(value),
                          .model = vector(value),
                          .correction = vector(1),
                          .outer = vector(3),
                          .now_ns = SECOND};
    const struct gossip_exchange_options exchange = {.self = graph_id(self),
                                                     .kernels = cpu_kernels(),
                                                     .parameters = D,
                                                     .start = node->start,
                                                     .ratio = 0.5f,
                                                     .values = KERNELS_FP32,
                                                     .sync = true,
                                                     .drift_correction = true,
                                                     .drift_gain = 2,
                                                     .drift_limit = 0.25f,
                                                     .deadline_floor_ns = SECOND,
                                                     .deadline_ceiling_ns = 10 * SECOND};
    assert_int_equal(gossip_exchange_create(&exchange, &node->exchange, &why), BASE_OK);
    const struct gossip_average_options options = {.self = graph_id(self),
                                                   .exchange = node->exchange,
                                                   .merge_patience_ns = 9 * SECOND,
                                                   .judges = judges,
                                                   .rests = rests,
                                                   .owner = node};
    assert_int_equal(gossip_average_create(&options, &node->average), BASE_OK);
}

static void create(struct node *node, size_t self, float value)
{
    create_as(node, self, value, false);
}

static void destroy(struct node *node)
{
    gossip_average_destroy(node->average);
    gossip_exchange_destroy(node->exchange);
    for (size_t i = 0; i < node->n_packets; i++)
        free(node->packet[i].data);
    free(node->start);
    free(node->model);
    free(node->correction);
    free(node->outer);
}

static void keep_packet(struct node *node, const struct gossip_average_action *action)
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    struct packet *packet = &node->packet[node->n_packets++];
    assert_true(node->n_packets <= LOG);
    uint8_t *bytes = malloc(LIMIT_MESSAGE_HEADER_BYTES + 3 * D * sizeof(float));
    assert_non_null(bytes);
    *packet = (struct packet){.to = graph_number(&action->peer), .data = bytes};
    assert_int_equal(
        gossip_message_encode_header(action->message, bytes, LIMIT_MESSAGE_HEADER_BYTES, &packet->bytes),
        BASE_OK);
    const size_t n = gossip_message_payloads(action->message, payloads);
    for (size_t i = 0; i < n; packet->bytes += payloads[i++].count)
        memcpy(bytes + packet->bytes, payloads[i].bytes, payloads[i].count);
}

static void take(struct node *node)
{
    while (gossip_average_next(node->average, node->now_ns, &node->action[node->n])) {
        const struct gossip_average_action *action = &node->action[node->n];
        node->sent[node->n] = action->kind == GOSSIP_AVERAGE_SEND ? action->message->kind : 0;
        if (action->kind == GOSSIP_AVERAGE_SEND)
            keep_packet(node, action);
        node->n++;
        assert_true(node->n < LOG);
    }
}

static void act(struct node *node)
{
    node->n = 0;
    take(node);
}

// The place of an action after `from`, or SIZE_MAX.
static size_t find(const struct node *node, enum gossip_average_action_kind kind, size_t from)
{
    for (size_t i = from; i < node->n; i++)
        if (node->action[i].kind == kind)
            return i;
    return SIZE_MAX;
}

static const struct gossip_average_action *taken(const struct node *node,
                                                 enum gossip_average_action_kind kind)
{
    const size_t at = find(node, kind, 0);
    assert_int_not_equal(at, SIZE_MAX);
    return &node->action[at];
}

// What the life is told.
static const struct gossip_average_action *told(const struct node *node, enum gossip_life_event_kind kind)
{
    const struct gossip_average_action *action = taken(node, GOSSIP_AVERAGE_LIVE);
    assert_int_equal(action->live.kind, kind);
    return action;
}

static void link_up(struct node *node, size_t peer)
{
    const struct gossip_id id = graph_id(peer);
    assert_int_equal(gossip_average_linked(node->average, &id, node->now_ns), BASE_OK);
}

static void view(struct node *node, size_t members, uint64_t seed)
{
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_record records[MEMBERS];
    options.seed = seed;
    graph_view(records, members);
    gossip_average_view(node->average, graph_of(&options, records, members, node->self));
}

static void follow(struct node *node)
{
    gossip_average_follow(node->average);
    act(node);
}

static void hear(struct node *node, size_t peer, const struct gossip_message *message)
{
    const struct gossip_id id = graph_id(peer);
    gossip_average_message(node->average, &id, message, node->now_ns);
    act(node);
}

static void order(struct node *node, struct gossip_life_action action)
{
    gossip_average_order(node->average, &action, node->now_ns);
    act(node);
}

// What `from` has sent to `to`.
static void deliver(struct node *from, struct node *to)
{
    const struct gossip_id id = graph_id(from->self);
    struct packet packet[LOG];
    const size_t n = from->n_packets;
    memcpy(packet, from->packet, sizeof packet);
    from->n_packets = to->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct gossip_message message;
        assert_int_equal(packet[i].to, to->self);
        assert_int_equal(gossip_message_decode(packet[i].data, packet[i].bytes, &message), BASE_OK);
        gossip_average_message(to->average, &id, &message, to->now_ns);
        take(to);
        free(packet[i].data);
    }
}

// Two nodes that are linked.
static void create_two(struct node *node, float first, float second)
{
    create(&node[0], 0, first);
    create(&node[1], 1, second);
    for (size_t i = 0; i < 2; i++)
        link_up(&node[i], 1 - i);
}

// ... and have a live edge.
static void pair(struct node *node, float first, float second)
{
    create_two(node, first, second);
    for (size_t i = 0; i < 2; i++) {
        view(&node[i], 2, 1);
        follow(&node[i]);
    }
    while (node[0].n_packets + node[1].n_packets > 0) {
        deliver(&node[0], &node[1]);
        deliver(&node[1], &node[0]);
    }
}

static void begin_round(struct node *node, uint64_t round, bool meets)
{
    const struct gossip_average_round meet = {
        .meet = {.round = round, .meets = meets, .step_scale = 0.1f},
        .others = true,
        .vectors = {.model = node->model, .correction = node->correction}};
    gossip_average_round(node->average, &meet);
    act(node);
}

static void edges_follow_when_they_are_told_to_in_the_order_of_ids(void **state)
{
    struct node node;
    size_t last = 0, hellos = 0;
    (void)state;
    create(&node, 2, 0);
    view(&node, MEMBERS, 1);
    for (size_t i = MEMBERS; i-- > 0;)
        if (i != 2)
            link_up(&node, i);
    act(&node);
    assert_int_equal(node.n, 0);
    follow(&node);
    for (size_t i = 0; i < node.n; i++)
        if (node.action[i].kind == GOSSIP_AVERAGE_SEND) {
            assert_int_equal(node.sent[i], GOSSIP_HELLO);
            assert_true(hellos++ == 0 || graph_number(&node.action[i].peer) > last);
            assert_int_equal(node.action[i + 1].kind, GOSSIP_AVERAGE_STEPPED);
            last = graph_number(&node.action[i].peer);
        }
    assert_int_equal(hellos, 2); // a ring
    destroy(&node);
}

// What others know of this node is in its journal; the trainer goes on when all of that is done.
static void a_step_is_journaled_then_sent_then_ends_the_round(void **state)
{
    struct node node[2];
    (void)state;
    pair(node, 0, 0);
    gossip_exchange_journal_begin(node[0].exchange);
    begin_round(&node[0], 1, true);
    const size_t journal = find(&node[0], GOSSIP_AVERAGE_JOURNAL, 0);
    const size_t send = find(&node[0], GOSSIP_AVERAGE_SEND, 0);
    const size_t stepped = find(&node[0], GOSSIP_AVERAGE_STEPPED, 0);
    assert_true(journal < send && send < stepped && stepped < SIZE_MAX);
    assert_true(node[0].action[journal].bytes > 0 && node[0].action[journal].records);
    assert_int_equal(node[0].sent[send], GOSSIP_XCHG);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_DONE, 0), SIZE_MAX);
    begin_round(&node[1], 1, true);
    deliver(&node[0], &node[1]);
    deliver(&node[1], &node[0]);
    const size_t done = find(&node[0], GOSSIP_AVERAGE_DONE, 1);
    assert_int_not_equal(done, SIZE_MAX);
    assert_int_equal(node[0].action[done - 1].kind, GOSSIP_AVERAGE_STEPPED);
    assert_true(taken(&node[0], GOSSIP_AVERAGE_DONE)->met);
    assert_int_equal(taken(&node[0], GOSSIP_AVERAGE_DONE)->round, 1);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void a_round_that_is_given_up_was_not_met(void **state)
{
    struct node node[2];
    (void)state;
    pair(node, 0, 0);
    begin_round(&node[0], 1, true);
    order(&node[0], (struct gossip_life_action){.kind = GOSSIP_LIFE_END_FETCH}); // it ends no round
    assert_int_equal(node[0].n, 0);
    gossip_average_give_up(node[0].average, node[0].now_ns);
    act(&node[0]);
    assert_false(taken(&node[0], GOSSIP_AVERAGE_DONE)->met);
    gossip_average_give_up(node[0].average, node[0].now_ns); // it has just ended
    act(&node[0]);
    assert_int_equal(node[0].n, 0);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

// The checkpoint that follows agrees with what the other end knows.
static void after_the_last_boundary_nothing_is_answered(void **state)
{
    struct gossip_average_round last = {.meet = {.round = 1, .last = true}};
    struct node node[2];
    (void)state;
    pair(node, 0, 0);
    last.vectors.model = node[0].model;
    gossip_average_round(node[0].average, &last);
    act(&node[0]);
    assert_int_equal(taken(&node[0], GOSSIP_AVERAGE_DONE)->round, 1);
    begin_round(&node[1], 1, true);
    deliver(&node[1], &node[0]);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_SEND, 0), SIZE_MAX);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

// A ring in which the two do not meet: the edge is dropped at the next boundary that meets, before the round.
static void what_is_no_longer_met_is_dropped_before_the_round(void **state)
{
    struct node node[2];
    const struct gossip_id other = graph_id(1);
    const struct gossip_graph *graph;
    uint64_t seed = 1;
    (void)state;
    pair(node, 0, 0);
    for (bool meets = true; meets; seed++) {
        struct topology_options options = graph_options(TOPOLOGY_RING);
        struct gossip_record records[MEMBERS];
        options.seed = seed;
        graph_view(records, MEMBERS);
        struct gossip_graph *made = graph_of(&options, records, MEMBERS, 0);
        meets = gossip_graph_meets(graph = made, &other);
        gossip_graph_drop(made);
    }
    view(&node[0], MEMBERS, seed - 1);
    follow(&node[0]);
    begin_round(&node[0], 1, false);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_DROPS, 0), SIZE_MAX);
    begin_round(&node[0], 1, true);
    const size_t drops = find(&node[0], GOSSIP_AVERAGE_DROPS, 0);
    assert_int_equal(drops, 0);
    assert_false(node[0].action[drops].dead);
    assert_int_equal(graph_number(&node[0].action[drops].peer), 1);
    assert_int_equal(gossip_exchange_edges(node[0].exchange), 0);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void the_dead_are_forgotten_once(void **state)
{
    struct node node[2];
    (void)state;
    pair(node, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        order(&node[0], (struct gossip_life_action){.kind = GOSSIP_LIFE_FORGET, .peer = graph_id(1)});
        assert_int_equal(find(&node[0], GOSSIP_AVERAGE_DROPS, 0), i == 0 ? 0 : SIZE_MAX);
        assert_true(i > 0 || node[0].action[0].dead);
    }
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void begin_fetch(struct node *node, float *into)
{
    const struct gossip_average_fetch fetch = {
        .into = {.part = {[GOSSIP_PART_MODEL] = into}}, .correction = node->correction, .seed = 1};
    assert_int_equal(gossip_average_fetch(node->average, &fetch), BASE_OK);
    act(node);
}

static void donors(struct node *node, size_t donor)
{
    const struct gossip_id id = graph_id(donor);
    order(node, (struct gossip_life_action){
                    .kind = GOSSIP_LIFE_ASK, .ids = &id, .count = 1, .round = 30, .step = 300});
}

static void ask(struct node *node, size_t peer, uint32_t block)
{
    const struct gossip_message message = {.kind = GOSSIP_SNAPSHOT_ASK,
                                           .as.ask = {.snapshot = block > 0, .block = block}};
    hear(node, peer, &message);
}

static enum gossip_edge_state edge_state(const struct node *node)
{
    struct gossip_edge_info info;
    gossip_exchange_edge_info(node->exchange, 0, &info);
    return info.state;
}

static void a_fetch_takes_every_edge_down_and_with_its_model_all_begin_anew(void **state)
{
    struct node node[2];
    float *into = vector(0);
    (void)state;
    pair(node, 0, 5);
    assert_int_equal(edge_state(&node[0]), GOSSIP_EDGE_LIVE);
    begin_fetch(&node[0], into);
    assert_int_equal(edge_state(&node[0]), GOSSIP_EDGE_DOWN);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_SEND, 0), SIZE_MAX); // nobody has a model
    node[1].rests = true;
    donors(&node[0], 1);
    while (node[0].n_packets > 0) {
        deliver(&node[0], &node[1]);
        deliver(&node[1], &node[0]);
    }
    const struct gossip_average_action *fetched = taken(&node[0], GOSSIP_AVERAGE_FETCHED);
    assert_true(fetched->live.ok && fetched->live.round == 7 && fetched->live.step == 70);
    assert_int_equal(fetched->fetched.blocks, BLOCKS);
    assert_memory_equal(gossip_exchange_model(node[0].exchange), gossip_exchange_model(node[1].exchange),
                        D * sizeof *into);
    assert_true(into[D - 1] > 0);
    assert_true(node[0].correction[0] == 0);
    assert_int_equal(gossip_exchange_edges(node[0].exchange), 0);
    follow(&node[0]);
    assert_int_equal(node[0].sent[0], GOSSIP_HELLO);
    free(into);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

// Else the other end waits for it until its deadline.
static void a_node_that_fetches_declines_requests(void **state)
{
    struct node node[2];
    float *into = vector(0);
    (void)state;
    pair(node, 0, 0);
    begin_fetch(&node[0], into);
    begin_round(&node[1], 1, true);
    deliver(&node[1], &node[0]);
    const size_t answer = find(&node[0], GOSSIP_AVERAGE_SEND, 0);
    assert_int_not_equal(answer, SIZE_MAX);
    assert_int_equal(node[0].sent[answer], GOSSIP_BUSY);
    free(into);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void a_fetch_that_is_ended_changes_nothing(void **state)
{
    struct node node[2];
    float *into = vector(0);
    (void)state;
    pair(node, 0, 0);
    begin_fetch(&node[0], into);
    order(&node[0], (struct gossip_life_action){.kind = GOSSIP_LIFE_END_FETCH});
    assert_false(taken(&node[0], GOSSIP_AVERAGE_FETCHED)->live.ok);
    assert_true(node[0].correction[0] == 1);
    follow(&node[0]);
    assert_int_equal(node[0].sent[0], GOSSIP_HELLO);
    free(into);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void a_return_drops_the_edges_and_brings_them_up_before_it_is_done(void **state)
{
    struct node node[2];
    float *last = vector(4);
    (void)state;
    pair(node, 0, 0);
    const struct gossip_average_fetch to = {.into = {.part = {[GOSSIP_PART_MODEL] = last}, .round = 9},
                                            .correction = node[0].correction};
    gossip_average_return(node[0].average, &to);
    act(&node[0]);
    const size_t hello = find(&node[0], GOSSIP_AVERAGE_SEND, 0),
                 done = find(&node[0], GOSSIP_AVERAGE_DONE, 0);
    assert_int_equal(node[0].sent[hello], GOSSIP_HELLO);
    assert_true(hello < done && done == node[0].n - 1 && node[0].action[done].round == 9);
    assert_true(gossip_exchange_model(node[0].exchange)[0] == 4 && node[0].correction[0] == 0);
    free(last);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

// An ask waits while the trainer computes; a boundary answers it.
static void a_model_is_given_when_the_trainer_rests(void **state)
{
    struct gossip_average_action action;
    struct node node;
    (void)state;
    create(&node, 0, 6);
    link_up(&node, 1);
    ask(&node, 1, 0);
    assert_false(told(&node, GOSSIP_LIFE_SERVED)->answered);
    assert_int_equal(node.n, 1);
    assert_false(gossip_average_give(node.average, node.now_ns, &action));
    node.rests = true;
    assert_true(gossip_average_give(node.average, node.now_ns, &action));
    assert_int_equal(action.message->as.tell.round, 7);
    assert_false(gossip_average_give(node.average, node.now_ns, &action));
    ask(&node, 1, 1);
    assert_true(told(&node, GOSSIP_LIFE_SERVED)->answered);
    assert_int_equal(node.sent[0], GOSSIP_SNAPSHOT_TELL);
    node.rests = false;
    node.now_ns = gossip_average_deadline(node.average); // nobody has read the copy for long
    gossip_average_tick(node.average, node.now_ns);
    act(&node);
    ask(&node, 1, 1);
    assert_false(told(&node, GOSSIP_LIFE_SERVED)->answered);
    destroy(&node);
}

// However fresh the copy is that others read.
static void after_its_last_step_a_node_gives_the_final_model(void **state)
{
    struct gossip_average_round end = {.meet = {.round = 1, .finished = true}};
    struct gossip_average_action action;
    struct node node;
    (void)state;
    create(&node, 0, 6);
    end.vectors = (struct gossip_learner_vectors){.model = node.model, .correction = node.correction};
    link_up(&node, 1);
    node.rests = true;
    ask(&node, 1, 0);
    assert_int_not_equal(find(&node, GOSSIP_AVERAGE_SEND, 0), SIZE_MAX);
    node.rests = false;
    ask(&node, 1, 0);
    assert_true(told(&node, GOSSIP_LIFE_SERVED)->answered);
    for (size_t i = 0; i < 2; i++) {
        gossip_average_round(node.average, &end);
        act(&node);
        ask(&node, 1, 0);
        assert_int_equal(told(&node, GOSSIP_LIFE_SERVED)->answered, i > 0); // a copy after the end stays
        node.rests = true;
        assert_int_equal(gossip_average_give(node.average, node.now_ns, &action), i == 0);
        node.rests = false;
    }
    destroy(&node);
}

static void a_model_that_is_not_finite_is_not_given(void **state)
{
    struct node node;
    (void)state;
    create(&node, 0, 6);
    link_up(&node, 1);
    node.rests = true;
    node.outer[1] = NAN;
    ask(&node, 1, 0);
    assert_int_equal(taken(&node, GOSSIP_AVERAGE_UNGIVEN)->error, BASE_ESTATE);
    destroy(&node);
}

static void nodes_that_ask_during_a_fetch_wait_for_its_end(void **state)
{
    struct node node;
    float *into = vector(0);
    (void)state;
    create(&node, 0, 6);
    node.rests = true;
    begin_fetch(&node, into);
    ask(&node, 1, 0);
    assert_int_equal(find(&node, GOSSIP_AVERAGE_SEND, 0), SIZE_MAX);
    gossip_average_give_up(node.average, node.now_ns);
    act(&node);
    ask(&node, 2, 0);
    assert_int_equal(graph_number(&node.action[1].peer), 1);
    assert_int_equal(graph_number(&node.action[2].peer), 2);
    free(into);
    destroy(&node);
}

static void donors_that_deliver_nothing_are_reported(void **state)
{
    struct node node;
    float *into = vector(0);
    (void)state;
    create(&node, 0, 6);
    begin_fetch(&node, into);
    donors(&node, 1);
    const uint64_t begun_ns = node.now_ns;
    for (size_t i = 0; i < 1000; i++) {
        assert_true(gossip_average_deadline(node.average) <= begun_ns + GOSSIP_SNAPSHOT_STARVE_NS);
        node.now_ns = gossip_average_deadline(node.average);
        gossip_average_tick(node.average, node.now_ns);
        act(&node);
        if (find(&node, GOSSIP_AVERAGE_LIVE, 0) != SIZE_MAX)
            break;
    }
    assert_int_equal(node.now_ns, begun_ns + GOSSIP_SNAPSHOT_STARVE_NS);
    assert_int_equal(told(&node, GOSSIP_LIFE_STARVED)->live.silent_ns, GOSSIP_SNAPSHOT_STARVE_NS);
    free(into);
    destroy(&node);
}

static void check_refused(const struct node *node, size_t peer, enum gossip_average_why why)
{
    const size_t at = find(node, GOSSIP_AVERAGE_REFUSE, 0);
    assert_int_not_equal(at, SIZE_MAX);
    assert_int_equal(node->action[at].why, why);
    assert_int_equal(graph_number(&node->action[at].peer), peer);
    assert_int_equal(find(node, GOSSIP_AVERAGE_REFUSE, at + 1), SIZE_MAX);
}

// Each lie is refused at the peer that has told it, and at no other.
static void a_lie_is_refused_at_its_teller(void **state)
{
    struct node node;
    float *into = vector(0), value = 1;
    const uint8_t keys[16] = {2, 0, 0, 0, 0, 0, 0, 0, 1};
    const struct gossip_message hello = {.kind = GOSSIP_HELLO, .as.hello = {.resync_offset = D + 1}},
                                tell = {.kind = GOSSIP_SNAPSHOT_TELL,
                                        .as.tell = {.snapshot = 1,
                                                    .parts = 1,
                                                    .values = (const uint8_t *)&value,
                                                    .values_bytes = sizeof value}},
                                merge = {.kind = GOSSIP_MERGE,
                                         .as.merge = {.keys = keys, .keys_bytes = sizeof keys}};
    (void)state;
    create(&node, 0, 6);
    view(&node, 3, 1);
    for (size_t i = 1; i < 3; i++)
        link_up(&node, i);
    follow(&node);
    hear(&node, 2, &hello);
    check_refused(&node, 2, GOSSIP_AVERAGE_BROKEN);
    ask(&node, 1, BLOCKS);
    check_refused(&node, 1, GOSSIP_AVERAGE_ASK);
    hear(&node, 1, &merge); // its keys do not ascend
    check_refused(&node, 1, GOSSIP_AVERAGE_MERGE);
    begin_fetch(&node, into);
    donors(&node, 2);
    hear(&node, 2, &tell);
    check_refused(&node, 2, GOSSIP_AVERAGE_BLOCK);
    free(into);
    destroy(&node);
}

static void numbers_that_no_honest_node_sends_are_refused_at_their_sender(void **state)
{
    struct node node;
    struct gossip_message message;
    float *huge = malloc(LIMIT_RESYNC_BLOCK * sizeof *huge);
    (void)state;
    assert_non_null(huge);
    for (size_t i = 0; i < LIMIT_RESYNC_BLOCK; i++)
        huge[i] = 1e20f;
    create(&node, 0, 6);
    view(&node, 2, 1);
    link_up(&node, 1);
    follow(&node);
    assert_int_equal(gossip_message_decode(node.packet[0].data, node.packet[0].bytes, &message), BASE_OK);
    message.as.hello.epoch++; // of a node that began anew: both send blocks
    message.as.hello.reference_hash = 0;
    hear(&node, 1, &message);
    for (size_t i = 1; message.kind != GOSSIP_XCHG; i++) {
        assert_true(i < node.n_packets);
        assert_int_equal(gossip_message_decode(node.packet[i].data, node.packet[i].bytes, &message), BASE_OK);
    }
    message.kind = GOSSIP_XACK;
    message.as.exchange.delta = (const uint8_t *)huge;
    hear(&node, 1, &message);
    check_refused(&node, 1, GOSSIP_AVERAGE_IMPLAUSIBLE);
    free(huge);
    destroy(&node);
}

static void begin_merge(struct node *node)
{
    const struct gossip_merge_member members[2] = {{graph_id(0), 1}, {graph_id(1), 2}};
    assert_int_equal(gossip_average_merge(node->average, node->model, true, node->now_ns), BASE_OK);
    order(node, (struct gossip_life_action){.kind = GOSSIP_LIFE_AMONG, .merging = members, .count = 2});
}

static void two_merge_their_models_and_no_exchange_follows(void **state)
{
    struct node node[2];
    bool over[2] = {false, false};
    (void)state;
    create_two(node, 2, 4);
    for (size_t i = 0; i < 2; i++)
        begin_merge(&node[i]);
    for (size_t i = 0; i < 100 && !(over[0] && over[1]); i++) {
        deliver(&node[i % 2], &node[1 - i % 2]);
        for (size_t k = 0; k < 2; k++)
            if (find(&node[k], GOSSIP_AVERAGE_MERGED, 0) != SIZE_MAX) {
                assert_int_equal(taken(&node[k], GOSSIP_AVERAGE_MERGED)->end, GOSSIP_MERGE_MERGED);
                over[k] = true;
            }
    }
    assert_true(over[0] && over[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(node[i].model[0] == 3 && gossip_exchange_model(node[i].exchange)[D - 1] == 3);
        begin_round(&node[i], 1, true);
        assert_int_equal(node[i].n, 1);
        assert_int_equal(node[i].action[0].kind, GOSSIP_AVERAGE_DONE);
        destroy(&node[i]);
    }
}

// Node 0 judges the models of the others, which are 5 and 6.
static void create_judges(struct node *node, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        create_as(&node[i], i, i == 1 ? 5 : 6, i == 0);
        node[i].rests = true;
        if (i > 0) {
            link_up(&node[0], i);
            link_up(&node[i], 0);
        }
    }
}

static void exchange_packets(struct node *a, struct node *b)
{
    while (a->n_packets + b->n_packets > 0) {
        deliver(a, b);
        deliver(b, a);
    }
}

static void a_donor_whose_model_is_refused_gives_way_to_the_next(void **state)
{
    struct node node[3];
    float *into = vector(6);
    (void)state;
    create_judges(node, 3);
    begin_fetch(&node[0], into);
    donors(&node[0], 1);
    exchange_packets(&node[0], &node[1]);
    assert_true(taken(&node[0], GOSSIP_AVERAGE_JUDGE)->model[D - 1] == 5);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_FETCHED, 0), SIZE_MAX); // nothing is taken before
    assert_true(gossip_exchange_model(node[0].exchange)[0] == 6);
    gossip_average_verdict(node[0].average, false, node[0].now_ns);
    act(&node[0]);
    assert_int_equal(graph_number(&told(&node[0], GOSSIP_LIFE_UNFIT)->live.peer), 1);
    assert_int_equal(node[0].n_packets, 0);
    donors(&node[0], 2);
    exchange_packets(&node[0], &node[2]);
    assert_true(taken(&node[0], GOSSIP_AVERAGE_JUDGE)->model[D - 1] == 6);
    gossip_average_verdict(node[0].average, true, node[0].now_ns);
    act(&node[0]);
    const struct gossip_average_action *fetched = taken(&node[0], GOSSIP_AVERAGE_FETCHED);
    assert_true(fetched->live.ok && !fetched->not_alone);
    assert_int_equal(graph_number(&fetched->fetched.donor), 2);
    gossip_average_verdict(node[0].average, false, node[0].now_ns); // there is nothing to judge
    act(&node[0]);
    assert_int_equal(node[0].n, 0);
    free(into);
    for (size_t i = 0; i < 3; i++)
        destroy(&node[i]);
}

static void a_fetch_that_ends_while_a_model_is_judged_brings_none(void **state)
{
    struct node node[2];
    float *into = vector(6);
    (void)state;
    create_judges(node, 2);
    begin_fetch(&node[0], into);
    donors(&node[0], 1);
    exchange_packets(&node[0], &node[1]);
    order(&node[0], (struct gossip_life_action){.kind = GOSSIP_LIFE_END_FETCH, .on = true});
    const struct gossip_average_action *fetched = taken(&node[0], GOSSIP_AVERAGE_FETCHED);
    assert_true(!fetched->live.ok && fetched->not_alone);
    gossip_average_verdict(node[0].average, true, node[0].now_ns);
    act(&node[0]);
    assert_int_equal(node[0].n, 0);
    assert_true(gossip_exchange_model(node[0].exchange)[0] == 6);
    free(into);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

static void a_merged_model_that_is_refused_leaves_the_own_one(void **state)
{
    (void)state;
    for (int accepts = 0; accepts < 2; accepts++) {
        struct node node[2];
        bool judged = false;
        create_as(&node[0], 0, 2, true);
        create(&node[1], 1, 4);
        for (size_t i = 0; i < 2; i++)
            link_up(&node[i], 1 - i);
        for (size_t i = 0; i < 2; i++)
            begin_merge(&node[i]);
        for (size_t i = 0; i < 100 && !judged; i++) {
            deliver(&node[i % 2], &node[1 - i % 2]);
            judged = find(&node[0], GOSSIP_AVERAGE_JUDGE, 0) != SIZE_MAX;
        }
        assert_true(judged && taken(&node[0], GOSSIP_AVERAGE_JUDGE)->model[D - 1] == 3);
        assert_int_equal(find(&node[0], GOSSIP_AVERAGE_MERGED, 0), SIZE_MAX);
        gossip_average_verdict(node[0].average, accepts, node[0].now_ns);
        act(&node[0]);
        const struct gossip_average_action *merged = taken(&node[0], GOSSIP_AVERAGE_MERGED);
        assert_int_equal(merged->end, GOSSIP_MERGE_MERGED);
        assert_true(merged->live.ok == accepts && merged->refused == !accepts);
        const float expected = accepts ? 3 : 2;
        assert_true(node[0].model[0] == expected);
        assert_true(gossip_exchange_model(node[0].exchange)[D - 1] == expected);
        for (size_t i = 0; i < 2; i++)
            destroy(&node[i]);
    }
}

static void a_merge_that_is_given_up_leaves_the_own_model(void **state)
{
    struct node node[2];
    (void)state;
    create_two(node, 2, 4);
    begin_merge(&node[0]);
    assert_int_equal(find(&node[0], GOSSIP_AVERAGE_MERGED, 0), SIZE_MAX);
    gossip_average_give_up(node[0].average, node[0].now_ns);
    act(&node[0]);
    assert_int_equal(taken(&node[0], GOSSIP_AVERAGE_MERGED)->end, GOSSIP_MERGE_GOES_ON);
    assert_true(node[0].model[0] == 2);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

// A round whose partner says nothing ends at the deadline, without a fault of the owner's clock.
static void the_deadline_of_a_round_passes(void **state)
{
    struct node node[2];
    (void)state;
    pair(node, 0, 0);
    begin_round(&node[0], 1, true);
    for (size_t i = 0; i < 100 && find(&node[0], GOSSIP_AVERAGE_DONE, 0) == SIZE_MAX; i++) {
        const uint64_t deadline_ns = gossip_average_deadline(node[0].average);
        assert_true(deadline_ns > node[0].now_ns && deadline_ns < UINT64_MAX);
        node[0].now_ns = deadline_ns;
        gossip_average_tick(node[0].average, deadline_ns);
        act(&node[0]);
    }
    assert_false(taken(&node[0], GOSSIP_AVERAGE_DONE)->met);
    for (size_t i = 0; i < 2; i++)
        destroy(&node[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_follow_when_they_are_told_to_in_the_order_of_ids),
        cmocka_unit_test(a_step_is_journaled_then_sent_then_ends_the_round),
        cmocka_unit_test(a_round_that_is_given_up_was_not_met),
        cmocka_unit_test(after_the_last_boundary_nothing_is_answered),
        cmocka_unit_test(what_is_no_longer_met_is_dropped_before_the_round),
        cmocka_unit_test(the_dead_are_forgotten_once),
        cmocka_unit_test(a_fetch_takes_every_edge_down_and_with_its_model_all_begin_anew),
        cmocka_unit_test(a_node_that_fetches_declines_requests),
        cmocka_unit_test(a_fetch_that_is_ended_changes_nothing),
        cmocka_unit_test(a_return_drops_the_edges_and_brings_them_up_before_it_is_done),
        cmocka_unit_test(a_model_is_given_when_the_trainer_rests),
        cmocka_unit_test(after_its_last_step_a_node_gives_the_final_model),
        cmocka_unit_test(a_model_that_is_not_finite_is_not_given),
        cmocka_unit_test(nodes_that_ask_during_a_fetch_wait_for_its_end),
        cmocka_unit_test(donors_that_deliver_nothing_are_reported),
        cmocka_unit_test(a_lie_is_refused_at_its_teller),
        cmocka_unit_test(numbers_that_no_honest_node_sends_are_refused_at_their_sender),
        cmocka_unit_test(two_merge_their_models_and_no_exchange_follows),
        cmocka_unit_test(a_donor_whose_model_is_refused_gives_way_to_the_next),
        cmocka_unit_test(a_fetch_that_ends_while_a_model_is_judged_brings_none),
        cmocka_unit_test(a_merged_model_that_is_refused_leaves_the_own_one),
        cmocka_unit_test(a_merge_that_is_given_up_leaves_the_own_model),
        cmocka_unit_test(the_deadline_of_a_round_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
