// The round from which the trainer continues: a cluster has one progress, and a node that was away takes the
// place of its neighbours in it.
#include "gossip/exchange/state.h"

// How much a neighbour's round says about the cluster's. PRESENT: most, because it was there all the while.
// FOLLOWS: nothing, because it follows others in turn and is about to take their round.
enum worth { PRESENT, AWAY, FOLLOWS };

static enum worth worth_of(const struct gossip_edge *edge)
{
    if (edge->follows)
        return FOLLOWS;
    return edge->standing == GOSSIP_AWAY ? AWAY : PRESENT;
}

static bool is_known(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool asked = exchange->round.follows && edge->state == GOSSIP_EDGE_RESYNC;

    return (edge->state == GOSSIP_EDGE_LIVE || asked) && edge->heard && !edge->silent &&
           edge->inquiry == GOSSIP_INQUIRY_NONE;
}

// The boundary of the hindmost such neighbour, and of the furthest; UINT64_MAX: none is known. The round of
// an idle neighbour is the largest number.
static uint64_t hindmost(const struct gossip_exchange *exchange, enum worth worth, uint64_t *furthest)
{
    uint64_t least = UINT64_MAX;

    *furthest = 0;
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        if (!is_known(exchange, edge) || worth_of(edge) != worth || edge->round == GOSSIP_CLOCK_IDLE)
            continue;
        least = edge->round < least ? edge->round : least;
        *furthest = edge->round > *furthest ? edge->round : *furthest;
    }
    BASE_ASSERT(least == UINT64_MAX || least <= *furthest);
    return least;
}

// Bounded: only a node that comes back. One that is slow keeps its steps: its neighbours wait for it.
static bool may_skip(const struct gossip_exchange *exchange)
{
    return exchange->options.sync || exchange->round.follows;
}

// Rounds that every neighbour has passed are not made up. In step a neighbour is at most one boundary ahead;
// where nodes begin in turn, it may have met all its other neighbours before it waits for this node.
// One that was away itself, or follows others in turn, is followed only where there is no other: several that
// come back together would keep each other behind.
uint64_t gossip_progress_from(const struct gossip_exchange *exchange)
{
    const uint64_t reach = exchange->clock + gossip_exchange_reach(exchange);
    uint64_t furthest, others = UINT64_MAX;

    for (enum worth worth = PRESENT; others == UINT64_MAX && worth <= FOLLOWS; worth++)
        others = hindmost(exchange, worth, &furthest);
    if (!may_skip(exchange) || others == UINT64_MAX || others <= exchange->clock + 1 ||
        furthest <= exchange->clock + exchange->round.in_step)
        return exchange->clock;
    return others - 1 < reach ? others - 1 : reach;
}

bool gossip_progress_unclear(const struct gossip_exchange *exchange)
{
    uint64_t furthest;

    return exchange->round.follows && exchange->round.others && exchange->round.in_step == 0 &&
           hindmost(exchange, PRESENT, &furthest) == UINT64_MAX &&
           hindmost(exchange, AWAY, &furthest) == UINT64_MAX &&
           hindmost(exchange, FOLLOWS, &furthest) != UINT64_MAX;
}
