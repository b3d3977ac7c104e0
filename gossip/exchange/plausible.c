// What may come in: nothing that is absurd beside what this node holds itself. A member that breaks, or lies,
// with numbers that are finite and huge would else make every model worthless within some exchanges.
#include "gossip/exchange/plausible.h"

#include "gossip/exchange/state.h"
#include <float.h>
#include <math.h>

float gossip_plausible_value(double norm)
{
    double scale = norm > 1 ? norm : 1; // of a model that begins at zero nothing is known yet

    return scale < (double)FLT_MAX / GOSSIP_PLAUSIBLE ? (float)(GOSSIP_PLAUSIBLE * scale) : FLT_MAX;
}

double gossip_plausible_norm(const float *values, size_t count)
{
    double energy = 0;

    for (size_t i = 0; i < count; i++)
        energy += (double)values[i] * (double)values[i];
    return isfinite(energy) ? sqrt(energy) : 0;
}

void gossip_plausible_learn(struct gossip_exchange *exchange)
{
    exchange->norm = gossip_plausible_norm(exchange->model, exchange->options.parameters);
}

enum base_error gossip_plausible_refuse(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    edge->implausible++;
    exchange->totals.implausible++;
    return BASE_EFORMAT;
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
    case GOSSIP_CLOCK:
        return message->as.clock.round <= GOSSIP_PLAUSIBLE_COUNT ||
               message->as.clock.round == GOSSIP_CLOCK_IDLE;
    default:
        return true;
    }
}
