// The sum of corrections in bf16, at single elements: the same order and the same bits as gossip_sum_again.
#include "gossip/exchange/state.h"

#include "base/bf16.h"

#define AHEAD 24u

static float sum_of_element(const struct gossip_exchange *exchange, size_t at)
{
    float sum = 0;

    for (size_t e = 0; e < exchange->n_edges; e++) {
        const uint16_t *correction = exchange->edges[e]->correction.bf16;
        sum += correction ? bf16_widen(correction[at]) : 0;
    }
    for (size_t e = 0; e < exchange->n_orphans; e++)
        sum += exchange->orphans[e].correction[at];
    return sum;
}

// Prefetches the lines of an element while others are summed.
static void ask(const struct gossip_exchange *exchange, size_t at, const float *sum)
{
    for (size_t e = 0; e < exchange->n_edges; e++)
        if (exchange->edges[e]->correction.bf16)
            __builtin_prefetch(&exchange->edges[e]->correction.bf16[at]);
    __builtin_prefetch(&sum[at], 1);
}

void gossip_sum_at(const struct gossip_exchange *exchange, struct gossip_side *entries, float *sum)
{
    const uint32_t *index;
    size_t count;

    BASE_ASSERT(exchange->options.reference_bf16 && exchange->options.drift_correction);
    while ((count = gossip_side_indices(entries, &index)) > 0)
        for (size_t i = 0; i < count; i++) {
            ask(exchange, index[i + AHEAD < count ? i + AHEAD : i], sum);
            sum[index[i]] = sum_of_element(exchange, index[i]);
        }
}
