// One exchange as a transaction. Both ends apply the same bytes, so that r stays bit-identical: first the sum
// t = q_i + q_j, which commutes, then r + t/2. The update w (q_j - q_i) has the same bits, except for the
// sign, on the two ends, unless one of them clips it.
#include "gossip/exchange/state.h"

#include <math.h>

#define ABSENT_ROUNDS 16 // an edge without an exchange for this many rounds was absent
#define FALLEN        16 // times by which step scales may fall at once before `lately` counts

// How far this node has trained since the last exchange over this edge, divided by the number of edges that
// are met. If every round meets its partner, that is the round's own step scale, lr * H. If meetings are
// missed (async, a slow or busy neighbour), the update contains the drift of all rounds since, and must be
// integrated as such: without it one link of 64 kbit/s in a ring of six costs 4.3 points of accuracy (async).
static float scale_since(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    float since = (float)((exchange->progress - edge->progress) / (double)gossip_edges_met(exchange));
    return since > exchange->step_scale ? since : exchange->step_scale;
}

// `lately` falls to the present step scale over the window in which every edge sends each element once: d/k
// rounds of steps at the scale `lately`, for each edge. It falls with the steps, not with the rounds, because
// models that hardly move forget nothing.
void gossip_averaging_count(struct gossip_exchange *exchange, float step_scale)
{
    const float part = (float)exchange->entries / (float)exchange->options.parameters;
    float *lately = &exchange->lately;

    BASE_ASSERT(step_scale >= 0 && *lately >= 0);
    exchange->step_scale = step_scale;
    exchange->progress += (double)step_scale;
    if (step_scale >= *lately) {
        *lately = step_scale;
    } else {
        const float window = (float)gossip_edges_met(exchange) * *lately / part;
        *lately -= fminf(step_scale / window, 1) * (*lately - step_scale);
    }
}

// After a fall of the learning rate an exchange carries what the larger steps left. Usual schedules fall by
// less than FALLEN at a time. Beyond that, the smaller the steps, the less an exchange says about their
// drift: down to `lately` itself.
static float least_scale(const struct gossip_exchange *exchange, float scale)
{
    const float least = exchange->lately / FALLEN;

    return scale < least ? fminf(exchange->lately, least * (least / scale)) : 0;
}

// After an absence one exchange carries only a part of the drift; the rest comes with later exchanges and
// must also be integrated over the time of the absence. `absence` is the part that has not been exchanged
// yet.
static float scale_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge, float since)
{
    float part = (float)exchange->entries / (float)exchange->options.parameters;
    float scale = exchange->step_scale +
                  2 * part * edge->absence; // 2: for a mean in which the end that was away has one round

    scale = fmaxf(since, scale);
    return scale > 0 ? fmaxf(scale, least_scale(exchange, scale)) : 0;
}

// An edge that meets occasionally is not absent: its exchanges carry all of its drift.
static void account_absence(const struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    BASE_ASSERT(edge->pace.met == exchange->pace.rounds);
    float part = (float)exchange->entries / (float)exchange->options.parameters;
    edge->absence -= 0.5f * part * edge->absence;
    if (edge->since > ABSENT_ROUNDS * exchange->step_scale)
        edge->absence += edge->since;
}

enum base_error gossip_averaging_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                         enum gossip_delta_form form, size_t count, uint64_t slice_clock,
                                         struct gossip_packet *packet)
{
    struct gossip_run slice = {0, 0}, block = {0, 0};
    enum base_error error;

    BASE_ASSERT((form == GOSSIP_DELTA_BLOCK) == (edge->resync_offset < exchange->options.parameters));
    gossip_pending_inherit(&exchange->pending, packet);
    packet->held = false;
    packet->moment_bytes = 0;
    if (form == GOSSIP_DELTA_SPARSE && exchange->second && exchange->second_known)
        slice = gossip_moment_slice(exchange, slice_clock);
    if (form == GOSSIP_DELTA_BLOCK)
        block = gossip_dense_block(exchange, edge, count);
    error = form == GOSSIP_DELTA_BLOCK
                ? gossip_dense_prepare(exchange, block, packet)
                : gossip_sparse_prepare(exchange, edge, gossip_moment_bytes(slice.count), packet);
    if (!error && slice.count)
        error = gossip_moment_prepare(exchange, slice, packet);
    if (error)
        return error;
    packet->held = true;
    packet->epoch = edge->epoch;
    packet->sequence = edge->sequence;
    packet->clock = exchange->pace.round;
    packet->standing = gossip_standing_of(exchange, form);
    edge->since = scale_since(exchange, edge);
    packet->limit = gossip_clip_limit(exchange, edge, packet->standing, block);
    packet->bound = gossip_clip_bound(exchange, edge);
    packet->progress = gossip_clip_progress(exchange);
    packet->pace_ns = exchange->pace_ns;
    packet->step_scale = scale_of(exchange, edge, edge->since);
    edge->prepared = exchange->progress;
    packet->form = form;
    return BASE_OK;
}

// beta / s of the drift correction, the same number on both ends: mean step scale, mean number of entries.
static float drift_gain(const struct gossip_exchange *exchange, const struct gossip_packet *mine,
                        const struct gossip_exchange_message *theirs, const struct gossip_pair *pair)
{
    const struct gossip_exchange_options *options = &exchange->options;
    float scale = 0.5f * (mine->step_scale + theirs->step_scale);
    float entries = 0.5f * (float)(pair->mine.entries + pair->theirs.entries);
    float beta = options->drift_gain * entries / (float)options->parameters;

    float low = mine->step_scale < theirs->step_scale ? mine->step_scale : theirs->step_scale;
    float high = mine->step_scale < theirs->step_scale ? theirs->step_scale : mine->step_scale;
    if (!(low > 0) || high > GOSSIP_PLAUSIBLE_SCALE * low)
        return 0; // an end that does not train, or whose scale is implausible, has no drift to report
    if (!options->drift_correction ||
        !gossip_standing_drifts(mine->standing, (enum gossip_standing)theirs->standing))
        return 0;
    if (beta > options->drift_limit)
        beta = options->drift_limit;
    float gain = scale > 0 ? beta / scale : 0;
    return isfinite(gain) ? gain : 0; // a peer may name any scale
}

// The slice, if both packets have one: one end may not have published its moments yet, and then neither
// changes.
static enum base_error check_moments(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                     const struct gossip_packet *mine,
                                     const struct gossip_exchange_message *theirs, uint64_t slice_clock,
                                     struct gossip_run *slice)
{
    *slice = (struct gossip_run){0, 0};
    if (!exchange->second || !theirs->moment_bytes)
        return BASE_OK;
    struct gossip_run whole = gossip_moment_slice(exchange, slice_clock);
    enum base_error error = gossip_moment_check(exchange, whole.count, theirs->moment, theirs->moment_bytes);
    if (!error && gossip_plausible_exceeds(edge, (double)gossip_moment_largest(whole.count, theirs->moment),
                                           (double)exchange->second_largest))
        return gossip_plausible_refuse(exchange, edge);
    if (error || !mine->moment_bytes)
        return error;
    *slice = whole;
    return gossip_moment_check(exchange, whole.count, mine->bytes + mine->delta_bytes, mine->moment_bytes);
}

// The correction does not learn from an update that one of the ends clips: it would integrate an attacker's
// pull, which comes again and again. What it has learned before would pull on for ever, so it shrinks, unless
// one end's limit is used up. Both ends know the two limits, so the corrections stay opposite.
static struct gossip_effect clipped(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_pair *pair, float weight, float gain)
{
    struct gossip_effect effect = {.weight = weight, .gain = gain, .keep = 1};

    BASE_ASSERT(pair->common <= pair->limit || !(weight > 0));
    if (!isfinite(pair->common) || !(weight > 0) ||
        gossip_clip_spares(exchange, edge, pair->common,
                           (double)weight * gossip_sparse_norm_most(exchange, pair)))
        return effect;
    const double norm = (double)weight * gossip_sparse_norm(exchange, pair);
    effect.weight *= gossip_clip_packet(exchange, edge, pair->limit, norm);
    if (norm > pair->common) {
        effect.gain = 0;
        effect.keep = pair->common > 0 ? GOSSIP_CLIP_KEEP : 1;
    }
    return effect;
}

static struct gossip_effect effect_of(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      const struct gossip_packet *mine,
                                      const struct gossip_exchange_message *theirs,
                                      const struct gossip_pair *pair)
{
    const float weight =
        gossip_standing_weight(mine->standing, (enum gossip_standing)theirs->standing, theirs->weight);

    struct gossip_effect effect =
        clipped(exchange, edge, pair, weight, drift_gain(exchange, mine, theirs, pair));

    if (!gossip_standing_drifts(mine->standing, (enum gossip_standing)theirs->standing))
        effect.keep = 1;
    else if (!(effect.keep < 1))
        effect.keep = gossip_clip_keep(exchange, edge, fminf(mine->bound, theirs->bound));
    return effect;
}

// x took the common update, or none was due to it. Otherwise what was cut is in x - r, too.
static bool is_whole(const struct gossip_packet *mine, const struct gossip_exchange_message *theirs,
                     const struct gossip_effect *effect)
{
    return effect->weight >=
           gossip_standing_weight(mine->standing, (enum gossip_standing)theirs->standing, theirs->weight);
}

static void count_sparse(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         const struct gossip_packet *mine)
{
    BASE_ASSERT(mine->saved <= mine->delta_bytes);
    edge->exchanges++;
    exchange->totals.exchanges++;
    exchange->totals.delta_bytes_out += mine->delta_bytes - mine->saved + mine->moment_bytes;
    exchange->totals.dense_bytes_out += 4 * exchange->options.parameters;
    exchange->totals.consensus =
        edge->model_energy > 0 ? sqrt(edge->residual_energy / edge->model_energy) : 0;
}

// `known`: what the exchange did when it was made, or NULL.
static enum base_error commit_sparse(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                     const struct gossip_packet *mine,
                                     const struct gossip_exchange_message *theirs, uint64_t slice_clock,
                                     const struct gossip_effect *known)
{
    struct gossip_run slice;
    struct gossip_pair pair;
    enum base_error error = check_moments(exchange, edge, mine, theirs, slice_clock, &slice);

    if (!error && slice.count)
        error = gossip_moment_room(exchange);
    if (!error)
        error = gossip_sparse_open(exchange, edge, mine, theirs, &pair);
    if (error)
        return error;
    const struct gossip_effect effect = known ? *known : effect_of(exchange, edge, mine, theirs, &pair);
    gossip_journal_commit(exchange, edge, mine, theirs, slice_clock, &effect,
                          pair.theirs.known.count > 0 ? &pair.theirs.known : NULL);
    gossip_sparse_apply(exchange, edge, mine, &pair, &effect);
    if (slice.count && edge->trust.state == GOSSIP_TRUSTED)
        gossip_moment_apply(exchange, slice, mine->bytes + mine->delta_bytes, theirs->moment);
    if (known)
        return BASE_OK;
    count_sparse(exchange, edge, mine);
    if (is_whole(mine, theirs, &effect))
        gossip_hold_exchanged(exchange, edge, mine, theirs);
    return BASE_OK;
}

static enum base_error commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                              const struct gossip_packet *mine, const struct gossip_exchange_message *theirs,
                              uint64_t slice_clock, const struct gossip_effect *known)
{
    BASE_ASSERT(mine->held && edge->state != GOSSIP_EDGE_HELLO);
    enum base_error error =
        theirs->form == GOSSIP_DELTA_BLOCK
            ? gossip_dense_commit(exchange, edge,
                                  gossip_dense_block(exchange, edge, mine->delta_bytes / sizeof(float)), mine,
                                  theirs, known)
            : commit_sparse(exchange, edge, mine, theirs, slice_clock, known);

    if (error)
        return error;
    edge->progress = edge->prepared;
    edge->pace.met = exchange->pace.rounds;
    account_absence(exchange, edge);
    edge->sequence++;
    return BASE_OK;
}

enum base_error gossip_averaging_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs, uint64_t slice_clock)
{
    BASE_ASSERT(edge->state != GOSSIP_EDGE_DOWN);
    enum base_error error = commit(exchange, edge, mine, theirs, slice_clock, NULL);

    if (!error && theirs->form == GOSSIP_DELTA_SPARSE) {
        gossip_speed_compare(exchange, edge, mine, theirs);
        gossip_standing_met(exchange, edge, theirs);
        edge->peer_progress = theirs->progress;
    }
    return error;
}

enum base_error gossip_averaging_repeat(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs, uint64_t slice_clock,
                                        const struct gossip_effect *effect)
{
    if (!(effect->weight >= 0 && effect->weight <= 1 && effect->gain >= 0 && isfinite(effect->gain) &&
          effect->keep > 0 && effect->keep <= 1))
        return BASE_EFORMAT;
    BASE_ASSERT(edge->state == GOSSIP_EDGE_DOWN);
    edge->since = 0; // the steps of that time are lost
    edge->prepared = exchange->progress;
    return commit(exchange, edge, mine, theirs, slice_clock, effect);
}
