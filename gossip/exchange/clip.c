// How far neighbours may move this node: own progress, and what is left of an update (RULES.md).
#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <math.h>

#define RUN    128u // elements
#define RUNS   32u  // of a model that is too large to be read in every round
#define RECENT 32u  // rounds of the mean

static void add_run(struct gossip_exchange *exchange, const float *vector, size_t count, double part,
                    double *sum)
{
    const float *run = gossip_window_fetch(&exchange->window[0], vector, count);

    for (size_t i = 0; i < count; i++)
        sum[i] += part * (double)run[i];
}

// The correction moves the model with every step, too, but neighbours have made it.
static double run_energy(struct gossip_exchange *exchange, size_t first, size_t count, double step_scale)
{
    double moved[RUN] = {0}, energy = 0;

    BASE_ASSERT(count <= RUN && first + count <= exchange->options.parameters);
    add_run(exchange, exchange->model + first, count, 1, moved);
    add_run(exchange, exchange->own + first, count, -1, moved);
    if (exchange->round.correction)
        add_run(exchange, exchange->round.correction + first, count, -step_scale, moved);
    for (size_t i = 0; i < count; i++)
        energy += moved[i] * moved[i];
    return energy;
}

// Every element of a small model. Of a larger one a run from each of RUNS equal parts, elsewhere in every
// round.
static double progress_energy(struct gossip_exchange *exchange, double step_scale)
{
    const size_t d = exchange->options.parameters, part = d / RUNS;
    double energy = 0;

    if (part <= RUN) {
        for (size_t first = 0; first < d; first += RUN)
            energy += run_energy(exchange, first, d - first < RUN ? d - first : RUN, step_scale);
        return energy;
    }
    for (size_t i = 0; i < RUNS; i++) {
        const size_t at = (size_t)(base_hash_mix(exchange->counted * RUNS + i) % (part - RUN + 1));
        energy += run_energy(exchange, i * part + at, RUN, step_scale);
    }
    return energy * (double)d / (RUNS * RUN);
}

void gossip_clip_learn(struct gossip_exchange *exchange, float step_scale)
{
    struct gossip_clip *clip = &exchange->clip;

    BASE_ASSERT(exchange->model == exchange->round.model && exchange->model != exchange->own);
    if (!exchange->options.clip || !(step_scale > 0))
        return;
    const double scale = (double)step_scale, energy = progress_energy(exchange, scale) / (scale * scale);
    if (!isfinite(energy))
        return;
    clip->rounds += clip->rounds < RECENT;
    clip->energy += (energy - clip->energy) / (double)clip->rounds;
}

// The more edges, the longer since the latest exchange over this one. After a fall of the learning rate an
// exchange carries what the larger steps left: `lately` (averaging.c). A node that makes no progress of its
// own follows its neighbours; before its first round it follows nobody.
static double reach_of(const struct gossip_exchange *exchange)
{
    if (exchange->pace.rounds == 0)
        return 0;
    const double edges = (double)gossip_edges_met(exchange);
    const double reach = GOSSIP_CLIP_TIMES * sqrt(edges * exchange->clip.energy) * (double)exchange->lately;
    return reach > 0 ? reach : INFINITY;
}

// Honest updates stay below the reach. A neighbour that is far beyond it in every exchange pulls in one
// direction for ever, and would win in the end, however little a single exchange moves.
static void judge(struct gossip_edge *edge, double norm, double reach)
{
    BASE_ASSERT(edge->halvings <= GOSSIP_CLIP_HALVINGS);
    if (norm > GOSSIP_CLIP_FAR * reach && reach > 0)
        edge->halvings += edge->halvings < GOSSIP_CLIP_HALVINGS;
    else if (norm <= reach)
        edge->halvings -= edge->halvings > 0;
}

// The blocks of one RESYNC share no element, so they count by the root of the sum of squares. Those of the
// next one touch the same elements again.
static double moved_since(const struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(exchange->options.clip);
    if (edge->moved_round != exchange->pace.rounds)
        edge->moved = edge->swept = 0;
    edge->moved_round = exchange->pace.rounds;
    return edge->moved + sqrt(edge->swept);
}

bool gossip_clip_spares(struct gossip_exchange *exchange, struct gossip_edge *edge, double most)
{
    const double moved = moved_since(exchange, edge);

    if (edge->halvings > 0 || !(moved + most <= reach_of(exchange)))
        return false;
    edge->moved += most;
    return true;
}

static float count(struct gossip_exchange *exchange, double norm, double left)
{
    const double part = norm <= left ? 1 : left / norm;

    BASE_ASSERT(norm >= 0 && left >= 0 && part >= 0);
    exchange->totals.clipped += part < 1;
    return (float)part;
}

float gossip_clip_packet(struct gossip_exchange *exchange, struct gossip_edge *edge, double norm)
{
    const double moved = moved_since(exchange, edge), whole = reach_of(exchange);

    judge(edge, norm, whole);
    const float part = count(exchange, norm, fmax(ldexp(whole, -(int)edge->halvings) - moved, 0));
    edge->moved += (double)part * norm;
    return part;
}

float gossip_clip_block(struct gossip_exchange *exchange, struct gossip_edge *edge, double norm, bool first)
{
    const double moved = moved_since(exchange, edge);

    if (first) {
        edge->moved = moved;
        edge->swept = 0;
    }
    const double left = fmax(ldexp(reach_of(exchange), -(int)edge->halvings) - edge->moved, 0);
    const float part = count(exchange, norm, sqrt(fmax(left * left - edge->swept, 0)));
    edge->swept += (double)part * norm * (double)part * norm;
    return part;
}
