// The standing of an end, and what follows for its model: a stale model never moves a fresh one, a finished
// one is never moved, and an end that is behind is pulled to the others (RULES.md).
#include "gossip/exchange/state.h"

const char *gossip_standing_name(enum gossip_standing standing)
{
    static const char *const names[] = {"present", "away", "finished"};
    BASE_ASSERT(standing <= GOSSIP_FINISHED);
    return names[standing];
}

void gossip_exchange_standing(struct gossip_exchange *exchange, enum gossip_standing standing)
{
    BASE_ASSERT(standing <= GOSSIP_FINISHED);
    if (exchange->standing == standing)
        return;
    exchange->standing = standing;
    for (size_t i = 0; i < exchange->n_edges; i++)
        exchange->edges[i]->caught_up = exchange->edges[i]->missed = 0;
}

void gossip_standing_told(struct gossip_exchange *exchange, enum gossip_standing standing)
{
    BASE_ASSERT(standing <= GOSSIP_FINISHED);
    bool changed = standing != exchange->told;

    exchange->told = standing;
    if (changed && !(standing == GOSSIP_PRESENT && exchange->standing == GOSSIP_AWAY))
        gossip_exchange_standing(exchange, standing);
}

// A checkpoint may be older than its node knows: until the node learns the others' round, its model yields to
// theirs. Two such nodes meet in the middle.
enum gossip_standing gossip_standing_of(const struct gossip_exchange *exchange, enum gossip_delta_form form)
{
    const bool unknown = form == GOSSIP_DELTA_BLOCK && !exchange->begun;

    return unknown && exchange->standing == GOSSIP_PRESENT ? GOSSIP_AWAY : exchange->standing;
}

float gossip_standing_weight(enum gossip_standing ours, enum gossip_standing theirs, float weight)
{
    if (ours == theirs && ours != GOSSIP_FINISHED)
        return weight;
    if (ours == GOSSIP_AWAY)
        return 1;
    return ours == GOSSIP_PRESENT && theirs == GOSSIP_FINISHED ? weight : 0;
}

// c is the drift between two ends that train and move in the same way. The difference of a stale or finished
// model is not drift. Both ends see the same two standings, so c stays opposite.
bool gossip_standing_drifts(enum gossip_standing ours, enum gossip_standing theirs)
{
    return ours == theirs && ours != GOSSIP_FINISHED;
}

// Anybody can say that it has finished, so that replaces no model of an end that trains.
int gossip_standing_adopts(enum gossip_standing ours, enum gossip_standing theirs)
{
    BASE_ASSERT(ours <= GOSSIP_FINISHED && theirs <= GOSSIP_FINISHED);
    return (ours == GOSSIP_AWAY) - (theirs == GOSSIP_AWAY);
}

// The number of exchanges of an edge that make up for `missed` rounds: as many as those rounds would have
// had, but no more than it takes to send every entry once.
static uint64_t asked_of(const struct gossip_exchange *exchange, uint64_t missed)
{
    uint64_t all = exchange->options.parameters / exchange->entries + 1;
    uint64_t fair = missed / (exchange->n_edges ? exchange->n_edges : 1) + 1;

    return fair < all ? fair : all;
}

// A node catches up with nothing over an edge without exchanges.
static bool is_in_use(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool meets = exchange->pace.rounds - edge->pace.met <= gossip_exchange_reach(exchange);

    return (edge->state == GOSSIP_EDGE_LIVE && meets) || edge->state == GOSSIP_EDGE_RESYNC;
}

static bool are_all_away(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_in_use(exchange, exchange->edges[i]) && exchange->edges[i]->standing != GOSSIP_AWAY)
            return false;
    return true;
}

// A neighbour that is behind as well moves this end no more once this end is present, and catches up over the
// edge itself. So its edge counts only where all neighbours are behind.
static bool caught_up(const struct gossip_exchange *exchange)
{
    const bool all_away = are_all_away(exchange);
    bool any = false;

    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        if (!is_in_use(exchange, edge) || (edge->standing == GOSSIP_AWAY && !all_away))
            continue;
        if (edge->caught_up < asked_of(exchange, edge->missed) || edge->caught_up == 0)
            return false;
        any = true;
    }
    return any;
}

void gossip_standing_met(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_exchange_message *theirs)
{
    BASE_ASSERT(edge->sequence > 0);
    if (exchange->standing != GOSSIP_AWAY)
        return;
    if (edge->caught_up++ == 0)
        edge->missed = theirs->clock > edge->pace.clock ? theirs->clock - edge->pace.clock : 0;
    if (caught_up(exchange))
        exchange->standing = GOSSIP_PRESENT;
}

void gossip_standing_adopted(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(edge->resync_offset == exchange->options.parameters);
    if (exchange->standing != GOSSIP_AWAY)
        return;
    edge->missed = 0;
    edge->caught_up = 1;
    if (caught_up(exchange))
        exchange->standing = GOSSIP_PRESENT;
}
