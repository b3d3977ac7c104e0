// For whom an open round waits, and until when.
#include "gossip/exchange/state.h"

// A round waits once, for a deadline, for a broken link: it comes back, or the view drops the peer. Without
// their exchange the models of both ends would drift to their own data.
static uint64_t lost_until(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->lost_ns ? edge->lost_ns + gossip_edge_patience(exchange, edge) : 0;
}

// Sync, if others train: a round waits for an edge on which both ends can continue, but only one deadline
// while it is not live, because a RESYNC of a large model takes many.
bool gossip_wait_can_meet(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (!edge || edge->state == GOSSIP_EDGE_LIVE)
        return edge;
    if (!exchange->options.sync || !exchange->round.others || edge->waited_for)
        return false;
    return edge->state != GOSSIP_EDGE_DOWN || exchange->now_ns < lost_until(exchange, edge);
}

// All neighbours are refused, or have not exchanged for long: waiting for them would never end.
static bool has_nobody(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (!gossip_edge_apart(exchange, exchange->edges[i]) &&
            !gossip_edge_mute(exchange, exchange->edges[i]))
            return false;
    return exchange->n_edges > 0;
}

bool gossip_wait_alone(const struct gossip_exchange *exchange)
{
    if (!exchange->options.sync || !exchange->round.others || exchange->idle || has_nobody(exchange))
        return false;
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE && !exchange->edges[i]->silent)
            return false;
    return true;
}

bool gossip_wait_starved(const struct gossip_exchange *exchange)
{
    return !exchange->options.sync && exchange->round.others && !exchange->idle && !has_nobody(exchange) &&
           exchange->rounds - exchange->met > exchange->options.max_delay;
}

// Sync: the round lasts until its own exchange is made, can no longer be made, or is too late.
static bool waits_for_partner(const struct gossip_exchange *exchange)
{
    return exchange->options.sync && gossip_wait_can_meet(exchange, gossip_partner_of(exchange)) &&
           exchange->now_ns < exchange->round.deadline_ns;
}

static uint64_t partner_until(const struct gossip_exchange *exchange)
{
    const struct gossip_edge *edge = gossip_partner_of(exchange);
    uint64_t until_ns = edge->state == GOSSIP_EDGE_DOWN ? lost_until(exchange, edge) : UINT64_MAX;

    return until_ns < exchange->round.deadline_ns ? until_ns : exchange->round.deadline_ns;
}

static bool waits_for_anybody(const struct gossip_exchange *exchange)
{
    return (gossip_wait_alone(exchange) || gossip_wait_starved(exchange)) &&
           exchange->now_ns < exchange->round.alone_ns;
}

static uint64_t answers_until(const struct gossip_exchange *exchange)
{
    const uint64_t until_ns = gossip_clocks_inquire_until(exchange);
    const uint64_t follows_ns = exchange->round.started_ns + exchange->options.deadline_floor_ns;

    return until_ns < follows_ns && gossip_progress_unclear(exchange) ? follows_ns : until_ns;
}

// Clocks heard during a pause may be old: neighbours send none in rounds in which they do not meet this node.
static bool waits_for_answers(const struct gossip_exchange *exchange)
{
    return exchange->now_ns < answers_until(exchange);
}

uint64_t gossip_wait_deadline(const struct gossip_exchange *exchange)
{
    if (!exchange->round.open)
        return UINT64_MAX;
    if (exchange->round.owes)
        return exchange->round.deadline_ns;
    if (waits_for_partner(exchange))
        return partner_until(exchange);
    if (waits_for_anybody(exchange))
        return exchange->round.alone_ns;
    if (waits_for_answers(exchange))
        return answers_until(exchange);
    return gossip_clocks_wait(exchange) ? gossip_clocks_until(exchange) : UINT64_MAX;
}

// The round ends without its exchange.
static void give_up_partner(struct gossip_exchange *exchange)
{
    struct gossip_edge *edge = exchange->options.sync ? gossip_partner_of(exchange) : NULL;

    BASE_ASSERT(exchange->round.open);
    if (edge && edge->state != GOSSIP_EDGE_LIVE)
        edge->waited_for |= exchange->now_ns >= exchange->round.deadline_ns;
    if (edge && edge->state == GOSSIP_EDGE_LIVE) {
        edge->silent = !gossip_edge_leads(exchange, edge) && !exchange->round.retries; // BUSY: it is alive
        edge->timeouts += edge->silent;
    }
    exchange->round.wanted &= !exchange->options.sync;
}

// Neighbours that could have met this node in all that time, and did not.
static void waited_in_vain(struct gossip_exchange *exchange)
{
    if (!gossip_wait_starved(exchange))
        return;
    BASE_ASSERT(exchange->now_ns >= exchange->round.alone_ns);
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE || gossip_edge_asks(exchange->edges[i]))
            gossip_edge_unanswered(exchange, exchange->edges[i]);
}

// Bounded: until no neighbour is too far behind, or the node stops waiting for them.
static bool waits_for_clocks(struct gossip_exchange *exchange)
{
    if (!gossip_clocks_wait(exchange))
        return false;
    if (exchange->now_ns < exchange->round.gate_ns)
        return true;
    gossip_clocks_give_up(exchange);
    return false;
}

bool gossip_wait_over(struct gossip_exchange *exchange)
{
    if (exchange->round.owes || waits_for_partner(exchange) || waits_for_anybody(exchange) ||
        waits_for_answers(exchange))
        return false;
    give_up_partner(exchange);
    if (waits_for_clocks(exchange))
        return false;
    waited_in_vain(exchange);
    return true;
}
