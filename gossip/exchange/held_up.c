// Sync: a round that lasts. Neighbours hear of it, and a neighbour that is held up itself is waited for
// longer.
#include "gossip/exchange/state.h"

#define LASTS 4u // neighbours past this round hear of it when it has lasted this part of a deadline

// How long a node that waits for a request stays silent: longer than it usually waits, so that rounds in step
// are not disturbed, but not for so long that the other end cannot answer before the deadline.
uint64_t gossip_held_up_quiet(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    uint64_t least = gossip_partner_soon(exchange, edge) + 1;
    uint64_t often = 2 * gossip_deadline_median(&edge->answers);
    uint64_t most = gossip_edge_patience(exchange, edge) / 2;

    often = often < most ? often : most;
    return least > often ? least : often;
}

struct gossip_edge *gossip_held_up_by(const struct gossip_exchange *exchange)
{
    bool waits = exchange->options.sync && exchange->round.open && exchange->round.wanted;
    struct gossip_edge *edge = waits ? gossip_edge_find(exchange, &exchange->round.partner) : NULL;

    return edge && edge->state == GOSSIP_EDGE_LIVE && !gossip_partner_asked(exchange) ? edge : NULL;
}

// A neighbour that is past this round may wait for this node, and must hear in time that the round lasts.
static bool is_to_hear(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->options.sync && exchange->round.open && !exchange->round.follows &&
           edge->state == GOSSIP_EDGE_LIVE && !edge->told && gossip_clocks_passed(exchange, edge);
}

static uint64_t hears_at(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->round.started_ns + gossip_edge_patience(exchange, edge) / LASTS;
}

uint64_t gossip_held_up_tells_at(const struct gossip_exchange *exchange)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_to_hear(exchange, exchange->edges[i]) && hears_at(exchange, exchange->edges[i]) < next)
            next = hears_at(exchange, exchange->edges[i]);
    return next;
}

void gossip_held_up_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_CLOCK, .as.clock.round = exchange->clock};
    struct gossip_edge *awaited = gossip_held_up_by(exchange);

    if (awaited && exchange->now_ns >= exchange->round.tell_ns) {
        exchange->round.tell_ns = exchange->now_ns + (exchange->now_ns - exchange->round.started_ns);
        gossip_edge_send(actions, awaited, &message);
    }
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!is_to_hear(exchange, edge) || exchange->now_ns < hears_at(exchange, edge))
            continue;
        edge->told = true;
        BASE_ASSERT(edge->linked && edge->heard);
        gossip_edge_send(actions, edge, &message);
    }
}

// The round waits for a neighbour that is behind, up to the ceiling; nodes that wait for this one hear of its
// round. If the neighbour is in this round and asks over this edge, it has sent its request before its clock,
// or meets another neighbour in this round: the node waits for it no more.
void gossip_held_up_hear(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    const uint64_t until_ns = exchange->round.started_ns + exchange->options.deadline_ceiling_ns;

    if (!exchange->options.sync || !exchange->round.open || !gossip_edge_wanted(exchange, edge) ||
        edge->round > exchange->clock)
        return;
    BASE_ASSERT(edge->linked && edge->heard);
    if (edge->round == exchange->clock) {
        exchange->round.wanted &= edge->state != GOSSIP_EDGE_LIVE || gossip_edge_leads(exchange, edge);
        return;
    }
    if (exchange->round.deadline_ns < until_ns)
        exchange->round.deadline_ns = until_ns;
    if (exchange->active == edge && edge->alarm_ns < until_ns)
        edge->alarm_ns = until_ns;
}
