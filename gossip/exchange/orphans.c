// Corrections that outlive their edges (DESIGN: drift correction, on_death): of a neighbour that died, and
// with FADE also of one that is no longer met, or whose edge restarts.
#include "gossip/exchange/state.h"

#include <stdlib.h>

#define LIVING_TIMES 2u // corrections of two living nodes fade this many times more slowly

static struct gossip_orphan *find(const struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    for (size_t i = 0; i < exchange->n_orphans; i++)
        if (gossip_id_compare(&exchange->orphans[i].peer, peer) == 0)
            return &exchange->orphans[i];
    return NULL;
}

// A run of deaths must not grow the memory without end.
static void make_room(struct gossip_exchange *exchange)
{
    const struct gossip_orphan *least = exchange->orphans;

    if (exchange->n_orphans < GOSSIP_ORPHANS_MAX)
        return;
    for (const struct gossip_orphan *at = least; at < exchange->orphans + exchange->n_orphans; at++)
        if (at->left < least->left || (at->left == least->left && at->order < least->order))
            least = at;
    struct gossip_id peer = least->peer;
    gossip_orphan_drop(exchange, &peer);
    exchange->totals.orphans_dropped++;
    BASE_ASSERT(exchange->n_orphans < GOSSIP_ORPHANS_MAX);
}

static enum base_error add(struct gossip_exchange *exchange, const struct gossip_id *peer, float *correction,
                           unsigned left)
{
    BASE_ASSERT(!find(exchange, peer));
    make_room(exchange);
    struct gossip_orphan *orphans = realloc(exchange->orphans, (exchange->n_orphans + 1) * sizeof *orphans);

    if (!orphans)
        return BASE_ENOMEM;
    exchange->orphans = orphans;
    orphans[exchange->n_orphans++] = (struct gossip_orphan){
        .peer = *peer, .correction = correction, .left = left, .order = ++exchange->orphans_made};
    return BASE_OK;
}

// The kept correction of an earlier edge to the same peer is added to it.
static void join(const struct gossip_exchange *exchange, struct gossip_orphan *orphan,
                 const struct gossip_vector *correction, float part, unsigned left)
{
    BASE_ASSERT(orphan->correction && part >= 0 && part <= 1);
    gossip_vector_add(exchange->options.kernels, correction, exchange->options.parameters, part,
                      orphan->correction);
    orphan->left = left > orphan->left ? left : orphan->left;
}

// The corrections of two living nodes sum to zero, so other edges need not learn them at once. Fading only
// bounds the memory that they take.
static unsigned rounds_to_fade(const struct gossip_exchange *exchange, bool dead)
{
    return (dead ? 1 : LIVING_TIMES) * exchange->options.fade_rounds;
}

// Fading corrections are fp32: the small changes of each round would be lost in bf16.
static float *in_fp32(const struct gossip_exchange *exchange, const struct gossip_vector *correction)
{
    size_t count = exchange->options.parameters;

    if (correction->fp32)
        return correction->fp32;
    float *wide = exchange->options.kernels->alloc(count * sizeof *wide);
    if (wide)
        gossip_vector_add(exchange->options.kernels, correction, count, 1, wide);
    return wide;
}

// Both ends count the same rounds, whatever each knows of the link: those since their latest exchange. An end
// that was away adds the rounds that it `missed`.
static float part_left(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                       uint64_t missed)
{
    const uint64_t own = exchange->pace.rounds - edge->pace.met, all = exchange->options.fade_rounds;

    BASE_ASSERT(missed <= all);
    return own + missed < all && own < all ? 1 - (float)(own + missed) / (float)all : 0;
}

static enum base_error take(struct gossip_exchange *exchange, struct gossip_edge *edge, bool dead,
                            uint64_t missed)
{
    if (!gossip_vector_is(&edge->correction) || edge->sequence == 0) // a new edge has no correction
        return BASE_OK;
    BASE_ASSERT(exchange->options.drift_correction);
    const bool fades = exchange->options.on_death == GOSSIP_ON_DEATH_FADE;
    const float part = fades ? part_left(exchange, edge, missed) : 1;
    unsigned left = (unsigned)(part * (float)rounds_to_fade(exchange, dead) + 0.5f);
    struct gossip_orphan *orphan = find(exchange, &edge->peer);

    if (orphan) {
        join(exchange, orphan, &edge->correction, part, left);
        gossip_vector_free(exchange->options.kernels, &edge->correction);
        return BASE_OK;
    }
    float *correction = in_fp32(exchange, &edge->correction);
    if (!correction)
        return BASE_ENOMEM;
    if (add(exchange, &edge->peer, correction, left)) {
        if (correction != edge->correction.fp32)
            exchange->options.kernels->release(correction);
        return BASE_ENOMEM;
    }
    if (part < 1)
        exchange->options.kernels->vectors->scale(exchange->options.parameters, part, correction);
    if (correction == edge->correction.fp32)
        edge->correction.fp32 = NULL;
    gossip_vector_free(exchange->options.kernels, &edge->correction);
    return BASE_OK;
}

enum base_error gossip_orphan_take(struct gossip_exchange *exchange, struct gossip_edge *edge, bool dead)
{
    return take(exchange, edge, dead, 0);
}

// The opposite correction is gone with the peer.
void gossip_orphan_died(const struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    struct gossip_orphan *orphan = find(exchange, peer);
    const unsigned most = rounds_to_fade(exchange, true);

    BASE_ASSERT(exchange->n_orphans <= GOSSIP_ORPHANS_MAX);
    if (orphan && orphan->left > most)
        orphan->left = most;
}

static bool miss(struct gossip_exchange *exchange, struct gossip_orphan *orphan, uint64_t missed)
{
    BASE_ASSERT(orphan->correction);
    if (missed >= orphan->left)
        return false;
    float part = (float)(orphan->left - missed) / (float)orphan->left;
    exchange->options.kernels->vectors->scale(exchange->options.parameters, part, orphan->correction);
    orphan->left -= (unsigned)missed;
    return true;
}

// The other ends of its edges have faded their corrections since the links broke.
void gossip_orphans_begin_anew(struct gossip_exchange *exchange, uint64_t missed)
{
    const bool fades = exchange->options.on_death == GOSSIP_ON_DEATH_FADE;
    const unsigned all = exchange->options.fade_rounds;
    const bool kept = fades && missed < all;

    for (size_t i = exchange->n_orphans; i-- > 0;) {
        struct gossip_id peer = exchange->orphans[i].peer;
        if (!fades || !miss(exchange, &exchange->orphans[i], missed))
            gossip_orphan_drop(exchange, &peer);
    }
    while (exchange->n_edges > 0) {
        struct gossip_edge *edge = exchange->edges[exchange->n_edges - 1];
        if (kept && take(exchange, edge, false, missed))
            gossip_edge_drop_correction(exchange, edge); // no memory
        gossip_edge_remove(exchange, edge);
    }
    gossip_sum_again(exchange);
}

// The correction itself shrinks, so that a checkpoint contains the rest. That costs a pass over it and over
// the sum in each round of the fading, and none before and after.
static void shrink(struct gossip_exchange *exchange, struct gossip_orphan *orphan)
{
    float part = (float)(orphan->left - 1) / (float)orphan->left;

    BASE_ASSERT(exchange->sum.now); // a round is open
    exchange->options.kernels->vectors->fade(exchange->options.parameters, part, orphan->correction,
                                             exchange->sum.now);
    orphan->left--;
}

void gossip_orphan_fade(struct gossip_exchange *exchange)
{
    if (exchange->options.on_death != GOSSIP_ON_DEATH_FADE)
        return;
    for (size_t i = exchange->n_orphans; i-- > 0;) {
        struct gossip_orphan *orphan = &exchange->orphans[i];
        struct gossip_id peer = orphan->peer;
        if (orphan->left > 1)
            shrink(exchange, orphan);
        else
            gossip_orphan_drop(exchange, &peer);
    }
}

void gossip_orphan_drop(struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    struct gossip_orphan *orphan = find(exchange, peer);

    if (!orphan)
        return;
    BASE_ASSERT(orphan->correction && exchange->n_orphans <= GOSSIP_ORPHANS_MAX);
    exchange->options.kernels->release(orphan->correction);
    *orphan = exchange->orphans[--exchange->n_orphans];
    gossip_sum_again(exchange);
}

bool gossip_exchange_knows(const struct gossip_exchange *exchange, const struct gossip_id *peer)
{
    return gossip_edge_find(exchange, peer) || find(exchange, peer);
}

size_t gossip_exchange_orphans(const struct gossip_exchange *exchange)
{
    return exchange->n_orphans;
}

struct gossip_orphan_record gossip_exchange_orphan_at(const struct gossip_exchange *exchange, size_t at)
{
    const struct gossip_orphan *orphan = &exchange->orphans[at];

    return (struct gossip_orphan_record){
        .peer = orphan->peer, .correction = orphan->correction, .left = orphan->left};
}

enum base_error gossip_exchange_keep(struct gossip_exchange *exchange,
                                     const struct gossip_orphan_record *record)
{
    const struct kernels *kernels = exchange->options.kernels;
    const size_t count = exchange->options.parameters;
    const unsigned most = rounds_to_fade(exchange, record->left == 0);

    if (!exchange->options.drift_correction)
        return BASE_OK;
    if (find(exchange, &record->peer) || !kernels->host->apply->finite(record->correction, count))
        return BASE_EFORMAT;
    float *copy = kernels->alloc(count * sizeof *copy);
    const unsigned left = record->left == 0 || record->left > most ? most : (unsigned)record->left;
    if (!copy || add(exchange, &record->peer, copy, left)) {
        kernels->release(copy);
        return BASE_ENOMEM;
    }
    kernels->upload(copy, record->correction, count * sizeof *copy);
    if (!exchange->summed)
        gossip_sum_again(exchange);
    return BASE_OK;
}
