// How fast this node is beside its neighbours (train.scale_rate).
#include "base/array.h"
#include "gossip/exchange/state.h"

#include <math.h>
#include <stdlib.h>

// The time of a step on a busy host varies from round to round, so its mean over PACE_ROUNDS rounds is used.
#define PACE_ROUNDS 64.0
#define PACE_MAX    16.0 // beyond this a pace is more likely a pause

// False: there is no neighbour to compare with.
static bool speed_now(const struct gossip_exchange *exchange, double *pace)
{
    uint64_t *paces = malloc((exchange->n_edges + 1) * sizeof *paces);
    size_t count = 0;

    if (!paces)
        return false;
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE && exchange->edges[i]->pace_ns)
            paces[count++] = exchange->edges[i]->pace_ns;
    const bool known = exchange->pace_ns && count > 0;
    if (known) {
        paces[count++] = exchange->pace_ns;
        qsort(paces, count, sizeof *paces, base_order_u64);
        double median = 0.5 * ((double)paces[(count - 1) / 2] + (double)paces[count / 2]);
        *pace = fmin(fmax((double)exchange->pace_ns / median, 1 / PACE_MAX), PACE_MAX);
    }
    free(paces);
    return known;
}

void gossip_speed_learn(struct gossip_exchange *exchange, uint64_t pace_ns)
{
    if (pace_ns)
        exchange->pace_ns = pace_ns;
    double pace;
    if (speed_now(exchange, &pace))
        exchange->log_pace += (log(pace) - exchange->log_pace) / PACE_ROUNDS;
    BASE_ASSERT(isfinite(exchange->log_pace));
}

double gossip_exchange_pace(const struct gossip_exchange *exchange)
{
    return exp(exchange->log_pace);
}
