// The trainer's rounds: a boundary begins with its vectors, asks whom pace names, and ends when pace says so.
#include "gossip/exchange/state.h"

static void hand_back(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    const uint64_t round = gossip_pace_goes_on(&exchange->pace);

    gossip_boundary_return(exchange);
    gossip_pace_leave(&exchange->pace);
    exchange->wait_ns = UINT64_MAX;
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    actions->list[actions->count++] =
        (struct gossip_exchange_action){.kind = GOSSIP_EXCHANGE_ROUND_DONE, .round = round};
}

// Each round counts once: a node that stopped at an open boundary reaches it again, and one that only
// collects pending updates has taken no steps.
static bool counts(const struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    return !event->round.idle && event->round.round > exchange->counted;
}

static void count_steps(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    BASE_ASSERT(event->round.step_scale >= 0);
    exchange->counted = event->round.round;
    if (!event->round.unusable)
        gossip_clip_learn(exchange, event->round.step_scale);
    gossip_averaging_count(exchange, event->round.unusable ? 0 : event->round.step_scale);
    gossip_orphan_fade(exchange);
}

void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    const struct gossip_pace_round round = {
        .round = event->round.round,
        .meets = event->round.meets,
        .others = event->round.others,
        .idle = event->round.idle,
        .counts = counts(exchange, event),
        .turn = event->round.turn,
        .partner = event->round.partner,
        .weight = event->round.weight > 0 ? event->round.weight : 0.5f,
    };

    BASE_ASSERT(event->round.model && event->round.weight >= 0 && event->round.weight <= 1);
    gossip_boundary_take(exchange, event);
    exchange->begun = true;
    gossip_pace_begin(&exchange->pace, &round);
    if (round.round > exchange->age)
        exchange->age = round.round;
    if (round.counts)
        count_steps(exchange, event);
    gossip_speed_learn(exchange, event->round.pace_ns);
    gossip_standing_told(exchange, (enum gossip_standing)event->round.standing);
}

enum base_error gossip_round_pump(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_pace_next next = gossip_pace_next(&exchange->pace);
    enum base_error error = BASE_OK;

    while (next.todo == GOSSIP_PACE_ASK && !error) {
        struct gossip_edge *edge = gossip_edge_find(exchange, &next.peer->peer);
        error = gossip_request_ask(exchange, edge, next.weight, actions);
        next = gossip_pace_next(&exchange->pace);
    }
    exchange->wait_ns = next.todo == GOSSIP_PACE_WAIT ? next.until_ns : UINT64_MAX;
    if (next.todo == GOSSIP_PACE_LEAVE)
        hand_back(exchange, actions);
    return error;
}

void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (!exchange->pace.open)
        return;
    BASE_ASSERT(exchange->round.model);
    gossip_pace_skip(&exchange->pace);
    hand_back(exchange, actions);
}

void gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model, const float *second_moment,
                           uint64_t round)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(!exchange->pace.open);
    gossip_orphans_begin_anew(exchange, round > exchange->pace.round ? round - exchange->pace.round : 0);
    kernels->upload(exchange->model, model, bytes);
    gossip_pending_drop(exchange);
    gossip_hold_drop(exchange);
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
    exchange->pace.round = exchange->age = exchange->counted = round;
    exchange->pace.met = exchange->pace.rounds;
    if (exchange->standing == GOSSIP_AWAY)
        exchange->standing = GOSSIP_PRESENT;
    gossip_pace_skip(&exchange->pace);
}
