#include "node/average/worker.h"
#include "base/log.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_EVERY_NS (200 * NODE_MILLISECOND_NS)

static void starved(void *owner, uint64_t silent_ns)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_STARVED);
    message->as.silent_ns = silent_ns;
    node_worker_post(owner, message);
}

static void tell_served(struct node_worker *worker, uint64_t now_ns)
{
    if (worker->served_ns > 0 && now_ns - worker->served_ns < NODE_SECOND_NS)
        return;
    worker->served_ns = now_ns;
    node_worker_post(worker, node_message_new(NODE_MESSAGE_SERVED));
}

static void take_message(struct node_worker *worker, const struct node_message *message)
{
    const struct gossip_message *received = &message->as.received;
    BASE_ASSERT(message->bytes && message->n_bytes > 0); // the payloads of `received` are in there
    if (gossip_merge_is_of(received)) {
        node_worker_merge_heard(worker, message);
    } else if (received->kind == GOSSIP_SNAPSHOT_ASK) {
        node_snapshot_asked(worker->snapshot, &message->peer, &received->as.ask, node_clock_ns());
        tell_served(worker, node_clock_ns());
    } else if (received->kind == GOSSIP_SNAPSHOT_TELL) {
        node_snapshot_told(worker->snapshot, &message->peer, &received->as.tell, node_clock_ns());
    } else { // while it fetches, every edge is down, and requests are declined
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = message->peer, .message = received};
        node_worker_step(worker, &event);
    }
}

static void take_news(struct node_worker *worker, const struct node_message *message)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_NEWS,
        .news = {.reports = (const struct gossip_report *)(const void *)message->bytes,
                 .count = message->n_bytes / sizeof(struct gossip_report),
                 .members = message->as.news.members,
                 .alone = message->as.news.alone}};
    node_worker_step(worker, &event);
}

static void take_scaling(struct node_worker *worker, const struct node_round *round)
{
    if (round->scaled)
        gossip_exchange_scaling(worker->options.exchange, gossip_blob_hash(round->blob));
}

static void post_fetched(struct node_worker *worker, bool complete)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_FETCHED);
    message->as.complete = complete;
    message->progress.round = worker->round->round;
    message->progress.step = worker->round->step;
    node_worker_post(worker, message);
}

static void begin_fetch(struct node_worker *worker, struct node_round *round)
{
    BASE_ASSERT(!worker->round && round->fetch);
    worker->round = round;
    node_worker_fetching(worker, true);
    if (node_snapshot_fetch(worker->snapshot, round)) {
        base_log(BASE_LOG_ERROR, "out_of_memory", "no snapshot can be fetched");
        node_worker_fetching(worker, false);
        node_worker_round_done(worker);
        return;
    }
    node_worker_post(worker, node_message_new(NODE_MESSAGE_WANTS));
}

// Publishes the learner's vectors, and lets every edge start again.
static void replace_model(struct node_worker *worker)
{
    const struct node_round *round = worker->round;
    struct gossip_exchange *exchange = worker->options.exchange;
    BASE_ASSERT(round && (round->fetch || round->returns));
    gossip_exchange_adopt(exchange, round->model, round->second_moment, round->round);
    if (round->correction)
        gossip_exchange_kernels(exchange)->vectors->clear(
            round->correction, gossip_exchange_parameters(exchange) * sizeof *round->correction);
    node_worker_fetching(worker, false);
}

static void finish_fetch(struct node_worker *worker)
{
    take_scaling(worker, worker->round);
    replace_model(worker);
    post_fetched(worker, true);
    node_worker_round_done(worker);
}

static void return_model(struct node_worker *worker, struct node_round *round)
{
    BASE_ASSERT(!worker->round);
    worker->round = round;
    node_worker_fetching(worker, true);
    replace_model(worker);
    node_worker_round_done(worker);
}

static void end_fetch(struct node_worker *worker)
{
    if (!node_snapshot_fetching(worker->snapshot))
        return; // it has just been completed
    BASE_ASSERT(worker->round && worker->round->fetch);
    node_snapshot_end(worker->snapshot);
    post_fetched(worker, false);
    node_worker_fetching(worker, false);
    node_worker_round_done(worker);
}

static void take_round(struct node_worker *worker, struct node_round *round)
{
    struct gossip_exchange_event event;
    BASE_ASSERT(!worker->round); // the learner waits for one before it asks for the next
    if (round->fetch) {
        begin_fetch(worker, round);
        return;
    }
    if (round->returns) {
        return_model(worker, round);
        return;
    }
    if (round->merge) {
        node_worker_begin_merge(worker, round);
        return;
    }
    take_scaling(worker, round);
    if (gossip_exchange_frozen(worker->options.exchange)) { // since a merge
        worker->round = round;
        worker->asks = false;
        node_worker_round_done(worker);
        return;
    }
    if (round->meet.meets)
        node_worker_forget_edges(worker);
    gossip_rounds_event(&round->meet, worker->edges,
                        atomic_load_explicit(&worker->options.counters->others, memory_order_relaxed),
                        &event);
    worker->asks = event.round.meets;
    worker->partner = event.round.partner;
    event.round.pace_ns = round->pace_ns;
    event.round.model = round->model;
    event.round.second_moment = round->second_moment;
    event.round.correction = round->correction;
    event.round.correction_stays = round->correction_stays;
    worker->round = round;
    node_worker_step(worker, &event);
}

// Does nothing if the round has just ended.
static void give_up_round(struct node_worker *worker)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};
    node_worker_step(worker, &event);
}

// False: the thread ends.
static bool handle(struct node_worker *worker, struct node_message *message)
{
    switch (message->kind) {
    case NODE_MESSAGE_LINK_UP: // requests over an older link are lost
        node_snapshot_gone(worker->snapshot, &message->peer, node_clock_ns());
        node_worker_link(worker, &message->peer);
        gossip_merge_linked(worker->merge, &message->peer, node_clock_ns());
        break;
    case NODE_MESSAGE_LINK_DOWN:
        gossip_edges_unlinked(worker->edges, &message->peer);
        node_snapshot_gone(worker->snapshot, &message->peer, node_clock_ns());
        node_worker_follow_edges(worker);
        gossip_merge_unlinked(worker->merge, &message->peer, node_clock_ns());
        break;
    case NODE_MESSAGE_FORGET:
        node_worker_forget(worker, &message->peer, true);
        break;
    case NODE_MESSAGE_EXCHANGE:
        take_message(worker, message);
        break;
    case NODE_MESSAGE_VIEW:
        gossip_edges_follow(worker->edges, message->as.graph);
        message->as.graph = NULL;
        node_worker_follow_edges(worker);
        break;
    case NODE_MESSAGE_DONORS:
        node_snapshot_donors(worker->snapshot, (const struct gossip_id *)(const void *)message->bytes,
                             message->n_bytes / sizeof(struct gossip_id), message->progress.round,
                             message->progress.step, node_clock_ns());
        break;
    case NODE_MESSAGE_AMONG:
        node_worker_take_among(worker, message);
        break;
    case NODE_MESSAGE_NEWS:
        take_news(worker, message);
        break;
    case NODE_MESSAGE_END_FETCH:
        end_fetch(worker);
        node_worker_end_merge(worker);
        break;
    case NODE_MESSAGE_ROUND:
        take_round(worker, message->as.round);
        break;
    case NODE_MESSAGE_GIVE_UP:
        give_up_round(worker);
        break;
    case NODE_MESSAGE_STOP:
        return false;
    default:
        BASE_ASSERT(false); // a message that is not for the worker
    }
    return true;
}

static struct node_edge_status edge_status(const struct gossip_exchange *exchange, size_t edge)
{
    struct gossip_edge_info info;
    gossip_exchange_edge_info(exchange, edge, &info);
    return (struct node_edge_status){.peer = info.peer,
                                     .state = (int)info.state,
                                     .epoch = info.epoch,
                                     .sequence = info.sequence,
                                     .exchanges = info.exchanges,
                                     .resyncs = info.resyncs,
                                     .replays = info.replays,
                                     .busy = info.busy,
                                     .timeouts = info.timeouts,
                                     .mismatches = info.mismatches,
                                     .implausible = info.implausible,
                                     .scaling = info.scaling,
                                     .other_scaling = info.other_scaling,
                                     .begins = info.begins,
                                     .silent = info.silent,
                                     .barred = info.barred,
                                     .standing = (uint8_t)info.standing,
                                     .answer_median_ns = info.answer_median_ns,
                                     .step_ns = info.pace_ns};
}

static void post_edges(struct node_worker *worker, uint64_t now_ns)
{
    size_t count = gossip_exchange_edges(worker->options.exchange);
    BASE_ASSERT(worker->edges_dirty && now_ns >= worker->edges_posted_ns);
    struct node_edge_status *edges = calloc(count + 1, sizeof *edges);
    struct node_message *message = node_message_new(NODE_MESSAGE_EDGES);
    for (size_t i = 0; edges && i < count; i++)
        edges[i] = edge_status(worker->options.exchange, i);
    message->bytes = (uint8_t *)edges;
    message->n_bytes = edges ? count * sizeof *edges : 0;
    gossip_exchange_totals(worker->options.exchange, &message->totals);
    worker->edges_dirty = false;
    worker->edges_posted_ns = now_ns;
    node_worker_post(worker, message);
}

static uint64_t next_deadline(const struct node_worker *worker)
{
    uint64_t deadline_ns = gossip_exchange_deadline(worker->options.exchange);
    uint64_t snapshot_ns = node_snapshot_deadline(worker->snapshot);
    uint64_t edges_ns = worker->edges_posted_ns + EDGES_EVERY_NS;
    uint64_t merge_ns = gossip_merge_deadline(worker->merge);
    if (merge_ns < deadline_ns)
        deadline_ns = merge_ns;
    if (snapshot_ns < deadline_ns)
        deadline_ns = snapshot_ns;
    return worker->edges_dirty && edges_ns < deadline_ns ? edges_ns : deadline_ns;
}

// Handles what is due by now, after every message.
static void tick(struct node_worker *worker)
{
    uint64_t now_ns = node_clock_ns();
    if (node_snapshot_complete(worker->snapshot))
        finish_fetch(worker);
    node_snapshot_tick(worker->snapshot, now_ns);
    node_worker_merge_tick(worker, now_ns);
    if (now_ns >= gossip_exchange_deadline(worker->options.exchange)) {
        struct gossip_exchange_event timer = {.kind = GOSSIP_EXCHANGE_TIMER};
        node_worker_step(worker, &timer);
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
    node_snapshot_destroy(worker->snapshot);
    gossip_merge_destroy(worker->merge);
    gossip_edges_destroy(worker->edges);
    free(worker);
}

enum base_error node_worker_start(const struct node_worker_options *options, struct node_worker **out)
{
    struct node_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return BASE_ENOMEM;
    worker->options = *options;
    struct node_snapshot_options snapshot = {.self = options->self,
                                             .exchange = options->exchange,
                                             .send = node_worker_send,
                                             .close = node_worker_close,
                                             .starved = starved,
                                             .owner = worker};
    if (gossip_edges_create(options->local, &worker->edges) ||
        node_snapshot_create(&snapshot, &worker->snapshot) || node_worker_make_merge(worker) ||
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
