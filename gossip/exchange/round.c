// The trainer's rounds: each begins with its vectors, meets a neighbour, and ends when it waits no more.
#include "gossip/exchange/state.h"

#define RETRIES_ONE 8u // of a BUSY neighbour, before a node that needs any exchange asks another

static void hand_back(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    const uint64_t round = gossip_progress_from(exchange);

    gossip_boundary_return(exchange);
    exchange->round.leaves = exchange->round.follows;
    exchange->round.open = exchange->round.follows = false;
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    actions->list[actions->count++] =
        (struct gossip_exchange_action){.kind = GOSSIP_EXCHANGE_ROUND_DONE, .round = round};
}

// The latest exchange with this neighbour was for this round or a later one, so the round needs no other. In
// async this holds only while the neighbour continues to ask.
static bool has_met(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool lately = exchange->rounds - edge->met <= exchange->n_edges;

    return edge->clock >= exchange->clock &&
           (exchange->options.sync || (lately && edge->standing != GOSSIP_FINISHED));
}

static bool is_wanted(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (edge && has_met(exchange, edge))
        return false;
    return gossip_wait_alone(exchange) || (gossip_wait_can_meet(exchange, edge) && !edge->silent);
}

void gossip_round_follow(struct gossip_exchange *exchange)
{
    struct gossip_edge *edge =
        exchange->round.open && !exchange->round.live ? gossip_partner_of(exchange) : NULL;

    if (!edge || edge->state != GOSSIP_EDGE_LIVE)
        return;
    BASE_ASSERT(exchange->round.wanted && edge->linked);
    exchange->round.live = true;
    exchange->round.deadline_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    exchange->round.tell_ns = exchange->now_ns + gossip_held_up_quiet(exchange, edge);
}

// The live neighbour, other than `asked`, that this node has not met for longest.
static struct gossip_edge *longest_unmet(const struct gossip_exchange *exchange,
                                         const struct gossip_edge *asked)
{
    struct gossip_edge *best = NULL;

    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->state == GOSSIP_EDGE_LIVE && !edge->silent && edge != asked &&
            !gossip_edge_mute(exchange, edge) &&
            (!best || exchange->rounds - edge->met > exchange->rounds - best->met))
            best = edge;
    }
    return best;
}

// Async: the neighbour to meet instead of the plan's partner, or NULL. While the partner's edge begins, or
// begins again, the round would have no exchange. Beside a straggler, or where exchanges take longer than
// their deadlines, the rounds that have one may all be with the same neighbour: the others are never met, and
// the graph falls apart.
static struct gossip_edge *met_instead(const struct gossip_exchange *exchange,
                                       const struct gossip_edge *partner)
{
    const uint64_t turns = exchange->options.max_delay + 1;
    struct gossip_edge *best = exchange->options.sync ? NULL : longest_unmet(exchange, partner);

    if (!best || !partner || partner->state != GOSSIP_EDGE_LIVE)
        return best;
    if (exchange->rounds - best->met <= exchange->rounds - partner->met)
        return NULL;
    return (exchange->rounds - best->met) / exchange->n_edges > turns ? best : NULL;
}

void gossip_round_seek(struct gossip_exchange *exchange)
{
    struct gossip_edge *asked = gossip_partner_of(exchange);

    if (!exchange->round.open || !gossip_wait_starved(exchange) || exchange->active ||
        (asked && asked->state == GOSSIP_EDGE_LIVE && !asked->silent &&
         !gossip_edge_shunned(exchange, asked) && exchange->round.retries < RETRIES_ONE))
        return;
    struct gossip_edge *best = longest_unmet(exchange, asked);
    if (!best)
        return;
    BASE_ASSERT(best != asked && best->state == GOSSIP_EDGE_LIVE);
    exchange->round.retries = 0;
    exchange->round.retry_ns = 0;
    exchange->round.partner = best->peer;
    exchange->round.weight = 0.5f;
    exchange->round.wanted = true;
}

// Each round counts once: a node that stopped at an open boundary reaches it again, and one that only
// collects pending updates has taken no steps.
static void count_steps(struct gossip_exchange *exchange, uint64_t round, float step_scale)
{
    BASE_ASSERT(step_scale >= 0);
    if (round <= exchange->counted)
        return;
    exchange->counted = round;
    exchange->rounds++;
    gossip_averaging_count(exchange, step_scale);
    gossip_orphan_fade(exchange);
}

// The meeting of this round: with the plan's partner, or with another neighbour.
static void take_turn(struct gossip_exchange *exchange)
{
    const struct gossip_meeting *next = &exchange->round.next;
    struct gossip_edge *edge = next->meets ? gossip_edge_find(exchange, &next->peer) : NULL;
    struct gossip_edge *other = next->meets ? met_instead(exchange, edge) : NULL;

    BASE_ASSERT(exchange->round.open && (!other || other != edge));
    exchange->round.owes = false;
    exchange->round.partner = other ? other->peer : next->peer;
    exchange->round.weight = other ? 0.5f : next->weight;
    exchange->round.due = exchange->clock;
    exchange->round.retries = 0;
    edge = other ? other : edge;
    exchange->round.wanted = next->meets && is_wanted(exchange, edge);
    exchange->round.live = false;
    exchange->round.retry_ns = 0;
    exchange->round.deadline_ns = exchange->now_ns + (edge ? gossip_edge_patience(exchange, edge) : 0);
}

void gossip_round_turn(struct gossip_exchange *exchange)
{
    if (!exchange->round.open || !exchange->round.owes)
        return;
    BASE_ASSERT(!exchange->options.sync);
    const bool late = exchange->now_ns >= exchange->round.deadline_ns;
    if (gossip_turn_due(exchange) && !late)
        return;
    if (late)
        gossip_turn_give_up(exchange);
    take_turn(exchange);
}

void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    BASE_ASSERT(!exchange->round.open && event->round.model && event->round.round >= 1);
    gossip_boundary_take(exchange, event);
    exchange->begun = true;
    exchange->clock = event->round.round;
    if (exchange->clock > exchange->age)
        exchange->age = exchange->clock;
    if (!event->round.idle)
        count_steps(exchange, exchange->clock, event->round.unusable ? 0 : event->round.step_scale);
    exchange->idle = event->round.idle;
    gossip_clocks_pace(exchange, event->round.pace_ns);
    exchange->round.open = true;
    gossip_standing_told(exchange, (enum gossip_standing)event->round.standing);
    exchange->round.others = event->round.others;
    exchange->round.follows =
        (exchange->options.sync || exchange->options.bounded) && event->round.idle && event->round.follows;
    exchange->round.leaves = false;
    exchange->round.in_step = exchange->round.follows ? event->round.in_step : 0;
    BASE_ASSERT(event->round.weight >= 0 && event->round.weight <= 1);
    exchange->round.next = (struct gossip_meeting){
        .peer = event->round.partner,
        .weight = event->round.weight > 0 ? event->round.weight : 0.5f,
        .meets = event->round.meets,
    };
    exchange->round.started_ns = exchange->now_ns;
    exchange->round.alone_ns = exchange->now_ns + exchange->options.deadline_ceiling_ns;
    exchange->round.owes = gossip_turn_due(exchange);
    if (exchange->round.owes)
        exchange->round.deadline_ns =
            exchange->now_ns + gossip_edge_patience(exchange, gossip_partner_of(exchange));
    else
        take_turn(exchange);
    gossip_round_follow(exchange);
    gossip_clocks_begin(exchange);
}

void gossip_round_end(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (exchange->round.open && gossip_wait_over(exchange))
        hand_back(exchange, actions);
}

void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (!exchange->round.open)
        return;
    BASE_ASSERT(exchange->round.model);
    exchange->round.wanted = exchange->round.owes = false;
    hand_back(exchange, actions);
}

void gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model, const float *second_moment,
                           uint64_t round)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(!exchange->round.open);
    gossip_orphans_begin_anew(exchange, round > exchange->clock ? round - exchange->clock : 0);
    kernels->upload(exchange->model, model, bytes);
    gossip_pending_drop(exchange);
    if (exchange->second) {
        if (exchange->second_moved)
            kernels->vectors->clear(exchange->pending_second, bytes);
        exchange->second_moved = false;
        exchange->second_known = second_moment;
        if (second_moment)
            kernels->upload(exchange->second, second_moment, bytes);
    }
    gossip_plausible_learn(exchange);
    gossip_journal_end(exchange); // it does not hold this model
    exchange->clock = exchange->age = exchange->counted = round;
    exchange->met = exchange->rounds;
    if (exchange->standing == GOSSIP_AWAY)
        exchange->standing = GOSSIP_PRESENT;
    exchange->round.wanted = false;
}
