// One event of the exchange and what follows from it: messages, links that are closed, the end of a round.
#include "base/log.h"
#include "gossip/exchange/tell.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POST_WAIT_NS                                                                                         \
    NODE_SECOND_NS // how long to wait for a full mailbox of the loop before a message is dropped

// The loop drains its box as long as it runs; what is left at its end is not needed.
void node_worker_post(struct node_worker *worker, struct node_message *message)
{
    if (node_mailbox_post_by(worker->options.loop, message, node_clock_ns() + POST_WAIT_NS))
        node_message_free(message);
}

void node_worker_send(void *owner, const struct gossip_id *peer, const struct gossip_message *received)
{
    struct node_worker *worker = owner;
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t at = 0;
    BASE_ASSERT(!gossip_message_encode_header(received, header, sizeof header, &at));
    size_t n = gossip_message_payloads(received, payloads), bytes = at;
    for (size_t i = 0; i < n; i++)
        bytes += payloads[i].count;
    struct node_message *message = node_message_new(NODE_MESSAGE_SEND);
    message->peer = *peer;
    message->bytes = malloc(bytes);
    if (!message->bytes) { // as if lost on the way: the protocol recovers
        base_log(BASE_LOG_ERROR, "out_of_memory", "a message of %zu bytes was not sent", bytes);
        node_message_free(message);
        return;
    }
    memcpy(message->bytes, header, at);
    for (size_t i = 0; i < n; at += payloads[i++].count)
        memcpy(message->bytes + at, payloads[i].bytes, payloads[i].count);
    message->n_bytes = bytes;
    node_worker_post(worker, message);
}

static void note_checkpoint(struct node_round *round, enum base_error error, const struct base_reason *why)
{
    BASE_ASSERT(!round->checkpoint_error); // it hides no earlier one
    if (!error)
        return;
    round->checkpoint_error = error;
    base_log(BASE_LOG_ERROR, "checkpoint_failed", "%s; earlier checkpoints are kept", why->text);
}

// A checkpoint that failed beside training is reported here, and begun again at the next rendezvous, unless
// this rendezvous is the last.
static void write_checkpoint(struct node_worker *worker, struct node_round *round)
{
    struct base_reason why = {0};
    void *context = worker->options.checkpoint_context;
    BASE_ASSERT(!worker->round); // the exchange knows nothing of this round any more
    round->checkpoint_error = BASE_OK;
    if (worker->options.checkpoint_ended)
        note_checkpoint(round, worker->options.checkpoint_ended(context, &why), &why);
    if (round->checkpoint && (round->meet.last || !round->checkpoint_error)) {
        round->checkpoint_error = BASE_OK;
        note_checkpoint(round, worker->options.checkpoint(context, round, &why), &why);
    }
    round->checkpoint_wanted =
        worker->options.checkpoint_wanted && worker->options.checkpoint_wanted(context);
}

// Learner and edges stand still here: the exchange is not stepped and the learner waits. After the last
// rendezvous the exchange answers nothing more, so that the checkpoint agrees with what the others know of
// this node.
void node_worker_round_done(struct node_worker *worker)
{
    struct node_round *round = worker->round;
    if (!round)
        return;
    BASE_ASSERT(!(round->fetch || round->merge) || !round->checkpoint);
    round->met = round->fetch || round->merge ||
                 gossip_exchange_met(worker->options.exchange, worker->asks ? &worker->partner : NULL,
                                     round->meet.round);
    if (round->meet.last)
        gossip_exchange_freeze(worker->options.exchange);
    worker->round = NULL;
    gossip_exchange_totals(worker->options.exchange, &round->totals);
    if (round->meet.meets)
        gossip_exchange_account(worker->options.exchange, worker->asks ? &worker->partner : NULL, round->met,
                                &round->account);
    round->pace = gossip_exchange_pace(worker->options.exchange);
    if (!round->merge) // what donors may give stays as it is
        node_snapshot_round(worker->snapshot, round, node_clock_ns());
    if (round->meet.last)
        node_worker_post(worker, node_message_new(NODE_MESSAGE_FROZEN));
    write_checkpoint(worker, round);
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND_DONE);
    message->as.round = round;
    // If the box is full, it is full of messages from the loop, which the learner takes now.
    node_mailbox_deliver(worker->options.learner, message);
}

void node_worker_close(void *owner, const struct gossip_id *peer, const char *why)
{
    struct node_worker *worker = owner;
    struct node_message *message = node_message_new(NODE_MESSAGE_CLOSE);
    message->peer = *peer;
    snprintf(message->as.reason, sizeof message->as.reason, "%s", why);
    node_worker_post(worker, message);
}

// The link of the peer that is to blame, which need not be the one whose message has just come.
static void refuse(struct node_worker *worker, const struct gossip_id *peer, enum gossip_refusal why)
{
    if (why == GOSSIP_REFUSAL_BROKEN) {
        node_worker_close(worker, peer, "a message whose contents break the exchange protocol");
        return;
    }
    struct node_message *message = node_message_new(
        why == GOSSIP_REFUSAL_IMPLAUSIBLE ? NODE_MESSAGE_IMPLAUSIBLE : NODE_MESSAGE_OTHER_SCALING);
    message->peer = *peer;
    node_worker_post(worker, message);
}

static void act(struct node_worker *worker, const struct gossip_exchange_actions *actions)
{
    bool done = false;
    for (size_t i = 0; i < actions->count; i++) {
        const struct gossip_exchange_action *action = &actions->list[i];
        switch (action->kind) {
        case GOSSIP_EXCHANGE_SEND:
            node_worker_send(worker, &action->peer, &action->message);
            break;
        case GOSSIP_EXCHANGE_REFUSE:
            refuse(worker, &action->peer, action->why);
            break;
        case GOSSIP_EXCHANGE_ROUND_DONE:
            BASE_ASSERT(!done); // a step ends one round at most
            done = true;
            if (worker->round && worker->round->meet.meets)
                worker->round->round = action->round;
            break;
        }
    }
    if (done)
        node_worker_round_done(worker);
}

// Before a message leaves: what others know of this node must be in its journal.
static void keep_records(struct node_worker *worker)
{
    size_t bytes;
    const uint8_t *records = gossip_exchange_journal(worker->options.exchange, &bytes);
    if (bytes > 0 && worker->options.journal)
        worker->options.journal(worker->options.checkpoint_context, records, bytes);
}

static void write_line(void *owner, const char *line)
{
    (void)owner;
    base_log(BASE_LOG_DEBUG, "exchange", "%s", line);
}

void node_worker_step(struct node_worker *worker, struct gossip_exchange_event *event)
{
    static const struct gossip_teller teller = {.line = write_line};
    struct gossip_exchange *exchange = worker->options.exchange;
    struct gossip_exchange_actions actions;
    BASE_ASSERT(event->now_ns == 0); // the time of the step, not of the message
    event->now_ns = node_clock_ns();
    enum base_error error = base_log_writes(BASE_LOG_DEBUG)
                                ? gossip_tell_step(exchange, event, &actions, &teller)
                                : gossip_exchange_step(exchange, event, &actions);
    worker->edges_dirty = true;
    keep_records(worker);
    act(worker, &actions); // even with an error: the round of the learner may end in any step
    if (error)
        base_log(BASE_LOG_ERROR, "out_of_memory",
                 "an event of the exchange was not handled; a neighbour that waits for an answer asks again");
}
