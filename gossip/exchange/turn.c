// Async: the exchanges of a node keep up with its local steps.
#include "gossip/exchange/state.h"

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
