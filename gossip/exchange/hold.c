// Held back: the learner takes its steps at y = x - e, where e is a part of what the latest exchange has not
// sent (RULES.md). The learner subtracts e before its steps and adds it after them, so every vector here is
// x.
#include "gossip/exchange/state.h"

// e is what this exchange leaves unsent of the model that its packet was made from. An answer that comes a
// round late finds steps in x that no packet could hold yet: without this rule a node holds back half of its
// own steps. An exchange with a stale node moves r, but not this model.
void gossip_hold_exchanged(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           const struct gossip_packet *mine, const struct gossip_exchange_message *theirs)
{
    BASE_ASSERT(gossip_vector_is(&edge->reference));
    if (mine->standing != GOSSIP_PRESENT || theirs->standing == GOSSIP_AWAY)
        return;
    if (mine->clock != exchange->pace.round)
        return;
    exchange->hold.edge = edge;
    exchange->hold.state = GOSSIP_HOLD_DUE;
}

void gossip_hold_lose(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    struct gossip_hold *hold = &exchange->hold;

    if (hold->edge != edge)
        return;
    BASE_ASSERT(hold->state != GOSSIP_HOLD_NOTHING);
    hold->edge = NULL;
    hold->state = GOSSIP_HOLD_LOST;
}

// An edge whose answer is late still has the other end's r.
static bool lasts(const struct gossip_exchange *exchange)
{
    const struct gossip_edge *edge = exchange->hold.edge;

    return exchange->standing == GOSSIP_PRESENT && edge && gossip_vector_is(&edge->reference) &&
           (edge->state == GOSSIP_EDGE_LIVE || edge->state == GOSSIP_EDGE_IN_DOUBT);
}

static void hold_nothing(struct gossip_exchange *exchange)
{
    struct gossip_hold *hold = &exchange->hold;

    if (hold->lent)
        exchange->options.kernels->vectors->clear(hold->lent,
                                                  exchange->options.parameters * sizeof *hold->lent);
    *hold = (struct gossip_hold){.lent = hold->lent};
}

// While the learner computes, x stays as its latest boundary left it.
void gossip_hold_publish(struct gossip_exchange *exchange)
{
    struct gossip_hold *hold = &exchange->hold;

    BASE_ASSERT(exchange->model == exchange->own);
    hold->lent = exchange->round.held;
    if (!hold->lent || hold->state != GOSSIP_HOLD_DUE || !lasts(exchange))
        return;
    gossip_vector_hold(exchange->options.kernels, &hold->edge->reference, exchange->options.parameters,
                       exchange->options.hold, exchange->model, NULL, hold->lent);
    hold->state = GOSSIP_HOLD_KEPT;
}

void gossip_hold_hand_out(struct gossip_exchange *exchange)
{
    struct gossip_hold *hold = &exchange->hold;

    BASE_ASSERT(exchange->model == exchange->round.model && exchange->model != exchange->own);
    hold->lent = exchange->round.held;
    if (!hold->lent || hold->state == GOSSIP_HOLD_NOTHING)
        return;
    if (!lasts(exchange)) {
        hold_nothing(exchange);
    } else if (hold->state == GOSSIP_HOLD_DUE) {
        gossip_vector_hold(exchange->options.kernels, &hold->edge->reference, exchange->options.parameters,
                           exchange->options.hold, exchange->model, exchange->own, hold->lent);
        exchange->model = exchange->own;
        hold->state = GOSSIP_HOLD_KEPT;
    }
}

void gossip_hold_drop(struct gossip_exchange *exchange)
{
    BASE_ASSERT(!exchange->pace.open); // the learner waits
    if (exchange->hold.state != GOSSIP_HOLD_NOTHING)
        hold_nothing(exchange);
}
