// The rounds of the neighbours, and how fast they are. Bounded: every node sends its round at each boundary
// (CLOCK), and one that is too far ahead waits there for the others (stale synchronous parallel: Ho et al.,
// 2013). Sync: the same, as soon as an exchange shows that two neighbours are out of step. Otherwise parts of
// a cluster that were separated would keep their distance to the end: a node skips rounds (goes_on_from) only
// when all its neighbours are ahead.
#include "base/array.h"
#include "gossip/exchange/state.h"

#include <math.h>
#include <stdlib.h>

// The time of a step on a busy host varies from round to round, so its mean over PACE_ROUNDS rounds is used.
#define PACE_ROUNDS 64.0
#define PACE_MAX    16.0 // beyond this a pace is more likely a pause
#define SYNC_DELAY  1u   // sync: rounds that a neighbour in step may be behind
#define LOST_TIMES  2u   // bounded: deadlines; the view drops a dead peer a second after its link broke

// In IN_DOUBT only the fate of a request is in doubt, and the peer can tell its round. In HELLO the peer may
// not have opened the edge yet, and would not answer.
static bool can_ask(const struct gossip_edge *edge)
{
    return edge->state == GOSSIP_EDGE_LIVE || edge->state == GOSSIP_EDGE_IN_DOUBT ||
           edge->state == GOSSIP_EDGE_RESYNC;
}

void gossip_clocks_begin(struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->round.open && exchange->clock >= 1);
    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        edge->told = false;
        const bool asks = exchange->round.follows && edge->state != GOSSIP_EDGE_DOWN;
        edge->inquiry = asks ? GOSSIP_INQUIRY_DUE : GOSSIP_INQUIRY_NONE;
    }
    exchange->round.gate_ns = exchange->now_ns + exchange->options.deadline_ceiling_ns;
}

void gossip_clocks_link(struct gossip_edge *edge)
{
    BASE_ASSERT(!edge->deferred.held);       // messages of the old link are dropped
    edge->late = edge->late && !edge->heard; // it sent no clock over the old link, either
    edge->told = edge->owed = edge->heard = edge->trails = edge->follows = edge->introduced = false;
    edge->inquiry = GOSSIP_INQUIRY_NONE;
    edge->unreplied = 0;
}

void gossip_clocks_reopened(struct gossip_edge *edge)
{
    BASE_ASSERT(edge->linked);
    if (edge->inquiry == GOSSIP_INQUIRY_OUT)
        edge->inquiry = GOSSIP_INQUIRY_DUE;
    edge->unreplied = 0;
}

// Sync: the peer is further ahead than a peer in step, so it waits for us.
static bool is_far_ahead(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->heard && edge->round != GOSSIP_CLOCK_IDLE && edge->round > exchange->clock &&
           edge->round - exchange->clock > SYNC_DELAY;
}

// The first packet of a link may be an old one, sent again; a CLOCK is not (`fresh`).
static void hear(const struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t round, bool fresh)
{
    BASE_ASSERT(edge->linked && edge->state != GOSSIP_EDGE_DOWN);
    edge->late = edge->late && edge->heard && round <= edge->round;
    edge->trails = exchange->options.sync && (fresh || edge->heard) && exchange->clock > round &&
                   exchange->clock - round > SYNC_DELAY;
    const bool advances = edge->heard && round > edge->round && round > exchange->clock;
    edge->heard = true;
    edge->follows = false;
    edge->round = round;
    edge->owed |= edge->told && is_far_ahead(exchange, edge); // it waits for us because of what we told
    if (exchange->options.sync && advances)
        edge->told = false; // in its new round it waits for us only if it hears that we are still in ours
}

// A packet also has a clock, but may be an old one that is sent again.
void gossip_clocks_note(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_exchange_message *theirs)
{
    BASE_ASSERT(edge->linked && edge->state != GOSSIP_EDGE_DOWN);
    if (!edge->heard || theirs->clock > edge->round)
        hear(exchange, edge, theirs->clock, false);
    if (theirs->pace_ns)
        edge->pace_ns = theirs->pace_ns;
}

bool gossip_clocks_passed(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->heard && edge->round > exchange->clock;
}

// The node is about to take the round of its neighbours: it tells neither its old round nor that it is idle.
static bool is_between_rounds(const struct gossip_exchange *exchange)
{
    return exchange->round.follows || exchange->round.leaves;
}

// A peer that follows is about to continue, so we wait for it.
static uint64_t clock_to_tell(const struct gossip_exchange *exchange)
{
    return exchange->idle && !exchange->round.follows ? GOSSIP_CLOCK_IDLE : exchange->clock;
}

// Answers come in the order of the questions: an answer to an earlier inquiry has an earlier round.
static void take_answer(struct gossip_edge *edge)
{
    BASE_ASSERT(edge->linked);
    edge->unreplied -= edge->unreplied > 0;
    if (edge->unreplied == 0)
        edge->inquiry = GOSSIP_INQUIRY_NONE;
}

// The peer waits for us in this round, but we meet another peer: the two views differ.
static bool waits_in_vain(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->options.sync && exchange->round.open && !exchange->idle && !edge->told &&
           edge->round == exchange->clock && !gossip_edge_wanted(exchange, edge);
}

// A peer that asks gets an answer; one that waits for us (sync) gets our round if we have passed its own, or
// do not meet it there. An answer needs none: the question said where we are, and we may be about to leave
// it. For the same reason a node that follows only asks and answers: a neighbour that follows, too, would
// take the round that this one is about to leave.
void gossip_clocks_take(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        const struct gossip_clock *theirs, struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_CLOCK, .as.clock.round = clock_to_tell(exchange)};
    const bool asks = theirs->why == GOSSIP_CLOCK_ASKS, answers = theirs->why == GOSSIP_CLOCK_ANSWERS;
    const bool follows = asks || (edge->follows && answers); // an answer does not end this

    BASE_ASSERT(edge->linked && theirs->why <= GOSSIP_CLOCK_ANSWERS);
    hear(exchange, edge, theirs->round, !asks); // one that asks is about to take our round
    edge->follows = follows;
    if (answers)
        take_answer(edge);
    const bool passed = exchange->options.sync && edge->round < exchange->clock;
    const bool in_vain = waits_in_vain(exchange, edge);
    if (asks)
        message.as.clock.why = GOSSIP_CLOCK_ANSWERS;
    else if (answers || is_between_rounds(exchange) || !(passed || in_vain))
        return;
    edge->told |= in_vain; // once in a round: otherwise two that meet others would answer each other for ever
    edge->owed |= message.as.clock.round == GOSSIP_CLOCK_IDLE;
    gossip_edge_send(actions, edge, &message);
}

static bool can_ask_any(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (can_ask(exchange->edges[i]))
            return true;
    return false;
}

// An edge in HELLO cannot ask yet: the node waits for it only if it can ask over no other edge.
uint64_t gossip_clocks_inquire_until(const struct gossip_exchange *exchange)
{
    const bool any = can_ask_any(exchange);
    uint64_t until_ns = 0;

    for (size_t i = 0; exchange->round.follows && i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        const uint64_t ns = exchange->round.started_ns + gossip_edge_patience(exchange, edge);
        const bool waits = any ? can_ask(edge) : edge->state != GOSSIP_EDGE_DOWN;
        if (waits && edge->inquiry != GOSSIP_INQUIRY_NONE && ns > until_ns)
            until_ns = ns;
    }
    return until_ns;
}

// An edge in RESYNC also counts; otherwise its ends would be left behind for as long as that takes.
static bool is_counted(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool waits = exchange->options.bounded || exchange->options.sync;

    return edge->state == GOSSIP_EDGE_LIVE || (waits && edge->state == GOSSIP_EDGE_RESYNC);
}

// Sync: its two ends begin to compare their models, and know nothing of each other's rounds.
static bool is_to_be_introduced(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->options.sync && exchange->begun && edge->state == GOSSIP_EDGE_RESYNC &&
           !edge->introduced;
}

// Sync: its request waits here. In step it may have met every other neighbour since it met this node.
static bool asks_in_step(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->deferred.held && edge->round == edge->deferred.clock &&
           edge->round - exchange->clock < exchange->n_edges;
}

static bool is_to_be_told(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool waits = (is_far_ahead(exchange, edge) && !asks_in_step(exchange, edge)) || edge->owed;

    if (edge->inquiry == GOSSIP_INQUIRY_DUE)
        return can_ask(edge);
    if (is_between_rounds(exchange))
        return false;
    if (is_to_be_introduced(exchange, edge))
        return true;
    return is_counted(exchange, edge) && !edge->told &&
           (exchange->options.bounded || (exchange->options.sync && waits));
}

void gossip_clocks_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_CLOCK, .as.clock.round = clock_to_tell(exchange)};

    for (size_t i = 0; i < exchange->n_edges && actions->count + 1 < GOSSIP_EXCHANGE_ACTIONS; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!is_to_be_told(exchange, edge))
            continue;
        const bool asks = edge->inquiry == GOSSIP_INQUIRY_DUE;
        message.as.clock.why = asks ? GOSSIP_CLOCK_ASKS : GOSSIP_CLOCK_TELLS;
        edge->inquiry = asks ? GOSSIP_INQUIRY_OUT : edge->inquiry;
        edge->unreplied += asks;
        gossip_edge_send(actions, edge, &message);
        edge->told = edge->introduced = true;
        edge->owed = exchange->idle || is_far_ahead(exchange, edge);
        BASE_ASSERT(edge->linked && (exchange->options.bounded || exchange->options.sync));
    }
}

bool gossip_clocks_untold(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_to_be_told(exchange, exchange->edges[i]))
            return true;
    return false;
}

static uint64_t lost_until(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->lost_ns + LOST_TIMES * gossip_edge_patience(exchange, edge);
}

// Until its link is back or the view drops the peer, its last round counts: where several die at once, a node
// between two of them meets nobody, and the others would have left it behind by the time they become its
// neighbours.
static bool is_lost(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool lost = edge->state == GOSSIP_EDGE_DOWN && edge->lost_ns > 0;

    return exchange->options.bounded && !exchange->options.sync && lost && edge->heard &&
           exchange->now_ns < lost_until(exchange, edge);
}

static uint64_t greeted_until(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->greeted_ns + gossip_deadline_after(&exchange->answers, exchange->options.deadline_floor_ns,
                                                    exchange->options.deadline_ceiling_ns);
}

// A new neighbour may be behind: the node waits for its first clock, up to a deadline. Before the first
// answer to a request of this node no neighbour counts as behind.
static bool is_greeted(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool bounded = exchange->options.bounded && !exchange->options.sync;

    return bounded && exchange->answers.count > 0 && edge->state == GOSSIP_EDGE_HELLO && !edge->heard &&
           exchange->now_ns < greeted_until(exchange, edge);
}

static bool is_behind(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (edge->late || edge->silent)
        return false;
    if (is_greeted(exchange, edge))
        return true;
    if (!is_counted(exchange, edge) && !is_lost(exchange, edge))
        return false;
    if (!edge->heard) // its CLOCK is still queued behind its blocks
        return exchange->options.bounded && edge->state == GOSSIP_EDGE_RESYNC;
    return edge->trails || (exchange->options.bounded && exchange->clock > edge->round &&
                            exchange->clock - edge->round > exchange->options.max_delay);
}

bool gossip_clocks_wait(const struct gossip_exchange *exchange)
{
    if (exchange->idle)
        return false;
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_behind(exchange, exchange->edges[i]))
            return true;
    return false;
}

uint64_t gossip_clocks_until(const struct gossip_exchange *exchange)
{
    uint64_t until_ns = exchange->round.gate_ns;

    BASE_ASSERT(exchange->round.open);
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        if (is_lost(exchange, edge) && lost_until(exchange, edge) < until_ns)
            until_ns = lost_until(exchange, edge);
        if (is_greeted(exchange, edge) && greeted_until(exchange, edge) < until_ns)
            until_ns = greeted_until(exchange, edge);
    }
    return until_ns;
}

void gossip_clocks_give_up(struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->round.open && !exchange->idle);
    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!is_behind(exchange, edge))
            continue;
        edge->late = true;
        edge->timeouts++;
    }
    exchange->totals.waits++;
}

// False: there is no neighbour to compare with.
static bool pace_now(const struct gossip_exchange *exchange, double *pace)
{
    uint64_t *paces = malloc((exchange->n_edges + 1) * sizeof *paces);
    size_t count = 0;

    if (!paces)
        return false;
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE && exchange->edges[i]->pace_ns)
            paces[count++] = exchange->edges[i]->pace_ns;
    const bool known = exchange->pace_ns && count > 0;
    if (known) {
        paces[count++] = exchange->pace_ns;
        qsort(paces, count, sizeof *paces, base_order_u64);
        double median = 0.5 * ((double)paces[(count - 1) / 2] + (double)paces[count / 2]);
        *pace = fmin(fmax((double)exchange->pace_ns / median, 1 / PACE_MAX), PACE_MAX);
    }
    free(paces);
    return known;
}

void gossip_clocks_pace(struct gossip_exchange *exchange, uint64_t pace_ns)
{
    if (pace_ns)
        exchange->pace_ns = pace_ns;
    double pace;
    if (pace_now(exchange, &pace))
        exchange->log_pace += (log(pace) - exchange->log_pace) / PACE_ROUNDS;
    BASE_ASSERT(isfinite(exchange->log_pace));
}

double gossip_exchange_pace(const struct gossip_exchange *exchange)
{
    return exp(exchange->log_pace);
}
