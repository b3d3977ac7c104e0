#include "gossip/exchange/tell.h"
#include "gossip/exchange/state.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TELL_BYTES 256u // of a line

// -- words

void gossip_tell_id(const struct gossip_id *id, char name[GOSSIP_TELL_NAME])
{
    for (size_t i = 0; i < 8; i++)
        snprintf(name + 2 * i, 3, "%02x", id->bytes[i]);
}

static void name_of(const struct gossip_teller *teller, const struct gossip_id *id,
                    char name[GOSSIP_TELL_NAME])
{
    BASE_ASSERT(id);
    if (teller->name)
        teller->name(teller->owner, id, name);
    else
        gossip_tell_id(id, name);
}

// The place of an edge, as both ends number it.
static void tell_edge(const struct gossip_edge *edge, char text[TELL_BYTES])
{
    if (!edge)
        snprintf(text, TELL_BYTES, "no edge");
    else if (edge->state == GOSSIP_EDGE_RESYNC)
        snprintf(text, TELL_BYTES, "edge resync, epoch %" PRIu64 ", from element %" PRIu64, edge->epoch,
                 edge->resync_offset);
    else
        snprintf(text, TELL_BYTES, "edge %s, epoch %" PRIu64 ", seq %" PRIu64,
                 gossip_edge_state_name(edge->state), edge->epoch, edge->sequence);
}

static void tell_message(const struct gossip_message *message, char text[TELL_BYTES])
{
    const struct gossip_exchange_message *q = &message->as.exchange;
    const char *kind = gossip_message_kind_name(message->kind);

    if (message->kind == GOSSIP_HELLO)
        snprintf(text, TELL_BYTES, "%s, epoch %" PRIu64 ", seq %" PRIu64 ", %s %u, %s", kind,
                 message->as.hello.epoch, message->as.hello.sequence,
                 message->as.hello.answer == 0    ? "tells"
                 : message->as.hello.answer < 128 ? "asks"
                                                  : "answers",
                 message->as.hello.answer & 127u,
                 gossip_standing_name((enum gossip_standing)message->as.hello.standing));
    else if (message->kind == GOSSIP_BUSY)
        snprintf(text, TELL_BYTES, "%s, epoch %" PRIu64 ", seq %" PRIu64, kind, message->as.busy.epoch,
                 message->as.busy.sequence);
    else if (message->kind == GOSSIP_PARKED)
        snprintf(text, TELL_BYTES, "%s, epoch %" PRIu64 ", seq %" PRIu64 ", it is at round %" PRIu64, kind,
                 message->as.parked.epoch, message->as.parked.sequence, message->as.parked.round);
    else if (message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK)
        snprintf(text, TELL_BYTES,
                 "%s, round %" PRIu64 ", epoch %" PRIu64 ", seq %" PRIu64 ", %s of %" PRIu32 " bytes", kind,
                 q->clock, q->epoch, q->sequence, q->form == GOSSIP_DELTA_BLOCK ? "block" : "delta",
                 q->delta_bytes);
    else
        snprintf(text, TELL_BYTES, "%s", kind);
}

static const char *event_name(enum gossip_exchange_event_kind kind)
{
    static const char *const names[] = {"link_up", "link_down", "forget",  "trust", "message",
                                        "news",    "round",     "give_up", "timer"};
    _Static_assert(sizeof names / sizeof *names == GOSSIP_EXCHANGE_TIMER + 1, "a name for each event");
    BASE_ASSERT(kind <= GOSSIP_EXCHANGE_TIMER);
    return names[kind];
}

// The event as it comes: who, which kind, its round, epoch and sequence number, and the edge's before it.
static void tell_event(const struct gossip_exchange *exchange, const struct gossip_exchange_event *event,
                       const struct gossip_teller *teller, char text[TELL_BYTES])
{
    const bool round = event->kind == GOSSIP_EXCHANGE_ROUND;
    const struct gossip_id *peer = round ? &event->round.partner : &event->peer;
    char name[GOSSIP_TELL_NAME], message[TELL_BYTES], edge[TELL_BYTES];

    if (event->kind > GOSSIP_EXCHANGE_MESSAGE && !round) {
        snprintf(text, TELL_BYTES, "%s, at round %" PRIu64, event_name(event->kind), exchange->pace.round);
        return;
    }
    if (round && !event->round.meets) {
        snprintf(text, TELL_BYTES, "round %" PRIu64 " ends%s, meets nobody", event->round.round,
                 event->round.idle ? " without a step" : "");
        return;
    }
    name_of(teller, peer, name);
    tell_edge(gossip_edge_find(exchange, peer), edge);
    if (round) {
        snprintf(text, TELL_BYTES, "round %" PRIu64 " ends, is to meet %s; %.100s", event->round.round, name,
                 edge);
        return;
    }
    snprintf(message, sizeof message, "%s", event_name(event->kind));
    if (event->kind == GOSSIP_EXCHANGE_MESSAGE)
        tell_message(event->message, message);
    snprintf(text, TELL_BYTES, "from %s: %.100s; %.80s, at round %" PRIu64, name, message, edge,
             exchange->pace.round);
}

static void tell_action(const struct gossip_exchange_action *action, const struct gossip_teller *teller,
                        char text[TELL_BYTES])
{
    static const char *const why[] = {"its values are not plausible", "it breaks the protocol",
                                      "its data have another scaling"};
    char name[GOSSIP_TELL_NAME], message[TELL_BYTES];

    if (action->kind == GOSSIP_EXCHANGE_ROUND_DONE) {
        snprintf(text, TELL_BYTES, "round %" PRIu64 " is done", action->round);
        return;
    }
    name_of(teller, &action->peer, name);
    if (action->kind == GOSSIP_EXCHANGE_REFUSE) {
        snprintf(text, TELL_BYTES, "refuses %s: %s", name, why[action->why]);
        return;
    }
    if (action->kind == GOSSIP_EXCHANGE_JUDGED) {
        snprintf(text, TELL_BYTES, "%s %s",
                 action->verdict == GOSSIP_VERDICT_TRUST ? "trusts again" : "distrusts", name);
        return;
    }
    tell_message(&action->message, message);
    snprintf(text, TELL_BYTES, "to %s: %.200s", name, message);
}

// What the open boundary waits for, and for how long at most. False: it does not wait.
static bool tell_wait(const struct gossip_exchange *exchange, const struct gossip_teller *teller,
                      char text[TELL_BYTES])
{
    const struct gossip_pace *pace = &exchange->pace;
    const bool one = gossip_id_compare(&pace->waits_for, &exchange->options.self) != 0;
    const uint64_t until_ns = exchange->wait_ns;
    char name[GOSSIP_TELL_NAME] = "";

    if (pace->reason == GOSSIP_PACE_NO_REASON || until_ns == UINT64_MAX)
        return false;
    if (one)
        name_of(teller, &pace->waits_for, name);
    snprintf(text, TELL_BYTES, "round %" PRIu64 " waits for %s%s%s, %.3f s at most", pace->round,
             gossip_pace_reason_name(pace->reason), one ? " of " : "", name,
             until_ns > exchange->now_ns ? 1e-9 * (double)(until_ns - exchange->now_ns) : 0.0);
    return true;
}

// -- a step, told

#define EDGES_TOLD 64u // of a step: more neighbours than any plan of a real cluster has

struct mark { // what can change of an edge
    struct gossip_id peer;
    enum gossip_edge_state state;
    uint64_t epoch, exchanges, replays, discards;
};
struct marks {
    struct mark edge[EDGES_TOLD];
    size_t count;
    enum gossip_pace_reason reason;
    struct gossip_id waits_for;
};

static struct mark mark_of(const struct gossip_edge *edge)
{
    return (struct mark){edge->peer,      edge->state,   edge->epoch,
                         edge->exchanges, edge->replays, edge->discards};
}

static void mark(const struct gossip_exchange *exchange, struct marks *marks)
{
    marks->count = exchange->n_edges < EDGES_TOLD ? exchange->n_edges : EDGES_TOLD;
    for (size_t i = 0; i < marks->count; i++)
        marks->edge[i] = mark_of(exchange->edges[i]);
    marks->reason = exchange->pace.reason;
    marks->waits_for = exchange->pace.waits_for;
}

static void tell_changes(const struct gossip_exchange *exchange, const struct marks *before,
                         const struct gossip_teller *teller)
{
    char name[GOSSIP_TELL_NAME], text[TELL_BYTES], edge[TELL_BYTES];

    for (size_t i = 0; i < before->count; i++) {
        const struct mark *was = &before->edge[i];
        const struct gossip_edge *now = gossip_edge_find(exchange, &was->peer);
        const struct mark is = now ? mark_of(now) : (struct mark){.state = GOSSIP_EDGE_DOWN};
        const uint64_t made = now ? is.exchanges - was->exchanges : 0;
        if (now && is.state == was->state && is.epoch == was->epoch && made == 0 &&
            is.replays == was->replays && is.discards == was->discards)
            continue;
        name_of(teller, &was->peer, name);
        tell_edge(now, edge);
        snprintf(text, sizeof text, "%s: %s -> %.100s%s%s%s", name, gossip_edge_state_name(was->state), edge,
                 made > 0 ? "; exchange made" : "",
                 now && is.replays > was->replays ? "; answer replayed" : "",
                 now && is.discards > was->discards ? "; request discarded" : "");
        teller->line(teller->owner, text);
    }
}

enum base_error gossip_tell_step(struct gossip_exchange *exchange, const struct gossip_exchange_event *event,
                                 struct gossip_exchange_actions *actions, const struct gossip_teller *teller)
{
    const struct gossip_pace *pace = &exchange->pace;
    char text[TELL_BYTES];
    struct marks before;

    tell_event(exchange, event, teller, text);
    teller->line(teller->owner, text);
    mark(exchange, &before);
    const enum base_error error = gossip_exchange_step(exchange, event, actions);
    tell_changes(exchange, &before, teller);
    for (size_t i = 0; i < actions->count; i++) {
        tell_action(&actions->list[i], teller, text);
        teller->line(teller->owner, text);
    }
    const bool same = before.reason == pace->reason && event->kind != GOSSIP_EXCHANGE_ROUND &&
                      gossip_id_compare(&before.waits_for, &pace->waits_for) == 0;
    if (!same && tell_wait(exchange, teller, text))
        teller->line(teller->owner, text);
    return error;
}

// -- the account of a round

const char *gossip_miss_name(enum gossip_miss miss)
{
    static const char *const names[] = {"none",   "stranger", "link",    "barred",    "begins", "resync",
                                        "silent", "behind",   "refused", "under_way", "spent",  "other"};
    _Static_assert(sizeof names / sizeof *names == GOSSIP_MISSES, "a name for each");
    BASE_ASSERT(miss < GOSSIP_MISSES);
    return names[miss];
}

static enum gossip_miss miss_of_live(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_LIVE);
    if (gossip_pace_spent(&exchange->pace, &edge->pace))
        return GOSSIP_MISS_SPENT;
    if (edge->pace.flight == GOSSIP_PACE_PARKED)
        return GOSSIP_MISS_BEHIND;
    if (edge->pace.flight == GOSSIP_PACE_OPEN)
        return GOSSIP_MISS_UNDER_WAY;
    return edge->pace.refusals > 0 ? GOSSIP_MISS_REFUSED : GOSSIP_MISS_OTHER;
}

static enum gossip_miss miss_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (!edge)
        return GOSSIP_MISS_STRANGER;
    switch (edge->state) {
    case GOSSIP_EDGE_DOWN:
        return GOSSIP_MISS_LINK;
    case GOSSIP_EDGE_BARRED:
        return GOSSIP_MISS_BARRED;
    case GOSSIP_EDGE_HELLO:
        return GOSSIP_MISS_BEGINS;
    case GOSSIP_EDGE_RESYNC:
        return GOSSIP_MISS_RESYNCS;
    case GOSSIP_EDGE_IN_DOUBT:
        return GOSSIP_MISS_SILENT;
    case GOSSIP_EDGE_LIVE:
        break;
    }
    return miss_of_live(exchange, edge);
}

// In async a round may meet another neighbour than the plan's: then nothing is missed.
static bool has_missed(const struct gossip_exchange *exchange, const struct gossip_edge *edge, bool met,
                       size_t n_met)
{
    if (exchange->options.sync)
        return !met;
    return n_met == 0 && !(edge && edge->pace.clock >= exchange->pace.round);
}

void gossip_exchange_account(struct gossip_exchange *exchange, const struct gossip_id *partner, bool met,
                             struct gossip_round_account *account)
{
    const struct gossip_pace *pace = &exchange->pace;
    struct gossip_accounted *told = &exchange->accounted;
    const struct gossip_edge *edge = partner ? gossip_edge_find(exchange, partner) : NULL;

    *account = (struct gossip_round_account){.planned = partner != NULL,
                                             .longest = pace->longest,
                                             .done = {pace->done.asked - told->done.asked,
                                                      pace->done.refused - told->done.refused,
                                                      pace->done.answered - told->done.answered}};
    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *other = exchange->edges[i];
        if (other->exchanges > other->accounted && account->n_met++ < GOSSIP_ROUND_MET)
            account->met[account->n_met - 1] = other->peer;
        other->accounted = other->exchanges;
    }
    for (size_t i = 0; i < GOSSIP_PACE_REASONS; i++)
        account->wait_ns[i] = pace->waits.ns[i] - told->wait_ns[i];
    if (partner) {
        account->partner = *partner;
        if (has_missed(exchange, edge, met, account->n_met))
            account->missed = miss_of(exchange, edge);
    }
    told->done = pace->done;
    memcpy(told->wait_ns, pace->waits.ns, sizeof told->wait_ns);
}
