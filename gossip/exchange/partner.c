// The neighbour that a round should meet: which edge that is, which end asks over it, and when it has been
// met.
#include "gossip/exchange/state.h"

#define HURRY 32u // a node that may be behind its partner waits deadline / HURRY before it acts

struct gossip_edge *gossip_partner_of(const struct gossip_exchange *exchange)
{
    return exchange->round.wanted ? gossip_edge_find(exchange, &exchange->round.partner) : NULL;
}

bool gossip_partner_volunteers(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const uint64_t clock = exchange->clock;

    if (!exchange->options.sync || gossip_edge_leads(exchange, edge) || gossip_clocks_passed(exchange, edge))
        return false;
    return edge->heard && edge->round <= clock && clock - edge->round <= exchange->n_edges + 1;
}

struct gossip_edge *gossip_partner_asked(const struct gossip_exchange *exchange)
{
    struct gossip_edge *edge = gossip_partner_of(exchange);

    if (!edge || edge->state != GOSSIP_EDGE_LIVE || gossip_edge_shunned(exchange, edge))
        return NULL;
    bool asks = !exchange->options.sync || gossip_edge_leads(exchange, edge) ||
                gossip_clocks_passed(exchange, edge); // it will no longer ask for this round
    return asks || (exchange->round.retries == 0 && gossip_partner_volunteers(exchange, edge)) ? edge : NULL;
}

void gossip_partner_note(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t clock)
{
    BASE_ASSERT(edge->state == GOSSIP_EDGE_LIVE);
    if (clock > edge->clock)
        edge->clock = clock;
    bool waits = exchange->options.sync && exchange->round.open;
    if (gossip_edge_wanted(exchange, edge) && (waits || edge->clock >= exchange->round.due)) {
        if (waits)
            gossip_deadline_learn(&edge->answers, exchange->now_ns - exchange->round.started_ns);
        exchange->round.wanted = false;
    }
}

uint64_t gossip_partner_soon(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return gossip_edge_patience(exchange, edge) / HURRY;
}

void gossip_partner_hurry(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    uint64_t end_ns = exchange->now_ns + gossip_partner_soon(exchange, edge);

    BASE_ASSERT(exchange->options.sync && gossip_edge_wanted(exchange, edge));
    if (end_ns < exchange->round.deadline_ns)
        exchange->round.deadline_ns = end_ns;
}
