// Carries out what gossip/host/average decides: messages, links that are closed, the end of a rendezvous,
// words.
#include "base/log.h"
#include "base/plural.h"
#include "node/average/private.h"
#include "node/queue/clock.h"
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

void node_worker_live(struct node_worker *worker, struct gossip_life_event event)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_LIVE);
    message->as.live = event;
    node_worker_post(worker, message);
}

static void send(struct node_worker *worker, const struct gossip_id *peer, const struct gossip_message *sent)
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t at = 0;
    BASE_ASSERT(!gossip_message_encode_header(sent, header, sizeof header, &at));
    size_t n = gossip_message_payloads(sent, payloads), bytes = at;
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

// The link of the peer that is to blame, which need not be the one whose message has just come.
static void refuse(struct node_worker *worker, const struct gossip_id *peer, enum gossip_average_why why)
{
    static const char *const reasons[] = {[GOSSIP_AVERAGE_BROKEN] =
                                              "a message whose contents break the exchange protocol",
                                          [GOSSIP_AVERAGE_ASK] = "it asks for a block that does not exist",
                                          [GOSSIP_AVERAGE_BLOCK] = "a block of a snapshot that does not fit",
                                          [GOSSIP_AVERAGE_MERGE] = "a message of a merge that does not fit"};
    struct node_message *message =
        node_message_new(why == GOSSIP_AVERAGE_IMPLAUSIBLE ? NODE_MESSAGE_IMPLAUSIBLE
                         : why == GOSSIP_AVERAGE_SCALING   ? NODE_MESSAGE_OTHER_SCALING
                                                           : NODE_MESSAGE_CLOSE);
    message->peer = *peer;
    if (message->kind == NODE_MESSAGE_CLOSE)
        snprintf(message->as.reason, sizeof message->as.reason, "%s", reasons[why]);
    node_worker_post(worker, message);
}

// -- the end of a rendezvous

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
    if (round->checkpoint && (round->at.meet.last || !round->checkpoint_error)) {
        round->checkpoint_error = BASE_OK;
        note_checkpoint(round, worker->options.checkpoint(context, round, &why), &why);
    }
    round->checkpoint_wanted =
        worker->options.checkpoint_wanted && worker->options.checkpoint_wanted(context);
}

static void say_ungiven(enum base_error error)
{
    base_log(BASE_LOG_WARN, "snapshot", "no snapshot was made: %s",
             error == BASE_ESTATE ? "this node's model is not finite" : base_error_name(error));
}

// Nodes that wait for a copy get one. Those that ask during the steps that follow get one of what is kept.
static void give(struct node_worker *worker, const struct node_round *round)
{
    struct gossip_average_action action;
    worker->lent = round;
    while (gossip_average_give(worker->average, node_clock_ns(), &action))
        if (action.kind == GOSSIP_AVERAGE_SEND)
            send(worker, &action.peer, action.message);
        else
            say_ungiven(action.error);
    worker->lent = NULL;
    node_worker_keep(worker, round);
}

// Learner and edges stand still here: the exchange is not stepped and the learner waits.
void node_worker_end_round(struct node_worker *worker)
{
    struct node_round *round = worker->round;
    BASE_ASSERT(round && (round->kind == NODE_ROUND_MEET || !round->checkpoint));
    worker->round = NULL;
    gossip_exchange_totals(worker->options.exchange, &round->totals);
    round->pace = gossip_exchange_pace(worker->options.exchange);
    if (round->kind == NODE_ROUND_MEET || round->kind == NODE_ROUND_OFFER)
        give(worker, round);
    if (round->at.meet.last)
        node_worker_live(worker, (struct gossip_life_event){.kind = GOSSIP_LIFE_FROZEN});
    write_checkpoint(worker, round);
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND_DONE);
    message->as.round = round;
    // If the box is full, it is full of messages from the loop, which the learner takes now.
    node_mailbox_deliver(worker->options.learner, message);
}

static void end_fetch(struct node_worker *worker, const struct gossip_average_action *action)
{
    struct node_round *round = worker->round;
    round->done = action->live.ok;
    round->not_alone = action->not_alone;
    round->donor = action->fetched.donor;
    if (round->done) {
        base_log(BASE_LOG_INFO, "snapshot",
                 "fetched: round %llu, step %llu, %zu blocks, %llu bytes, %zu donor%s",
                 (unsigned long long)action->live.round, (unsigned long long)action->live.step,
                 action->fetched.blocks, (unsigned long long)action->fetched.bytes,
                 action->fetched.donors_used, base_plural(action->fetched.donors_used));
        round->round = action->live.round;
        round->step = action->live.step;
    }
    node_worker_follow(worker); // the edges come up again first
    node_worker_live(worker, action->live);
    node_worker_end_round(worker);
}

static void end_merge(struct node_worker *worker, const struct gossip_average_action *action)
{
    worker->round->done = action->live.ok;
    worker->round->refused = action->refused;
    worker->round->nodes = action->merged.gave;
    if (action->live.ok)
        base_log(
            BASE_LOG_INFO, "merge",
            "this node holds the mean of the final models of %zu nodes, like all others (hash %016llx); it "
            "fetched %llu bytes",
            action->merged.gave, (unsigned long long)action->merged.hash,
            (unsigned long long)action->merged.bytes);
    else if (!action->refused)
        base_log(BASE_LOG_WARN, "merge", "this node ends with its own model, not with one for all: %s",
                 gossip_merge_end_text(action->end));
    node_worker_live(worker, action->live);
    node_worker_end_round(worker);
}

static void tell_verdict(const struct gossip_average_action *action)
{
    char peer[GOSSIP_ID_HEX];
    gossip_id_hex(&action->peer, peer);
    if (action->verdict == GOSSIP_VERDICT_TRUST)
        base_log(
            BASE_LOG_INFO, "trusts",
            "neighbour %.16s: what it sends fits this node's own examples again, in %u looks in a row; it "
            "moves this node's model as others do",
            peer, action->trust.good);
    else
        base_log(BASE_LOG_WARN, "distrusts",
                 "neighbour %.16s: the mean of its model and this node's has lost %.0f%% of what this node's "
                 "model knows of its own examples, in %u looks in a row far more than that with another "
                 "neighbour. It lies, is broken, or has very different data: nothing is taken from it until "
                 "%u looks in a row are good",
                 peer, 100 * action->trust.lost, action->trust.bad, gossip_trust_good(&action->trust));
}

// -- actions

static void judge(struct node_worker *worker, const float *model)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_JUDGE);
    message->as.model = model;
    node_mailbox_deliver(worker->options.learner, message);
}

static void live(struct node_worker *worker, const struct gossip_life_event *event, uint64_t now_ns)
{
    if (event->kind == GOSSIP_LIFE_SERVED) {
        if (worker->served_ns > 0 && now_ns - worker->served_ns < NODE_SECOND_NS)
            return;
        worker->served_ns = now_ns;
    }
    node_worker_live(worker, *event);
}

static void carry_out(struct node_worker *worker, const struct gossip_average_action *action)
{
    switch (action->kind) {
    case GOSSIP_AVERAGE_SEND:
        send(worker, &action->peer, action->message);
        break;
    case GOSSIP_AVERAGE_REFUSE:
        refuse(worker, &action->peer, action->why);
        break;
    case GOSSIP_AVERAGE_JOURNAL:
        if (worker->options.journal)
            worker->options.journal(worker->options.checkpoint_context, action->records, action->bytes);
        break;
    case GOSSIP_AVERAGE_JUDGED:
        tell_verdict(action);
        break;
    case GOSSIP_AVERAGE_DROPS:
        break;
    case GOSSIP_AVERAGE_STEPPED:
        worker->edges_dirty = true;
        break;
    case GOSSIP_AVERAGE_SHORT:
        base_log(BASE_LOG_ERROR, "out_of_memory",
                 "an event of the exchange was not handled; a neighbour that waits for an answer asks again");
        break;
    case GOSSIP_AVERAGE_UNGIVEN:
        say_ungiven(action->error);
        break;
    case GOSSIP_AVERAGE_DONE:
        worker->round->round = action->round;
        worker->round->met = action->met;
        if (action->account)
            worker->round->account = *action->account;
        node_worker_end_round(worker);
        break;
    case GOSSIP_AVERAGE_FETCHED:
        end_fetch(worker, action);
        break;
    case GOSSIP_AVERAGE_MERGED:
        end_merge(worker, action);
        break;
    case GOSSIP_AVERAGE_JUDGE:
        judge(worker, action->model);
        break;
    case GOSSIP_AVERAGE_LIVE:
        live(worker, &action->live, node_clock_ns());
        break;
    }
}

void node_worker_act(struct node_worker *worker)
{
    struct gossip_average_action action;
    while (gossip_average_next(worker->average, node_clock_ns(), &action))
        carry_out(worker, &action);
}

void node_worker_follow(struct node_worker *worker)
{
    gossip_average_follow(worker->average);
    node_worker_act(worker);
}
