// Checks that received values are plausible compared with this node's own. Otherwise a faulty or dishonest
// member could destroy every model within a few exchanges, with numbers that are finite but huge.
#include "gossip/exchange/state.h"

#define BARRED_DOUBLES 16u

void gossip_plausible_learn(struct gossip_exchange *exchange)
{
    BASE_ASSERT(!exchange->pace.open);
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    exchange->norm =
        gossip_plausible_root(vectors->energy(exchange->options.parameters, exchange->model, NULL));
}

// While a journal is replayed its edge has no link, and nothing is refused: it was plausible when it came.
bool gossip_plausible_exceeds(const struct gossip_edge *edge, double value, double of)
{
    return edge->state != GOSSIP_EDGE_DOWN && value > (double)gossip_plausible_value(of);
}

void gossip_plausible_bar_until(struct gossip_exchange *exchange, struct gossip_edge *edge, uint64_t until_ns)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN && until_ns >= exchange->now_ns);
    edge->barred_ns = until_ns;
    gossip_edge_enter(exchange, edge, GOSSIP_EDGE_BARRED);
    edge->deferred.held = false;
}

void gossip_plausible_bar(struct gossip_exchange *exchange, struct gossip_edge *edge, unsigned doublings)
{
    BASE_ASSERT(doublings <= BARRED_DOUBLES);
    gossip_plausible_bar_until(exchange, edge,
                               exchange->now_ns + (exchange->options.deadline_ceiling_ns << doublings));
}

// For twice as long after every second time: the other end applies its half of a refused exchange, so
// implausible numbers would come closer with each try.
enum base_error gossip_plausible_refuse(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    gossip_plausible_bar(exchange, edge,
                         edge->implausible < BARRED_DOUBLES ? (unsigned)edge->implausible : BARRED_DOUBLES);
    BASE_ASSERT(edge->state == GOSSIP_EDGE_BARRED);
    edge->implausible++;
    exchange->totals.implausible++;
    return BASE_ELIMIT;
}

bool gossip_plausible_message(const struct gossip_message *message)
{
    const struct gossip_hello *hello = &message->as.hello;
    const struct gossip_exchange_message *exchange = &message->as.exchange;

    switch (message->kind) {
    case GOSSIP_HELLO:
        return hello->epoch <= GOSSIP_PLAUSIBLE_COUNT && hello->sequence <= GOSSIP_PLAUSIBLE_COUNT;
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        return exchange->clock <= GOSSIP_PLAUSIBLE_COUNT;
    case GOSSIP_PARKED:
        return message->as.parked.round <= GOSSIP_PLAUSIBLE_COUNT;
    default:
        return true;
    }
}
