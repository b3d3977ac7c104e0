// The sum of the corrections: where it is stored, and how the trainer gets it.
#include "gossip/exchange/state.h"

#include <math.h>

#define PULL_TURNS                                                                                           \
    8u // rounds per edge for which a correction acts at full strength after its latest exchange

// The part of an edge's correction that acts. Exchanges would adjust the correction; without any it would
// move the model forever in one direction. So its effect halves with every further PULL_TURNS / 2 rounds per
// edge. An edge without a link follows on_death instead (KEEP, FADE): its peer may be dead.
static float pull_left(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    uint64_t missed = exchange->pace.rounds - edge->pace.met,
             whole = PULL_TURNS * (uint64_t)exchange->n_edges;
    unsigned fade = exchange->options.fade_rounds;
    bool apart = edge->state <= GOSSIP_EDGE_HELLO;

    if (apart && exchange->options.on_death == GOSSIP_ON_DEATH_FADE)
        return missed < fade ? 1 - (float)missed / (float)fade : 0;
    if (missed <= whole || (apart && exchange->options.on_death == GOSSIP_ON_DEATH_KEEP))
        return 1;
    return missed - whole > 8 * whole ? 0 : exp2f(-2 * (float)(missed - whole) / (float)whole);
}

void gossip_sum_again(struct gossip_exchange *exchange)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t count = exchange->options.parameters;
    float *sum = exchange->sum.now;

    BASE_ASSERT(!sum || exchange->options.drift_correction);
    exchange->summed = false;
    exchange->sum.stale = !sum; // the trainer reads the only copy: computed again at the next boundary
    if (!sum)
        return;
    kernels->vectors->clear(sum, count * sizeof *sum);
    for (size_t e = 0; e < exchange->n_edges; e++)
        gossip_vector_add(kernels, &exchange->edges[e]->correction, count, 1, sum);
    for (size_t e = 0; e < exchange->n_orphans; e++)
        kernels->vectors->add(count, 1, exchange->orphans[e].correction, sum);
}

void gossip_sum_shrink(struct gossip_exchange *exchange, struct gossip_edge *edge, float part)
{
    const struct kernels *kernels = exchange->options.kernels;
    const size_t count = exchange->options.parameters;

    BASE_ASSERT(part > 0 && part < 1 && gossip_vector_is(&edge->correction));
    if (edge->correction.fp32 && exchange->sum.now) {
        kernels->vectors->fade(count, part, edge->correction.fp32, exchange->sum.now);
        return;
    }
    gossip_vector_scale(kernels, &edge->correction, count, part);
    gossip_sum_again(exchange);
}

static float *own(struct gossip_exchange *exchange)
{
    struct gossip_sum *sum = &exchange->sum;

    BASE_ASSERT(exchange->options.drift_correction);
    if (!sum->own)
        sum->own = exchange->options.kernels->alloc(exchange->options.parameters * sizeof *sum->own);
    return sum->own;
}

void gossip_sum_keep(struct gossip_exchange *exchange)
{
    struct gossip_sum *sum = &exchange->sum;

    sum->kept = true;
    if (sum->now || !exchange->options.drift_correction)
        return;
    BASE_ASSERT(!exchange->pace.open);
    if (!own(exchange)) {
        sum->stale = true;
        return;
    }
    sum->now = sum->own;
    if (sum->stale) {
        gossip_sum_again(exchange);
        return;
    }
    exchange->options.kernels->vectors->copy(sum->own, sum->lent,
                                             exchange->options.parameters * sizeof *sum->own);
    gossip_pending_repeat(exchange, NULL, sum->own);
}

const float *gossip_sum_read(struct gossip_exchange *exchange)
{
    struct gossip_sum *sum = &exchange->sum;

    BASE_ASSERT(!sum->now || exchange->options.drift_correction);
    if (!sum->now && !sum->stale && !gossip_pending_corrects(&exchange->pending))
        return sum->lent;
    const bool kept = sum->kept; // a read does not count as a use of the separate sum
    gossip_sum_keep(exchange);
    sum->kept = kept;
    return sum->now;
}

void gossip_sum_publish(struct gossip_exchange *exchange, float *x)
{
    struct gossip_sum *sum = &exchange->sum;
    bool deferred = exchange->options.drift_correction && !sum->now;

    BASE_ASSERT(!deferred || sum->lent == exchange->round.correction);
    gossip_pending_take(exchange, x, deferred && !sum->stale ? sum->lent : NULL);
    if (!deferred)
        return;
    sum->now = sum->lent;
    if (sum->stale)
        gossip_sum_again(exchange);
}

static bool any_fades(const struct gossip_exchange *exchange)
{
    for (size_t e = 0; e < exchange->n_edges; e++)
        if (pull_left(exchange, exchange->edges[e]) < 1)
            return true;
    return false;
}

static void hand_out_faded(struct gossip_exchange *exchange, float *correction)
{
    size_t count = exchange->options.parameters;

    for (size_t e = 0; e < exchange->n_edges; e++) {
        const struct gossip_edge *edge = exchange->edges[e];
        float lost = 1 - pull_left(exchange, edge);
        if (lost > 0)
            gossip_vector_add(exchange->options.kernels, &edge->correction, count, -lost, correction);
    }
}

// The trainer's vector is the sum, and stays so; the memory of a separate one is freed after a round that did
// not use it. Fading makes the trainer's vector differ from the sum, which is then kept separately; without
// memory for that, it is recomputed at the next boundary.
void gossip_sum_hand_out(struct gossip_exchange *exchange)
{
    struct gossip_sum *sum = &exchange->sum;
    const struct kernels *kernels = exchange->options.kernels;
    float *correction = exchange->round.correction;
    size_t bytes = exchange->options.parameters * sizeof *correction;
    bool fades = any_fades(exchange);

    if (!exchange->options.drift_correction || !correction)
        return;
    BASE_ASSERT(exchange->round.correction_stays || sum->now == sum->own); // it always stays, or never does
    if (sum->now == sum->own)
        kernels->vectors->copy(correction, sum->own, bytes);
    else if (fades && own(exchange))
        kernels->vectors->copy(sum->own, correction, bytes);
    if (fades)
        hand_out_faded(exchange, correction);
    sum->lent = exchange->round.correction_stays ? correction : NULL;
    sum->stale = fades && !sum->own;
    sum->now = fades || sum->kept || !sum->lent ? sum->own : NULL;
    sum->kept = false;
    if (sum->now)
        return;
    kernels->release(sum->own);
    sum->own = NULL;
}
