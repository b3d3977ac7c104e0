// The order of events. Every step handles one event, which changes its edge, then starts exchanges that can
// be started, and ends the trainer's round if it can end.
#include "gossip/exchange/state.h"

#include "base/array.h"

// Members that stop before this node are no news any more.
static void note_furthest(struct gossip_exchange *exchange)
{
    const uint64_t furthest = gossip_news_furthest(&exchange->pace.news);

    if (furthest > exchange->furthest)
        exchange->furthest = furthest;
}

// A packet has the round in which its sender made it. One that is sent again may be old.
static void note_round(struct gossip_exchange *exchange, struct gossip_edge *edge,
                       const struct gossip_exchange_message *theirs)
{
    edge->pace.ended = edge->standing == GOSSIP_FINISHED;
    if (theirs->pace_ns)
        edge->pace_ns = theirs->pace_ns;
    gossip_pace_hear(&exchange->pace, &edge->pace, theirs->clock);
    gossip_news_read(&exchange->pace.news, theirs->clock, theirs->news, theirs->news_bytes);
    note_furthest(exchange);
}

static enum base_error on_message(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                  struct gossip_edge *edge, const struct gossip_message *message,
                                  struct gossip_exchange_actions *actions)
{
    if (!edge || edge->state <= GOSSIP_EDGE_BARRED) {
        if (message->kind == GOSSIP_XCHG && !(edge && edge->state == GOSSIP_EDGE_BARRED))
            gossip_request_decline(peer, message->as.exchange.epoch, message->as.exchange.sequence, actions);
        return BASE_OK; // it was sent before its link ended
    }
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN);
    if (!gossip_plausible_message(message)) {
        const enum base_error error = gossip_plausible_refuse(exchange, edge);
        BASE_ASSERT(error == BASE_ELIMIT);
        return BASE_EFORMAT; // no training counts so far
    }
    if (message->kind == GOSSIP_HELLO)
        edge->standing = (enum gossip_standing)message->as.hello.standing;
    if (message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK) {
        edge->standing = (enum gossip_standing)message->as.exchange.standing;
        note_round(exchange, edge, &message->as.exchange);
    }
    switch (message->kind) {
    case GOSSIP_HELLO:
        if (message->as.hello.resync_offset > exchange->options.parameters)
            return BASE_EFORMAT;
        return gossip_hello_take(exchange, edge, &message->as.hello, actions);
    case GOSSIP_XCHG:
        return gossip_request_take(exchange, edge, &message->as.exchange, actions);
    case GOSSIP_XACK:
        return gossip_request_answered(exchange, edge, &message->as.exchange, actions);
    case GOSSIP_BUSY:
        gossip_request_refused(exchange, edge, &message->as.busy);
        return BASE_OK;
    case GOSSIP_PARKED:
        gossip_request_parked(exchange, edge, &message->as.parked);
        return BASE_OK;
    case GOSSIP_GREETING:
    case GOSSIP_BYE:
    case GOSSIP_MEMBERS:
    case GOSSIP_SNAPSHOT_ASK:
    case GOSSIP_SNAPSHOT_TELL:
    case GOSSIP_STATISTICS:
    case GOSSIP_MERGE:
    case GOSSIP_RELAY:
    case GOSSIP_REMOVED:
        break;
    }
    return BASE_EFORMAT;
}

static enum base_error on_link_up(struct gossip_exchange *exchange, const struct gossip_id *peer,
                                  struct gossip_exchange_actions *actions)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, peer);

    BASE_ASSERT(gossip_id_compare(peer, &exchange->options.self) != 0);
    if (!edge) {
        enum base_error error = gossip_edge_add(exchange, peer, &edge);
        if (error)
            return error;
        if (exchange->options.on_death != GOSSIP_ON_DEATH_FADE) // a fading correction continues to fade
            gossip_orphan_drop(exchange, peer);
    }
    edge->deferred.held = false; // our own request is in doubt until the peer's HELLO
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_BARRED);
    if (exchange->now_ns >= edge->barred_ns)
        gossip_hello_greet(exchange, edge, actions);
    return BASE_OK;
}

// The link may go on: another view, or a fetch, ends the edge. Then a request that waits here gets its
// answer.
static void on_link_down(struct gossip_exchange *exchange, struct gossip_edge *edge, bool unmet,
                         struct gossip_exchange_actions *actions)
{
    if (!edge)
        return;
    if (edge->deferred.held)
        gossip_request_decline(&edge->peer, edge->deferred.epoch, edge->deferred.sequence, actions);
    gossip_edge_down(exchange, edge);
    gossip_edge_rests(exchange, edge);
    if (unmet)
        gossip_pace_tie(&exchange->pace, &edge->pace, GOSSIP_PACE_APART);
}

enum base_error gossip_edge_forget(struct gossip_exchange *exchange, const struct gossip_id *peer, bool dead)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, peer);
    enum base_error error = BASE_OK;

    if (!dead && exchange->options.on_death != GOSSIP_ON_DEATH_FADE)
        gossip_orphan_drop(exchange, peer);
    else if (edge && exchange->options.on_death != GOSSIP_ON_DEATH_DROP)
        error = gossip_orphan_take(exchange, edge, dead);
    if (dead)
        gossip_orphan_died(exchange, peer);
    if (edge && !error)
        gossip_edge_remove(exchange, edge);
    if (exchange->n_orphans > 0 && exchange->options.on_death == GOSSIP_ON_DEATH_FADE)
        gossip_sum_again(exchange); // the kept corrections had begun to fade
    return error;
}

static enum base_error on_forget(struct gossip_exchange *exchange, const struct gossip_id *peer, bool dead)
{
    const struct gossip_edge *edge = gossip_edge_find(exchange, peer);

    if (edge)
        gossip_journal_forget(exchange, edge, dead);
    const enum base_error error = gossip_edge_forget(exchange, peer, dead);
    if (error)
        gossip_journal_end(exchange); // it is ahead of what happened
    return error;
}

static void doubt_block(struct gossip_exchange *exchange, struct gossip_edge *edge,
                        struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_RESYNC && edge->request.held);
    edge->timeouts++;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_IN_DOUBT);
    gossip_block_late(&edge->blocks);
    gossip_hello_ask(exchange, edge, actions);
}

// A request without a sign of life.
static void doubt_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                          struct gossip_exchange_actions *actions)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_LIVE && edge->request.held);
    edge->timeouts++;
    exchange->pace.waits.overdue++;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_IN_DOUBT);
    gossip_hello_ask(exchange, edge, actions);
}

static void on_timer(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->state == GOSSIP_EDGE_BARRED && exchange->now_ns >= edge->barred_ns)
            gossip_hello_greet(exchange, edge, actions);
        if (exchange->now_ns >= gossip_pace_due(&exchange->pace, &edge->pace))
            doubt_request(exchange, edge, actions);
        if (exchange->now_ns < edge->alarm_ns)
            continue;
        if (gossip_edge_asks(edge))
            gossip_hello_repeat(exchange, edge, actions);
        else if (edge->state == GOSSIP_EDGE_RESYNC && edge->request.held)
            doubt_block(exchange, edge, actions);
    }
    gossip_request_tell(exchange, actions);
}

enum base_error gossip_exchange_step(struct gossip_exchange *exchange,
                                     const struct gossip_exchange_event *event,
                                     struct gossip_exchange_actions *actions)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, &event->peer);
    enum base_error error = BASE_OK;

    actions->count = 0;
    exchange->journal.count = 0;
    if (exchange->frozen)
        return BASE_OK;
    exchange->now_ns = event->now_ns;
    gossip_pace_time(&exchange->pace, event->now_ns);
    switch (event->kind) {
    case GOSSIP_EXCHANGE_LINK_UP:
        error = on_link_up(exchange, &event->peer, actions);
        break;
    case GOSSIP_EXCHANGE_LINK_DOWN:
        on_link_down(exchange, edge, event->unmet, actions);
        break;
    case GOSSIP_EXCHANGE_FORGET:
        error = on_forget(exchange, &event->peer, event->dead);
        break;
    case GOSSIP_EXCHANGE_TRUST:
        if (edge)
            gossip_trust_take(exchange, edge, &event->losses, actions);
        break;
    case GOSSIP_EXCHANGE_MESSAGE:
        error = on_message(exchange, &event->peer, edge, event->message, actions);
        error = gossip_edge_settle(exchange, edge, error, actions);
        break;
    case GOSSIP_EXCHANGE_ROUND:
        if (!exchange->begun)
            gossip_hello_begin(exchange, actions);
        gossip_round_begin(exchange, event);
        break;
    case GOSSIP_EXCHANGE_GIVE_UP:
        gossip_round_give_up(exchange, actions);
        break;
    case GOSSIP_EXCHANGE_NEWS:
        gossip_news_members(&exchange->pace.news, event->news.reports, event->news.count,
                            event->news.members);
        note_furthest(exchange);
        if (event->news.alone)
            gossip_pace_left(&exchange->pace);
        break;
    case GOSSIP_EXCHANGE_TIMER:
        on_timer(exchange, actions);
        break;
    }
    gossip_hello_update(exchange, actions);
    if (!error)
        error = gossip_request_deferred(exchange, actions);
    if (!error)
        error = gossip_request_blocks(exchange, actions);
    if (error && event->kind == GOSSIP_EXCHANGE_ROUND)
        gossip_pace_skip(&exchange->pace);
    const enum base_error failed = gossip_round_pump(exchange, actions);
    error = error ? error : failed;
    BASE_ASSERT(!error || error == BASE_ENOMEM);
    return error;
}

void gossip_exchange_scaling(struct gossip_exchange *exchange, uint64_t scaling)
{
    exchange->scaling = scaling;
}

void gossip_exchange_freeze(struct gossip_exchange *exchange)
{
    exchange->frozen = true;
    gossip_boundary_let_go(exchange);
    BASE_ASSERT(exchange->model == exchange->own); // the trainer's vectors are not read from now on
}

bool gossip_exchange_frozen(const struct gossip_exchange *exchange)
{
    return exchange->frozen;
}

void gossip_exchange_replace(struct gossip_exchange *exchange, const float *model)
{
    BASE_ASSERT(exchange->frozen);
    exchange->options.kernels->upload(exchange->model, model, exchange->options.parameters * sizeof *model);
    gossip_pending_drop(exchange);
}

uint64_t gossip_exchange_deadline(const struct gossip_exchange *exchange)
{
    uint64_t next = UINT64_MAX;

    if (exchange->frozen)
        return next;
    next = exchange->wait_ns;
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        bool leads = edge->state == GOSSIP_EDGE_RESYNC && gossip_edge_leads(exchange, edge);
        if (gossip_edge_asks(edge) || leads)
            next = base_min(next, edge->alarm_ns);
        if (edge->state == GOSSIP_EDGE_BARRED)
            next = base_min(next, edge->barred_ns);
        next = base_min(next, gossip_pace_due(&exchange->pace, &edge->pace));
        if (edge->deferred.held)
            next = base_min(next, edge->tell_ns);
        if (gossip_request_answerable(exchange, edge))
            next = exchange->now_ns; // more of them than one step answers
    }
    return gossip_hello_untold(exchange) ? exchange->now_ns : next;
}
