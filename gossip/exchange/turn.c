// Async: the exchanges of a node keep up with its local steps, and two ends in step do not ask each other at
// once.
#include "gossip/exchange/state.h"

#define WAIT_TIMES 4u // times the usual time of an exchange, which varies on a link that is always in use

// The other end asks first, if it is in step: our request would cross its own, and be withdrawn. An end that
// is behind, or has stopped asking, is not waited for, or not for long.
uint64_t gossip_turn_asks_at(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (exchange->options.sync || !edge || gossip_edge_leads(exchange, edge) || !edge->heard)
        return 0;
    const bool ahead = edge->round > exchange->clock;
    if (ahead || exchange->clock - edge->round > exchange->n_edges + 1)
        return 0;
    return exchange->now_ns + WAIT_TIMES * gossip_deadline_median(&exchange->answers);
}

// An end that has the higher id of all its edges, and asks too early in each round, gets no answer to learn
// from.
void gossip_turn_crossed(struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->active && exchange->now_ns >= exchange->round.turn_ns);
    if (!exchange->options.sync)
        gossip_deadline_learn(&exchange->answers, exchange->now_ns - exchange->round.turn_ns);
}

bool gossip_turn_due(const struct gossip_exchange *exchange)
{
    const struct gossip_edge *edge = gossip_partner_of(exchange);

    return !exchange->options.sync && !exchange->idle && edge && edge->state == GOSSIP_EDGE_LIVE &&
           !edge->silent && !gossip_edge_mute(exchange, edge);
}

// The wait for the partner was fruitless if no request to it is under way, because all were refused. A
// request that is under way has a deadline of its own.
void gossip_turn_give_up(const struct gossip_exchange *exchange)
{
    struct gossip_edge *edge = gossip_partner_of(exchange);

    if (gossip_turn_due(exchange) && exchange->active != edge)
        gossip_edge_unanswered(exchange, edge);
}
