#include "node/average/worker.h"
#include "base/hash.h"
#include "base/log.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_EVERY_NS (200 * NODE_MILLISECOND_NS)

// -- messages to events

static void link_up(struct node_worker *worker, const struct gossip_id *peer)
{
    if (gossip_average_linked(worker->average, peer, node_clock_ns()))
        base_log(BASE_LOG_ERROR, "out_of_memory",
                 "no memory for an edge: no exchange over its link until the link is established again");
    node_worker_follow(worker);
}

static void link_down(struct node_worker *worker, const struct gossip_id *peer)
{
    gossip_average_unlinked(worker->average, peer, node_clock_ns());
    node_worker_follow(worker);
}

static struct gossip_average_fetch vectors_of(const struct node_worker *worker,
                                              const struct node_round *round)
{
    const struct gossip_id *self = &worker->options.self;
    const struct gossip_learner_vectors *v = &round->at.vectors;
    return (struct gossip_average_fetch){
        .into = {.part = {v->model, v->outer, v->second_moment}, .blob = v->blob, .round = round->round},
        .scaled = round->at.scaled,
        .correction = v->correction,
        .seed = base_hash_bytes(0, self->bytes, sizeof self->bytes)};
}

static void begin_fetch(struct node_worker *worker, const struct node_round *round)
{
    const struct gossip_average_fetch fetch = vectors_of(worker, round);
    if (gossip_average_fetch(worker->average, &fetch)) {
        base_log(BASE_LOG_ERROR, "out_of_memory", "no snapshot can be fetched");
        node_worker_end_round(worker);
        return;
    }
    node_worker_drop_kept(worker);
}

static void begin_return(struct node_worker *worker, const struct node_round *round)
{
    const struct gossip_average_fetch last = vectors_of(worker, round);
    node_worker_drop_kept(worker);
    gossip_average_return(worker->average, &last);
}

static void begin_merge(struct node_worker *worker, const struct node_round *round)
{
    if (!gossip_average_merge(worker->average, round->at.vectors.model, round->gives, node_clock_ns()))
        return;
    base_log(BASE_LOG_ERROR, "out_of_memory", "no memory to merge the final models");
    node_worker_live(worker, (struct gossip_life_event){.kind = GOSSIP_LIFE_MERGED});
    node_worker_end_round(worker);
}

static void begin_meet(struct node_worker *worker, struct node_round *round)
{
    round->at.others = atomic_load_explicit(&worker->options.counters->others, memory_order_relaxed);
    gossip_average_round(worker->average, &round->at);
}

static void take_round(struct node_worker *worker, struct node_round *round)
{
    BASE_ASSERT(!worker->round && !round->done); // one at a time
    worker->round = round;
    switch (round->kind) {
    case NODE_ROUND_MEET:
        begin_meet(worker, round);
        break;
    case NODE_ROUND_OFFER:
        node_worker_end_round(worker);
        break;
    case NODE_ROUND_RETURN:
        begin_return(worker, round);
        break;
    case NODE_ROUND_FETCH:
        begin_fetch(worker, round);
        break;
    case NODE_ROUND_MERGE:
        begin_merge(worker, round);
        break;
    }
}

// False: the thread ends.
static bool handle(struct node_worker *worker, struct node_message *message)
{
    const struct gossip_id *peer = &message->peer;
    switch (message->kind) {
    case NODE_MESSAGE_LINK_UP:
        link_up(worker, peer);
        break;
    case NODE_MESSAGE_LINK_DOWN:
        link_down(worker, peer);
        break;
    case NODE_MESSAGE_EXCHANGE:
        BASE_ASSERT(message->bytes && message->n_bytes > 0); // the payloads of `received` are in there
        gossip_average_message(worker->average, peer, &message->as.received, node_clock_ns());
        break;
    case NODE_MESSAGE_VIEW:
        gossip_average_view(worker->average, message->as.graph);
        message->as.graph = NULL;
        node_worker_follow(worker);
        break;
    case NODE_MESSAGE_LIFE:
        gossip_average_order(worker->average, &message->as.life, node_clock_ns());
        break;
    case NODE_MESSAGE_ROUND:
        take_round(worker, message->as.round);
        break;
    case NODE_MESSAGE_VERDICT:
        gossip_average_verdict(worker->average, message->as.accepts, node_clock_ns());
        break;
    case NODE_MESSAGE_GIVE_UP:
        gossip_average_give_up(worker->average, node_clock_ns());
        break;
    case NODE_MESSAGE_STOP:
        return false;
    default:
        BASE_ASSERT(false); // a message that is not for the worker
    }
    node_worker_act(worker);
    return true;
}

// -- time

// The vectors stay the worker's.
static struct gossip_edge_info edge_info(const struct gossip_exchange *exchange, size_t edge)
{
    struct gossip_edge_info info;
    gossip_exchange_edge_info(exchange, edge, &info);
    info.reference = info.correction = NULL;
    info.reference_bf16 = info.correction_bf16 = NULL;
    return info;
}

static void post_edges(struct node_worker *worker, uint64_t now_ns)
{
    size_t count = gossip_exchange_edges(worker->options.exchange);
    BASE_ASSERT(worker->edges_dirty && now_ns >= worker->edges_posted_ns);
    struct gossip_edge_info *edges = calloc(count + 1, sizeof *edges);
    struct node_message *message = node_message_new(NODE_MESSAGE_EDGES);
    for (size_t i = 0; edges && i < count; i++)
        edges[i] = edge_info(worker->options.exchange, i);
    message->bytes = (uint8_t *)edges;
    message->n_bytes = edges ? count * sizeof *edges : 0;
    gossip_exchange_totals(worker->options.exchange, &message->totals);
    worker->edges_dirty = false;
    worker->edges_posted_ns = now_ns;
    node_worker_post(worker, message);
}

static uint64_t next_deadline(const struct node_worker *worker)
{
    const uint64_t deadline_ns = gossip_average_deadline(worker->average);
    const uint64_t edges_ns = worker->edges_posted_ns + EDGES_EVERY_NS;
    return worker->edges_dirty && edges_ns < deadline_ns ? edges_ns : deadline_ns;
}

// Handles what is due by now, after every message.
static void tick(struct node_worker *worker)
{
    const uint64_t now_ns = node_clock_ns();
    if (now_ns >= gossip_average_deadline(worker->average)) {
        gossip_average_tick(worker->average, now_ns);
        node_worker_act(worker);
    }
    if (worker->edges_dirty && now_ns - worker->edges_posted_ns >= EDGES_EVERY_NS)
        post_edges(worker, now_ns);
}

static void *work(void *argument)
{
    struct node_worker *worker = argument;
    (void)pthread_setname_np(pthread_self(), "worker");
    for (bool running = true; running;) {
        struct node_message *message = node_mailbox_take(worker->options.inbox, next_deadline(worker));
        if (message)
            running = handle(worker, message);
        node_message_free(message);
        if (running)
            tick(worker);
    }
    return NULL;
}

static void release(struct node_worker *worker)
{
    gossip_average_destroy(worker->average);
    node_worker_drop_kept(worker);
    free(worker);
}

static void write_line(void *owner, const char *line)
{
    (void)owner;
    base_log(BASE_LOG_DEBUG, "exchange", "%s", line);
}

enum base_error node_worker_start(const struct node_worker_options *options, struct node_worker **out)
{
    static const struct gossip_teller debug = {.line = write_line};
    struct node_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return BASE_ENOMEM;
    worker->options = *options;
    const uint64_t patience_ns = options->merge_patience_ns ? options->merge_patience_ns : 1;
    const struct gossip_average_options average = {.self = options->self,
                                                   .exchange = options->exchange,
                                                   .local = options->local,
                                                   .merge_patience_ns = patience_ns,
                                                   .judges = options->judges,
                                                   .teller = base_log_writes(BASE_LOG_DEBUG) ? &debug : NULL,
                                                   .rests = node_worker_rests,
                                                   .owner = worker};
    if (gossip_average_create(&average, &worker->average) ||
        pthread_create(&worker->thread, NULL, work, worker) != 0) {
        release(worker);
        return BASE_ENOMEM;
    }
    *out = worker;
    return BASE_OK;
}

void node_worker_join(struct node_worker *worker)
{
    pthread_join(worker->thread, NULL);
    release(worker);
}
