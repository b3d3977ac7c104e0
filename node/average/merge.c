// Merging the final models (gossip/merge): the rendezvous in which the learner waits for it, and its
// messages.
#include "base/log.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include <stdlib.h>
#include <string.h>

enum base_error node_worker_make_merge(struct node_worker *worker)
{
    const struct gossip_merge_options options = {
        .self = worker->options.self,
        .parameters = gossip_exchange_parameters(worker->options.exchange),
        .patience_ns = worker->options.merge_patience_ns ? worker->options.merge_patience_ns : 1};

    return gossip_merge_create(&options, &worker->merge);
}

bool node_worker_merging(const struct node_worker *worker)
{
    return worker->round && worker->round->merge;
}

// What is merged is the published model, with every update that has come: from here on nothing changes it.
void node_worker_begin_merge(struct node_worker *worker, struct node_round *round)
{
    struct gossip_exchange *exchange = worker->options.exchange;

    BASE_ASSERT(!worker->round && round->merge && !round->merged);
    worker->round = round;
    gossip_exchange_freeze(exchange);
    gossip_exchange_kernels(exchange)->download(round->model, gossip_exchange_model(exchange),
                                                gossip_exchange_parameters(exchange) * sizeof *round->model);
    if (!gossip_merge_begin(worker->merge, round->model, round->gives, node_clock_ns()))
        return;
    base_log(BASE_LOG_ERROR, "out_of_memory", "no memory to merge the final models");
    node_worker_end_merge(worker);
}

static void say(const struct node_worker *worker, enum gossip_merge_end end)
{
    struct gossip_merge_info info;

    gossip_merge_info(worker->merge, &info);
    if (end == GOSSIP_MERGE_MERGED)
        base_log(
            BASE_LOG_INFO, "merge",
            "this node holds the mean of the final models of %zu nodes, like all others (hash %016llx); it "
            "fetched %llu bytes",
            info.gave, (unsigned long long)info.hash, (unsigned long long)info.bytes);
    else
        base_log(BASE_LOG_WARN, "merge", "this node ends with its own model, not with one for all: %s",
                 gossip_merge_end_text(end));
}

void node_worker_end_merge(struct node_worker *worker)
{
    struct node_round *round = worker->round;
    const enum gossip_merge_end end = gossip_merge_end(worker->merge);

    if (!node_worker_merging(worker))
        return; // it has just ended
    say(worker, end);
    round->merged = end == GOSSIP_MERGE_MERGED;
    if (round->merged)
        memcpy(round->model, gossip_merge_model(worker->merge),
               gossip_exchange_parameters(worker->options.exchange) * sizeof *round->model);
    gossip_exchange_replace(worker->options.exchange, round->model);
    gossip_merge_finish(worker->merge);
    struct node_message *message = node_message_new(NODE_MESSAGE_MERGED);
    message->as.complete = round->merged;
    node_worker_post(worker, message);
    node_worker_round_done(worker);
}

void node_worker_merge_heard(struct node_worker *worker, const struct node_message *message)
{
    const uint64_t now_ns = node_clock_ns();

    if (gossip_merge_heard(worker->merge, &message->peer, &message->as.received, now_ns))
        node_worker_close(worker, &message->peer, "a message of a merge that does not fit");
}

void node_worker_take_among(struct node_worker *worker, const struct node_message *message)
{
    gossip_merge_members(worker->merge, (const struct gossip_merge_member *)(const void *)message->bytes,
                         message->n_bytes / sizeof(struct gossip_merge_member), node_clock_ns());
}

void node_worker_merge_tick(struct node_worker *worker, uint64_t now_ns)
{
    struct gossip_message message;
    struct gossip_id peer;

    if (now_ns >= gossip_merge_deadline(worker->merge))
        gossip_merge_tick(worker->merge, now_ns);
    while (gossip_merge_next(worker->merge, &peer, &message))
        node_worker_send(worker, &peer, &message);
    if (gossip_merge_end(worker->merge) && node_worker_merging(worker))
        node_worker_end_merge(worker);
}
