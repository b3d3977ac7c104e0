// Who talks when. Every step takes one event, lets it change the edge it concerns, then starts what may be
// started and ends the trainer's round if it may end.
#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARK_AHEAD                                                                                           \
    16u // rounds that a neighbour in step can be ahead (sync); further ahead it is answered at once
#define RETRY_FIRST_NS 1000000u // after BUSY: 1 ms, doubling
#define RETRY_DOUBLES  6u

static void send_busy(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence,
                      struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_BUSY, .as.busy = {.epoch = epoch, .sequence = sequence}};

    gossip_edge_send(actions, edge, &message);
}

static enum base_error start_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                     struct gossip_exchange_actions *actions)
{
    enum gossip_delta_form form = edge->state == GOSSIP_EDGE_BOOT ? GOSSIP_DELTA_BLOCK : GOSSIP_DELTA_SPARSE;
    enum base_error error = gossip_averaging_prepare(exchange, edge, form, exchange->clock, &edge->request);

    if (error == BASE_ESTATE)
        exchange->totals.not_finite++;
    if (error)
        return error == BASE_ESTATE ? BASE_OK : error;
    edge->request.weight = form == GOSSIP_DELTA_SPARSE ? exchange->round.weight : 0.5f;
    edge->sent_ns = exchange->now_ns;
    edge->alarm_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    exchange->active = edge;
    struct gossip_message message = gossip_packet_message(&edge->request, GOSSIP_XCHG);
    gossip_sparse_shorten(edge, &edge->request, &message);
    gossip_edge_send(actions, edge, &message);
    return BASE_OK;
}

// The edge that our own exchange of this round is to be asked for over, or NULL: none is wanted, or not now,
// or the other end asks.
static struct gossip_edge *edge_to_ask(const struct gossip_exchange *exchange)
{
    struct gossip_edge *edge =
        exchange->round.wanted ? gossip_edge_find(exchange, &exchange->round.partner) : NULL;

    if (!edge || edge->state != GOSSIP_EDGE_LIVE)
        return NULL;
    return !exchange->options.sync || gossip_edge_leads(exchange, edge) ? edge : NULL;
}

// Starts at most one exchange of our own: that of the round first, else the next block of a BOOT.
static enum base_error pump(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (exchange->active)
        return BASE_OK;
    struct gossip_edge *asked = edge_to_ask(exchange);
    if (asked && exchange->now_ns >= exchange->round.retry_ns) {
        enum base_error error = start_request(exchange, asked, actions);
        if (error || exchange->active)
            return error;
        exchange->round.wanted = false; // our model is not finite: nothing to offer
    }
    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->state == GOSSIP_EDGE_BOOT && gossip_edge_leads(exchange, edge) &&
            exchange->now_ns >= edge->alarm_ns) {
            edge->alarm_ns =
                exchange->now_ns + exchange->options.deadline_floor_ns; // if our model is not finite
            return start_request(exchange, edge, actions);
        }
    }
    return BASE_OK;
}

static bool same_transaction(const struct gossip_edge *edge, uint64_t epoch, uint64_t sequence)
{
    return edge->epoch == epoch && edge->sequence == sequence;
}

static enum base_error answer_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      const struct gossip_exchange_message *theirs,
                                      struct gossip_exchange_actions *actions)
{
    enum gossip_delta_form form = (enum gossip_delta_form)theirs->form;
    bool booting = edge->booted < exchange->options.parameters;

    if (booting != (form == GOSSIP_DELTA_BLOCK))
        return BASE_EFORMAT;
    enum base_error error = gossip_averaging_prepare(exchange, edge, form, theirs->clock, &edge->answer);
    if (error == BASE_ESTATE) {
        exchange->totals.not_finite++;
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    edge->answer.weight = theirs->weight;
    struct gossip_message message = gossip_packet_message(&edge->answer, GOSSIP_XACK);
    if (!error) {
        gossip_sparse_shorten(edge, &edge->answer, &message);
        error = gossip_averaging_commit(exchange, edge, &edge->answer, theirs, theirs->clock);
    }
    if (error)
        edge->answer.held = false;
    if (error == BASE_ENOTFOUND) {
        // Over indices that we do not remember. Our HELLO makes the peer forget them and take the request
        // back; then it comes again, with its indices.
        gossip_settle_tell(exchange, edge, actions);
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (error)
        return error;
    gossip_edge_settle(exchange, edge);
    if (form == GOSSIP_DELTA_SPARSE)
        gossip_round_note(exchange, edge, theirs->clock);
    gossip_edge_send(actions, edge, &message);
    if (edge->sequence == 1) // an edge that one end forgot begins where it began before: let them compare
        gossip_settle_tell(exchange, edge, actions);
    return BASE_OK;
}

// Both ends asked at once: the lower id's request stands, the higher id takes its own back and answers.
static bool loses_tie(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    if (!edge->request.held)
        return false;
    if (gossip_edge_leads(exchange, edge)) {
        edge->busy++;
        return true;
    }
    gossip_edge_drop_request(exchange, edge);
    return false;
}

// Sync: their round is one that we have still to come to. Where our trainer waits for this very neighbour, it
// is not: that would make both wait, each for a round of the other.
static bool is_ahead_of_us(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           unsigned form, uint64_t clock)
{
    if (!exchange->options.sync || form != GOSSIP_DELTA_SPARSE ||
        (exchange->round.open && gossip_round_meets(exchange, edge)))
        return false;
    return clock > exchange->clock && clock - exchange->clock <= PARK_AHEAD;
}

static enum base_error on_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_exchange_message *theirs,
                                  struct gossip_exchange_actions *actions)
{
    if (edge->state == GOSSIP_EDGE_HELLO) {
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    if (!same_transaction(edge, theirs->epoch, theirs->sequence) &&
        !exchange->options.mutate_ignore_sequence) {
        // Nor is the latest answer sent again: that was to another request of this number.
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        gossip_settle_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (loses_tie(exchange, edge))
        return BASE_OK;
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_settle(exchange, edge);
    if (is_ahead_of_us(exchange, edge, theirs->form, theirs->clock))
        return gossip_packet_keep(&edge->parked, theirs);
    if (exchange->active && !gossip_edge_leads(exchange, edge))
        return gossip_packet_keep(&edge->parked, theirs); // one of any circle of waiting nodes is told BUSY
    if (exchange->active) {
        edge->busy++;
        send_busy(edge, theirs->epoch, theirs->sequence, actions);
        return BASE_OK;
    }
    return answer_request(exchange, edge, theirs, actions);
}

static bool is_answerable(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->parked.held && !exchange->active &&
           !is_ahead_of_us(exchange, edge, edge->parked.form, edge->parked.clock);
}

// Requests that waited for our round, or for the end of our own exchange with somebody else.
static enum base_error answer_parked(struct gossip_exchange *exchange,
                                     struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!is_answerable(exchange, edge))
            continue;
        struct gossip_message message = gossip_packet_message(&edge->parked, GOSSIP_XCHG);
        edge->parked.held = false;
        enum base_error error = on_request(exchange, edge, &message.as.exchange, actions);
        if (error == BASE_EFORMAT)
            edge->mismatches++; // not the fault of whom this step is about: its sender gets no answer and
                                // asks
        else if (error)
            return error;
    }
    return BASE_OK;
}

static enum base_error on_answer(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                 const struct gossip_exchange_message *theirs,
                                 struct gossip_exchange_actions *actions)
{
    const struct gossip_packet *request = &edge->request;
    bool ours =
        request->held && ((theirs->epoch == request->epoch && theirs->sequence == request->sequence) ||
                          exchange->options.mutate_ignore_sequence);

    if (!ours || edge->state == GOSSIP_EDGE_HELLO)
        return BASE_OK; // an answer that was replayed once more than needed
    enum base_error error = theirs->form == (uint8_t)request->form
                                ? gossip_averaging_commit(exchange, edge, request, theirs, request->clock)
                                : BASE_EFORMAT;
    if (error == BASE_ENOTFOUND) { // over indices that we do not remember: it is replayed with them
        exchange->active = exchange->active == edge ? NULL : exchange->active;
        edge->state = GOSSIP_EDGE_IN_DOUBT;
        gossip_settle_ask(exchange, edge, actions);
        return BASE_OK;
    }
    if (error == BASE_EFORMAT) // or the same answer would break every link to come; without it the edge BOOTs
        gossip_edge_drop_request(exchange, edge);
    if (error)
        return error;
    uint64_t clock = request->clock;
    bool doubted = edge->state == GOSSIP_EDGE_IN_DOUBT;
    if (exchange->active == edge)
        gossip_deadline_learn(&edge->answers, exchange->now_ns - edge->sent_ns);
    gossip_edge_drop_request(exchange, edge);
    gossip_edge_settle(exchange, edge);
    edge->alarm_ns = 0;
    if (theirs->form == GOSSIP_DELTA_SPARSE)
        gossip_round_note(exchange, edge, clock);
    if (doubted) // a request from an old checkpoint may not be the one that this answered: let them compare
        gossip_settle_tell(exchange, edge, actions);
    return BASE_OK;
}

static uint64_t retry_delay(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                            unsigned retries)
{
    uint64_t base = (uint64_t)RETRY_FIRST_NS << (retries < RETRY_DOUBLES ? retries : RETRY_DOUBLES);
    uint64_t salt;

    memcpy(&salt, exchange->options.self.bytes,
           sizeof salt); // two nodes that met must not meet again in step
    return base + base_hash_mix(salt ^ edge->sequence ^ retries) % base;
}

static void on_busy(struct gossip_exchange *exchange, struct gossip_edge *edge,
                    const struct gossip_busy *theirs)
{
    const struct gossip_packet *request = &edge->request;

    if (!request->held || request->epoch != theirs->epoch || request->sequence != theirs->sequence)
        return;
    gossip_edge_drop_request(exchange, edge);
    edge->busy++;
    if (edge->state == GOSSIP_EDGE_IN_DOUBT)
        gossip_edge_settle(exchange, edge);
    edge->alarm_ns = exchange->now_ns + retry_delay(exchange, edge, 2);
    if (gossip_round_meets(exchange, edge))
        exchange->round.retry_ns = exchange->now_ns + retry_delay(exchange, edge, exchange->round.retries++);
}

static enum base_error on_message(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                  const struct gossip_message *message,
                                  struct gossip_exchange_actions *actions)
{
    if (!edge || edge->state == GOSSIP_EDGE_DOWN)
        return BASE_OK; // it crossed the end of its link
    edge->silent = false;
    if (message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK)
        gossip_clocks_note(edge, &message->as.exchange);
    switch (message->kind) {
    case GOSSIP_HELLO:
        if (message->as.hello.booted > exchange->options.parameters)
            return BASE_EFORMAT;
        gossip_settle_hello(exchange, edge, &message->as.hello, actions);
        return BASE_OK;
    case GOSSIP_XCHG:
        return on_request(exchange, edge, &message->as.exchange, actions);
    case GOSSIP_XACK:
        return on_answer(exchange, edge, &message->as.exchange, actions);
    case GOSSIP_BUSY:
        on_busy(exchange, edge, &message->as.busy);
        return BASE_OK;
    case GOSSIP_CLOCK:
        gossip_clocks_hear(edge, message->as.clock.round);
        return BASE_OK;
    case GOSSIP_GREETING:
    case GOSSIP_BYE:
    case GOSSIP_MEMBERS:
    case GOSSIP_SNAPSHOT_ASK:
    case GOSSIP_SNAPSHOT_TELL:
        break;
    }
    return BASE_EFORMAT;
}

static enum base_error on_link_up(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                  struct gossip_exchange_actions *actions)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, peer);

    if (!edge) {
        enum base_error error = gossip_edge_add(exchange, peer, &edge);
        if (error)
            return error;
        gossip_kept_drop(exchange, peer);
    }
    if (exchange->active == edge)
        exchange->active = NULL; // sent over the old link: in doubt until the peer's HELLO
    edge->parked.held = false;
    edge->silent = false;
    gossip_clocks_link(edge);
    gossip_settle_greet(exchange, edge, actions);
    return BASE_OK;
}

static void on_link_down(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    if (!edge)
        return;
    edge->state = GOSSIP_EDGE_DOWN;
    edge->parked.held = false;
    if (exchange->active == edge)
        exchange->active = NULL;
}

static enum base_error on_forget(struct gossip_exchange *exchange, const struct gossip_id *peer, bool dead)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, peer);
    enum base_error error = BASE_OK;

    if (!dead)
        gossip_kept_drop(exchange, peer);
    else if (edge && exchange->options.keep_on_death)
        error = gossip_kept_take(exchange, edge);
    if (edge && !error)
        gossip_edge_remove(exchange, edge);
    return error;
}

static void on_timer(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_edge *active = exchange->active;

    if (active && exchange->now_ns >= active->alarm_ns) {
        exchange->active = NULL;
        active->timeouts++;
        active->state = GOSSIP_EDGE_IN_DOUBT;
        if (gossip_round_meets(exchange, active))
            exchange->round.wanted = false;
        gossip_settle_ask(exchange, active, actions);
    }
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (gossip_edge_asks(edge) && exchange->now_ns >= edge->alarm_ns)
            gossip_settle_repeat(exchange, edge, actions);
    }
}

enum base_error gossip_exchange_step(struct gossip_exchange *exchange,
                                     const struct gossip_exchange_event *event,
                                     struct gossip_exchange_actions *actions)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, &event->peer);
    enum base_error error = BASE_OK;

    actions->count = 0;
    exchange->now_ns = event->now_ns;
    switch (event->kind) {
    case GOSSIP_EXCHANGE_LINK_UP:
        error = on_link_up(exchange, &event->peer, actions);
        break;
    case GOSSIP_EXCHANGE_LINK_DOWN:
        on_link_down(exchange, edge);
        break;
    case GOSSIP_EXCHANGE_FORGET:
        error = on_forget(exchange, &event->peer, event->dead);
        break;
    case GOSSIP_EXCHANGE_MESSAGE:
        error = on_message(exchange, edge, event->message, actions);
        break;
    case GOSSIP_EXCHANGE_ROUND:
        gossip_round_begin(exchange, event);
        break;
    case GOSSIP_EXCHANGE_TIMER:
        on_timer(exchange, actions);
        break;
    }
    if (!error)
        error = answer_parked(exchange, actions);
    if (!error)
        error = pump(exchange, actions);
    if (error && event->kind == GOSSIP_EXCHANGE_ROUND)
        exchange->round.wanted = false;
    gossip_clocks_tell(exchange, actions);
    gossip_round_end(exchange, actions);
    return error;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t gossip_exchange_deadline(const struct gossip_exchange *exchange)
{
    uint64_t next = UINT64_MAX;

    if (exchange->active)
        next = sooner(next, exchange->active->alarm_ns);
    if (exchange->round.wanted && exchange->options.sync && exchange->round.open)
        next = sooner(next, exchange->round.deadline_ns);
    if (exchange->round.open && gossip_clocks_wait(exchange))
        next = sooner(next, exchange->round.gate_ns);
    if (exchange->round.retries && !exchange->active && edge_to_ask(exchange))
        next = sooner(next, exchange->round.retry_ns);
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        bool boots =
            edge->state == GOSSIP_EDGE_BOOT && gossip_edge_leads(exchange, edge) && !exchange->active;
        if (gossip_edge_asks(edge) || boots)
            next = sooner(next, edge->alarm_ns);
        if (is_answerable(exchange, edge))
            next = exchange->now_ns; // more of them than one step answers
    }
    return gossip_clocks_untold(exchange) ? exchange->now_ns : next;
}
