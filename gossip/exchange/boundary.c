// The trainer's vectors at a boundary: they come in, are published with every update that arrived, and are
// returned.
#include "gossip/exchange/state.h"

// v += its pending updates.
static void publish_second(struct gossip_exchange *exchange, float *second_moment)
{
    const float *pending = exchange->second_moved ? exchange->pending_second : NULL;

    BASE_ASSERT(exchange->options.share_second_moment > 0 && second_moment != exchange->own_second);
    exchange->second_largest =
        exchange->options.kernels->vectors->settle(exchange->options.parameters, pending, second_moment);
    exchange->second_known = true;
    exchange->second = second_moment;
}

// The trainer does nothing until it gets its vectors back, so meanwhile its vectors, with the pending updates
// added, are the published ones. That needs no copy.
static void publish(struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->model == exchange->own && exchange->round.model);
    gossip_sum_publish(exchange, exchange->round.model);
    exchange->model = exchange->round.model;
    if (exchange->second && exchange->round.second_moment)
        publish_second(exchange, exchange->round.second_moment);
}

// The trainer's x is not finite: it gets the published one, which holds all updates.
static void take_back(struct gossip_exchange *exchange)
{
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->model == exchange->own && exchange->round.model);
    gossip_sum_publish(exchange, NULL);
    vectors->copy(exchange->round.model, exchange->model, bytes);
    exchange->model = exchange->round.model;
    if (!exchange->second || !exchange->round.second_moment)
        return;
    vectors->copy(exchange->round.second_moment, exchange->second, bytes);
    exchange->second = exchange->round.second_moment;
}

void gossip_boundary_take(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    BASE_ASSERT(!exchange->pace.open);
    exchange->round.model = event->round.model;
    exchange->round.second_moment = event->round.second_moment;
    exchange->round.correction = event->round.correction;
    exchange->round.held = event->round.held;
    exchange->round.correction_stays = event->round.correction_stays;
    gossip_hold_publish(exchange);
    if (event->round.unusable)
        take_back(exchange);
    else
        publish(exchange);
}

// The one copy of a boundary: neighbours are answered from it while the trainer changes its own.
void gossip_boundary_let_go(struct gossip_exchange *exchange)
{
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->options.share_second_moment > 0 || !exchange->second);
    if (exchange->model != exchange->own)
        vectors->copy(exchange->own, exchange->model, bytes);
    if (exchange->second != exchange->own_second)
        vectors->copy(exchange->own_second, exchange->second, bytes);
    exchange->model = exchange->own;
    exchange->second = exchange->own_second;
}

void gossip_boundary_return(struct gossip_exchange *exchange)
{
    const size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->pace.open);
    gossip_hold_hand_out(exchange);
    gossip_boundary_let_go(exchange);
    if (exchange->second_moved && exchange->round.second_moment) {
        exchange->options.kernels->vectors->clear(exchange->pending_second, bytes);
        exchange->second_moved = false;
    }
    gossip_sum_hand_out(exchange);
}
