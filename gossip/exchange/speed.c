// How fast this node is beside its neighbours (train.scale_rate), and how far their learning rates are apart.
#include "base/array.h"
#include "gossip/exchange/state.h"

#include <math.h>
#include <stdlib.h>

// The time of a step on a busy host varies from round to round, so its mean over PACE_ROUNDS rounds is used.
#define PACE_ROUNDS 64.0
#define PACE_MAX    16.0 // beyond this a pace is more likely a pause
#define RATE_FAR    16.0f
#define RATE_TIMES  8u // in which every element was sent so often

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

// -- learning rates

// 1: the peer's is far above ours, -1: far below.
static int far(float ratio)
{
    return ratio >= RATE_FAR ? 1 : ratio <= 1 / RATE_FAR ? -1 : 0;
}

// Exchanges in a row. After an absence the scales of many exchanges contain a part of it (averaging.c): 3,600
// rounds are 16 times a round for 170 exchanges of 1/32 of the elements.
static unsigned long_enough(const struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->entries > 0);
    const size_t exchanges = RATE_TIMES * exchange->options.parameters / exchange->entries;

    return exchanges < UINT32_MAX ? (unsigned)exchanges : UINT32_MAX;
}

// The step scales are sums of the learning rates since the latest exchange. A slow node has made fewer steps
// in that time, in lock-step as many: the rates are far apart if they are either way.
void gossip_speed_compare(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                          const struct gossip_packet *mine, const struct gossip_exchange_message *theirs)
{
    const bool both = mine->standing == GOSSIP_PRESENT && theirs->standing == GOSSIP_PRESENT;
    if (!both || !(mine->step_scale > 0) || !(theirs->step_scale > 0))
        return;
    const float ratio = theirs->step_scale / mine->step_scale;
    const bool timed = mine->pace_ns > 0 && theirs->pace_ns > 0;
    const float by_time = timed ? ratio * (float)theirs->pace_ns / (float)mine->pace_ns : ratio;
    const bool apart = far(ratio) != 0 && far(ratio) == far(by_time);
    edge->far_rates = !apart ? 0 : edge->far_rates < UINT32_MAX ? edge->far_rates + 1 : UINT32_MAX;
    edge->rates = edge->far_rates >= long_enough(exchange) ? ratio : 0;
}
