// How far neighbours may move this node: progress, and what is left of an update and of a correction
// (RULES.md).
#include "gossip/exchange/state.h"

#include "base/bf16.h"
#include "base/hash.h"
#include <float.h>
#include <math.h>

#define RUN 128u // elements
// Of a model that is too large to be read in every round. Progress is a mean over rounds.
#define PROGRESS_RUNS   32u
#define CORRECTION_RUNS 128u
#define RECENT          32u              // rounds of the mean
#define FALL            (1 - 1.0 / 2048) // of the highest usual progress in a round
#define PARTS           3u               // of a sum of vectors

struct part { // of a sum of vectors
    const float *vector;
    const uint16_t *bf16; // or this
    double times;
};

static void add_run(struct gossip_exchange *exchange, const struct part *part, size_t first, size_t count,
                    double *sum)
{
    if (part->vector) {
        const float *run = gossip_window_fetch(&exchange->window[0], part->vector + first, count);
        for (size_t i = 0; i < count; i++)
            sum[i] += part->times * (double)run[i];
    }
    for (size_t i = 0; i < count && part->bf16; i++)
        sum[i] += part->times * (double)bf16_widen(part->bf16[first + i]);
}

static double run_energy(struct gossip_exchange *exchange, const struct part parts[PARTS], size_t first,
                         size_t count)
{
    double sum[RUN] = {0}, energy = 0;

    BASE_ASSERT(count <= RUN && first + count <= exchange->options.parameters);
    for (size_t i = 0; i < PARTS; i++)
        add_run(exchange, &parts[i], first, count, sum);
    for (size_t i = 0; i < count; i++)
        energy += sum[i] * sum[i];
    return energy;
}

// |sum|^2 of every element of a small model. Of a larger one a run from each of so many equal parts,
// elsewhere for another seed.
static double energy_of(struct gossip_exchange *exchange, const struct part parts[PARTS], size_t runs,
                        uint64_t seed)
{
    const size_t d = exchange->options.parameters, part = d / runs;
    double energy = 0;

    if (part <= RUN) {
        for (size_t first = 0; first < d; first += RUN)
            energy += run_energy(exchange, parts, first, d - first < RUN ? d - first : RUN);
        return energy;
    }
    for (size_t i = 0; i < runs; i++) {
        const size_t at = (size_t)(base_hash_mix(seed * runs + i) % (part - RUN + 1));
        energy += run_energy(exchange, parts, i * part + at, RUN);
    }
    return energy * (double)d / (double)(runs * RUN);
}

// After a fall of the learning rate an exchange carries what the larger steps left: `lately` (averaging.c).
float gossip_clip_progress(const struct gossip_exchange *exchange)
{
    const double progress = sqrt(exchange->clip.energy) * (double)exchange->lately;

    BASE_ASSERT(progress >= 0);
    return (float)fmin(progress, (double)FLT_MAX);
}

// Of the peer of edge `i`, as last told, or the own one after the last edge; 0: not known.
static float progress_of(const struct gossip_exchange *exchange, size_t i)
{
    BASE_ASSERT(i <= exchange->n_edges);
    if (i == exchange->n_edges)
        return gossip_clip_progress(exchange);
    return gossip_edge_is_met(exchange, exchange->edges[i]) ? exchange->edges[i]->peer_progress : 0;
}

static bool has_rank(const struct gossip_exchange *exchange, float progress, size_t rank)
{
    size_t below = 0, others = 0;

    for (size_t i = 0; i <= exchange->n_edges; i++) {
        const float other = progress_of(exchange, i);
        below += other > 0 && other < progress;
        others += other > 0 && other <= progress;
    }
    return below <= rank && rank < others;
}

// The median of the own progress and that of the neighbours, or the own one if that is more. Where its own
// data have little left to teach, a node moves little by itself and far with the others. A minority of the
// neighbours that lies cannot raise it beyond what an honest one tells.
static double usual_progress(const struct gossip_exchange *exchange)
{
    const float own = gossip_clip_progress(exchange);
    size_t known = 0;

    for (size_t i = 0; i <= exchange->n_edges; i++)
        known += progress_of(exchange, i) > 0;
    for (size_t i = 0; i <= exchange->n_edges; i++) {
        const float progress = progress_of(exchange, i);
        if (progress > own && has_rank(exchange, progress, known / 2))
            return (double)progress;
    }
    return (double)own;
}

void gossip_clip_learn(struct gossip_exchange *exchange, float step_scale)
{
    struct gossip_clip *clip = &exchange->clip;

    BASE_ASSERT(exchange->model == exchange->round.model && exchange->model != exchange->own);
    if (!(step_scale > 0))
        return;
    // The correction moves the model with every step, too, but neighbours have made it.
    const struct part moved[PARTS] = {{.vector = exchange->model, .times = 1},
                                      {.vector = exchange->own, .times = -1},
                                      {.vector = exchange->round.correction, .times = -(double)step_scale}};
    const double scale = (double)step_scale;
    const double energy = energy_of(exchange, moved, PROGRESS_RUNS, exchange->counted) / (scale * scale);
    if (!isfinite(energy))
        return;
    clip->rounds += clip->rounds < RECENT;
    clip->energy += (energy - clip->energy) / (double)clip->rounds;
    const double usual = exchange->lately > 0 ? usual_progress(exchange) / (double)exchange->lately : 0;
    clip->highest = fmax(usual, clip->highest * FALL);
}

// The longer since the latest exchange over this edge: the more edges, or the slower the link. A node that
// makes no progress of its own follows its neighbours; one that has not made a round, in this process or
// before, follows nobody.
static double reach_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (exchange->pace.rounds == 0 && exchange->clip.rounds == 0)
        return 0;
    if (!(exchange->clip.energy > 0))
        return (double)INFINITY;
    const double since = exchange->lately > 0 ? (double)edge->since / (double)exchange->lately : 1,
                 turns = fmin(fmax(floor(since), 1), (double)gossip_exchange_reach(exchange) / 2);
    return GOSSIP_CLIP_TIMES * sqrt((double)gossip_edges_met(exchange)) * turns * usual_progress(exchange);
}

// The correction of an edge moves this node in a round by at most so much.
float gossip_clip_bound(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (edge->trust.state == GOSSIP_DISTRUSTED)
        return 0; // what it has pulled so far would go on in c
    if (exchange->options.robust == GOSSIP_ROBUST_OFF || !(exchange->clip.energy > 0) ||
        !(exchange->lately > 0))
        return INFINITY;
    return (float)(GOSSIP_CLIP_BOUND * exchange->clip.highest);
}

// From the same elements at both ends, in the same order.
float gossip_clip_keep(struct gossip_exchange *exchange, const struct gossip_edge *edge, float bound)
{
    const struct part correction[PARTS] = {
        {.vector = edge->correction.fp32, .bf16 = edge->correction.bf16, .times = 1}};

    if (!isfinite(bound) || !gossip_vector_is(&edge->correction))
        return 1;
    const uint64_t seed = base_hash_mix(edge->epoch ^ base_hash_mix(edge->sequence));
    const double norm = sqrt(energy_of(exchange, correction, CORRECTION_RUNS, seed));
    return norm > (double)bound ? fmaxf((float)((double)bound / norm), GOSSIP_CLIP_KEEP) : 1;
}

// The latest looks have found that it knows what this node's model knows, and not only as much as the others,
// who may lie alike.
static bool has_record(const struct gossip_trust *trust)
{
    return trust->good >= GOSSIP_TRUST_LOOKS && trust->lost <= GOSSIP_TRUST_LOST;
}

static uint64_t long_for(const struct gossip_exchange *exchange) // exchanges
{
    const uint64_t all = exchange->options.parameters / exchange->entries + 1; // send every entry once

    return GOSSIP_CLIP_LONG * all;
}

// The losses say nothing yet, or never will: of a program whose first model is a good one.
static bool stays_unknown(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return !edge->trust.looked && edge->exchanges > long_for(exchange);
}

// Until there is a record of looks, who is far beyond the reach in every exchange is followed less and less:
// a liar could win before. Honest models that the limit itself keeps apart are far, too, so without looks
// this never begins, and where they say nothing it ends (RULES.md).
static void judge(const struct gossip_exchange *exchange, struct gossip_edge *edge, double norm, double reach)
{
    BASE_ASSERT(edge->doublings >= -GOSSIP_CLIP_DOUBLINGS);
    if (exchange->options.robust != GOSSIP_ROBUST_PROBE || !(reach > 0))
        return;
    edge->far = edge->far || norm > reach;
    if (has_record(&edge->trust) || exchange->blind || stays_unknown(exchange, edge))
        edge->doublings = edge->doublings < 0 ? 0 : edge->doublings;
    else if (norm > GOSSIP_CLIP_FAR * reach)
        edge->doublings -= edge->doublings > -GOSSIP_CLIP_DOUBLINGS;
    else if (norm <= reach)
        edge->doublings += edge->doublings < 0;
}

// Own progress says little of how far honest models are from each other that have been apart: whom every look
// finds good, though it is far, is followed further and further.
void gossip_clip_looked(struct gossip_edge *edge)
{
    if (has_record(&edge->trust) && edge->far)
        edge->doublings += edge->doublings < GOSSIP_CLIP_DOUBLINGS;
    else if (edge->doublings > 0)
        edge->doublings = 0;
    edge->far = false;
}

// In a round.
static double whole_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const double reach = reach_of(exchange, edge), most = fmax(reach, GOSSIP_CLIP_MOST * exchange->norm);

    return fmin(ldexp(reach, edge->doublings), most);
}

// A node that has resumed and waits to begin takes part in the rounds of the others.
static uint64_t round_of(const struct gossip_exchange *exchange)
{
    return exchange->pace.rounds > 0 ? exchange->pace.rounds : exchange->furthest;
}

// The blocks of one RESYNC share no element, so they count by the root of the sum of squares. Those of the
// next one touch the same elements again.
static double moved_since(const struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(edge->moved >= 0 && edge->swept >= 0);
    if (edge->moved_round != round_of(exchange))
        edge->moved = edge->swept = 0;
    edge->moved_round = round_of(exchange);
    return edge->moved + sqrt(edge->swept);
}

// A node that was away goes to the others, however far they are, and one that has finished does not move.
float gossip_clip_limit(const struct gossip_exchange *exchange, struct gossip_edge *edge,
                        enum gossip_standing standing, struct gossip_run block)
{
    if (edge->trust.state == GOSSIP_DISTRUSTED)
        return 0;
    if (exchange->options.robust == GOSSIP_ROBUST_OFF || standing != GOSSIP_PRESENT)
        return INFINITY;
    const double moved = moved_since(exchange, edge);
    const double whole = whole_of(exchange, edge);
    if (block.count == 0 || block.first == 0)
        return (float)fmax(whole - moved, 0);
    const double left = fmax(whole - edge->moved, 0);
    return (float)sqrt(fmax(left * left - edge->swept, 0));
}

double gossip_clip_common(const struct gossip_packet *mine, const struct gossip_exchange_message *theirs)
{
    BASE_ASSERT(mine->limit >= 0 && theirs->limit >= 0);
    return fmin((double)mine->limit, (double)theirs->limit);
}

// Without limit and progress it has made no round, in this process or before, and stays at the seed model.
double gossip_clip_own(const struct gossip_packet *mine, const struct gossip_exchange_message *theirs)
{
    const bool has_begun = theirs->limit > 0 || theirs->progress > 0;

    return has_begun ? (double)mine->limit : 0;
}

bool gossip_clip_spares(const struct gossip_exchange *exchange, struct gossip_edge *edge, double limit,
                        double most)
{
    (void)moved_since(exchange, edge);
    if (edge->doublings != 0 || !(most <= limit))
        return false;
    edge->moved += most;
    return true;
}

static double part_within(struct gossip_exchange *exchange, double norm, double limit)
{
    const double part = norm <= limit ? 1 : limit / norm;

    BASE_ASSERT(norm >= 0 && part >= 0 && part <= 1);
    exchange->totals.clipped += part < 1;
    return part;
}

float gossip_clip_packet(struct gossip_exchange *exchange, struct gossip_edge *edge, double limit,
                         double norm)
{
    (void)moved_since(exchange, edge);
    if (isfinite(limit) && limit > 0) // not of an end that was away: it goes to the others, however far
        judge(exchange, edge, norm, reach_of(exchange, edge));
    const double part = part_within(exchange, norm, limit);
    edge->moved += part * norm;
    return (float)part;
}

float gossip_clip_block(struct gossip_exchange *exchange, struct gossip_edge *edge, double limit, double norm,
                        bool first)
{
    const double moved = moved_since(exchange, edge);

    if (first) {
        edge->moved = moved;
        edge->swept = 0;
    }
    const double part = part_within(exchange, norm, limit);
    edge->swept += part * norm * part * norm;
    return (float)part;
}
