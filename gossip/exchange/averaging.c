// The arithmetic of one exchange. Both ends run it on the same bytes, so that r stays bit-identical: the sum
// t = q_i + q_j first (it commutes), then r + t/2; the force (q_j - q_i)/2 has the same bits but the sign on
// the two ends.
#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT_ROUNDS 16 // rounds without an exchange from which on an edge was absent

static size_t block_length(const struct gossip_exchange *exchange, uint64_t offset)
{
    uint64_t left = exchange->options.parameters - offset;

    return left < LIMIT_BOOT_BLOCK ? (size_t)left : LIMIT_BOOT_BLOCK;
}

struct run {
    size_t first, count;
};

// Which part of the second moments travels in a round. The extra clock / slices keeps a part from always
// falling to the same neighbour where the schedule's period divides the number of parts.
static struct run moment_slice(const struct gossip_exchange *exchange, uint64_t clock)
{
    uint64_t slices = exchange->options.share_second_moment, count = exchange->options.parameters;
    uint64_t length = (count + slices - 1) / slices;
    uint64_t first = (clock + clock / slices) % slices * length;

    if (first >= count)
        return (struct run){0, 0};
    return (struct run){(size_t)first, (size_t)(count - first < length ? count - first : length)};
}

static enum base_error prepare_block(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                     struct gossip_packet *packet)
{
    size_t count = block_length(exchange, edge->booted);
    const float *x = exchange->model + edge->booted;
    enum base_error error = gossip_packet_reserve(packet, 4 * count + 8);

    if (error)
        return error;
    packet->offset = edge->booted;
    error = compress_block_encode(x, count, packet->bytes, packet->capacity, &packet->delta_bytes);
    return error == BASE_EFORMAT ? BASE_ESTATE : error;
}

enum { LANES = 16 }; // partial sums a vector unit can hold

// a = x - r over `count` elements; adds |a|^2 and |x|^2 to the lanes.
static inline void difference_run(float *restrict a, const float *restrict x, const float *restrict r,
                                  size_t count, float *restrict a_energy, float *restrict x_energy)
{
    for (size_t i = 0; i + LANES <= count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            float difference = x[i + lane] - r[i + lane];
            a[i + lane] = difference;
            a_energy[lane] += difference * difference;
            x_energy[lane] += x[i + lane] * x[i + lane];
        }
    for (size_t i = count - count % LANES; i < count; i++) {
        a[i] = x[i] - r[i];
        a_energy[i % LANES] += a[i] * a[i];
        x_energy[i % LANES] += x[i] * x[i];
    }
}

// a = x - r into the scratch vector; |a|^2 and |x|^2. In runs, so that fp32 sums stay short.
static void difference_from(struct gossip_exchange *exchange, const float *reference,
                            double *difference_energy, double *model_energy)
{
    enum { RUN = 4096 };
    size_t count = exchange->options.parameters;

    *difference_energy = *model_energy = 0;
    for (size_t begin = 0; begin < count; begin += RUN) {
        float a_energy[LANES] = {0}, x_energy[LANES] = {0};
        difference_run(exchange->difference + begin, exchange->model + begin, reference + begin,
                       count - begin < RUN ? count - begin : RUN, a_energy, x_energy);
        for (size_t lane = 0; lane < LANES; lane++) {
            *difference_energy += (double)a_energy[lane];
            *model_energy += (double)x_energy[lane];
        }
    }
}

static enum base_error prepare_sparse(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                      size_t moment_room, struct gossip_packet *packet)
{
    struct compress_sparse *mine = &exchange->mine;
    size_t count = exchange->options.parameters;
    size_t bound = compress_delta_bound(count, exchange->entries, exchange->options.values);
    double energy, model_energy;

    enum base_error error = gossip_packet_reserve(packet, bound + moment_room);
    if (error)
        return error;
    difference_from(exchange, edge->reference, &energy, &model_energy);
    error = compress_select_topk(exchange->difference, count, exchange->entries, mine);
    if (!error)
        error = compress_delta_encode(mine, count, exchange->options.values, packet->bytes, bound,
                                      &packet->delta_bytes);
    if (error)
        return error == BASE_EFORMAT ? BASE_ESTATE : error;
    for (size_t i = 0; i < mine->count; i++) {
        double a = (double)exchange->difference[mine->index[i]], left = a - (double)mine->value[i];
        energy -= a * a - left * left;
    }
    packet->offset = 0;
    edge->residual_energy = energy > 0 ? energy : 0;
    edge->model_energy = model_energy;
    return BASE_OK;
}

static enum base_error prepare_moment(struct gossip_exchange *exchange, struct run slice,
                                      struct gossip_packet *packet)
{
    size_t moment_bytes;

    memcpy(exchange->run_mine, exchange->second + slice.first, slice.count * sizeof *exchange->run_mine);
    enum base_error error =
        compress_log8_encode(exchange->run_mine, slice.count, packet->bytes + packet->delta_bytes,
                             packet->capacity - packet->delta_bytes, &moment_bytes);
    if (error)
        return error == BASE_EFORMAT ? BASE_ESTATE : error;
    packet->moment_bytes = moment_bytes;
    return BASE_OK;
}

// How far we trained since the last exchange over this edge, divided by the number of live edges: where every
// round meets its partner that is the round's own step scale, lr * H. Where meetings are missed (async, a
// slow or busy neighbour) the force holds the drift of all rounds since, and must be integrated as that.
static float scale_since(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    size_t live = 0;

    for (size_t i = 0; i < exchange->n_edges; i++)
        live += exchange->edges[i]->state == GOSSIP_EDGE_LIVE;
    float since = (float)((exchange->progress - edge->progress) / (double)(live ? live : 1));
    return since > exchange->step_scale ? since : exchange->step_scale;
}

// After an absence one exchange carries only a part of the drift; the rest comes with those that follow and
// must be integrated over the time of the absence, too. `absence` is what of it is still untold.
static float scale_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge, float since)
{
    float part = (float)exchange->entries / (float)exchange->options.parameters;
    float scale = exchange->step_scale +
                  2 * part * edge->absence; // 2: who was away tells one round, and the mean counts
    return since > scale ? since : scale;
}

// An edge that meets now and then is not absent: the exchanges of such a while carry all of its drift.
static void account_absence(const struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    float part = (float)exchange->entries / (float)exchange->options.parameters;
    edge->absence -= 0.5f * part * edge->absence;
    if (edge->since > ABSENT_ROUNDS * exchange->step_scale)
        edge->absence += edge->since;
}

enum base_error gossip_averaging_prepare(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                         enum gossip_delta_form form, uint64_t slice_clock,
                                         struct gossip_packet *packet)
{
    struct run slice = {0, 0};
    enum base_error error;

    packet->held = false;
    packet->moment_bytes = 0;
    if (form == GOSSIP_DELTA_SPARSE && exchange->second && exchange->second_known)
        slice = moment_slice(exchange, slice_clock);
    error = form == GOSSIP_DELTA_BLOCK
                ? prepare_block(exchange, edge, packet)
                : prepare_sparse(exchange, edge, slice.count ? slice.count + 8 : 0, packet);
    if (!error && slice.count)
        error = prepare_moment(exchange, slice, packet);
    if (error)
        return error;
    packet->held = true;
    packet->epoch = edge->epoch;
    packet->sequence = edge->sequence;
    packet->clock = exchange->clock;
    edge->since = scale_since(exchange, edge);
    packet->step_scale = scale_of(exchange, edge, edge->since);
    edge->prepared = exchange->progress;
    packet->form = form;
    return BASE_OK;
}

// beta / s of the drift correction, the same number on both ends: mean step scale, mean number of entries.
static float drift_gain(const struct gossip_exchange *exchange, const struct gossip_packet *mine,
                        const struct gossip_exchange_message *theirs)
{
    const struct gossip_exchange_options *options = &exchange->options;
    float scale = 0.5f * (mine->step_scale + theirs->step_scale);
    float entries = 0.5f * (float)(exchange->mine.count + exchange->theirs.count);
    float beta = options->drift_gain * entries / (float)options->parameters;

    if (beta > options->drift_limit)
        beta = options->drift_limit;
    float gain = scale > 0 ? beta / scale : 0;
    return isfinite(gain) ? gain : 0; // a peer may name any scale
}

struct update { // one edge's vectors, hoisted out of the loop over entries
    float *model, *pending, *reference, *correction, *correction_sum;
    float gain;
    uint64_t hash;
};

static inline void update_element(struct update *update, size_t index, float mine, float theirs)
{
    float before = update->reference[index];
    float after = before + 0.5f * (mine + theirs);
    float force = 0.5f * (theirs - mine);

    update->reference[index] = after;
    update->hash += base_hash_element(index, after) - base_hash_element(index, before);
    update->model[index] += force;
    update->pending[index] += force;
    if (update->correction) {
        update->correction[index] += update->gain * force;
        update->correction_sum[index] += update->gain * force;
    }
}

static struct update update_begin(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    return (struct update){.model = exchange->model,
                           .pending = exchange->pending,
                           .reference = edge->reference,
                           .hash = edge->reference_hash};
}

static void apply_sparse(struct gossip_exchange *exchange, struct gossip_edge *edge, float gain)
{
    const struct compress_sparse *mine = &exchange->mine, *theirs = &exchange->theirs;
    struct update update = update_begin(exchange, edge);
    size_t i = 0, j = 0;

    update.correction = edge->correction;
    update.correction_sum = exchange->correction_sum;
    update.gain = gain;
    while (i < mine->count || j < theirs->count) {
        if (j == theirs->count || (i < mine->count && mine->index[i] < theirs->index[j])) {
            update_element(&update, mine->index[i], mine->value[i], 0);
            i++;
        } else if (i == mine->count || theirs->index[j] < mine->index[i]) {
            update_element(&update, theirs->index[j], 0, theirs->value[j]);
            j++;
        } else {
            update_element(&update, mine->index[i], mine->value[i], theirs->value[j]);
            i++, j++;
        }
    }
    edge->reference_hash = update.hash;
}

static void apply_block(struct gossip_exchange *exchange, struct gossip_edge *edge, size_t count)
{
    struct update update = update_begin(exchange, edge);

    for (size_t i = 0; i < count; i++)
        update_element(&update, edge->booted + i, exchange->run_mine[i], exchange->run_theirs[i]);
    edge->reference_hash = update.hash;
    edge->booted += count;
}

// v += (Q(v_j) - Q(v_i)) / 2 on one slice: the sum over the two ends stays, like that of x. Never below zero,
// where the coarse scale of Q would take a small v: the optimiser draws its root.
static void apply_moment(struct gossip_exchange *exchange, struct run slice)
{
    for (size_t i = 0; i < slice.count; i++) {
        float before = exchange->second[slice.first + i];
        float after = before + 0.5f * (exchange->run_theirs[i] - exchange->run_mine[i]);
        after = after > 0 ? after : 0;
        exchange->second[slice.first + i] = after;
        exchange->pending_second[slice.first + i] += after - before;
    }
}

// Decodes into `sparse`, grown first to what the packet claims, which is at most d. A request restored from a
// checkpoint may hold more entries than today's ratio keeps.
static enum base_error decode_sparse(const struct gossip_exchange *exchange, const uint8_t *packet,
                                     size_t bytes, struct compress_sparse *sparse)
{
    size_t claimed = compress_delta_entries(packet, bytes);

    if (claimed > exchange->options.parameters)
        return BASE_EFORMAT;
    if (claimed > sparse->capacity) {
        struct compress_sparse larger;
        enum base_error error = compress_sparse_create(claimed, &larger);
        if (error)
            return error;
        compress_sparse_destroy(sparse);
        *sparse = larger;
    }
    return compress_delta_decode(packet, bytes, exchange->options.parameters, sparse);
}

static enum base_error commit_block(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    const struct gossip_packet *mine,
                                    const struct gossip_exchange_message *theirs)
{
    size_t count = block_length(exchange, edge->booted);

    if (theirs->offset != edge->booted || mine->offset != edge->booted || theirs->moment_bytes)
        return BASE_EFORMAT;
    enum base_error error =
        compress_block_decode(theirs->delta, theirs->delta_bytes, exchange->run_theirs, count);
    if (!error)
        error = compress_block_decode(mine->bytes, mine->delta_bytes, exchange->run_mine, count);
    if (error)
        return error;
    apply_block(exchange, edge, count);
    return BASE_OK;
}

static enum base_error commit_sparse(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                     const struct gossip_packet *mine,
                                     const struct gossip_exchange_message *theirs, uint64_t slice_clock)
{
    struct run slice = {0, 0};
    enum base_error error = decode_sparse(exchange, theirs->delta, theirs->delta_bytes, &exchange->theirs);

    if (!error)
        error = decode_sparse(exchange, mine->bytes, mine->delta_bytes, &exchange->mine);
    if (!error && exchange->second && theirs->moment_bytes) {
        struct run whole = moment_slice(exchange, slice_clock);
        error = compress_log8_decode(theirs->moment, theirs->moment_bytes, exchange->run_theirs, whole.count);
        if (!error &&
            mine->moment_bytes) { // one end may not have published its moments yet: then neither moves
            slice = whole;
            error = compress_log8_decode(mine->bytes + mine->delta_bytes, mine->moment_bytes,
                                         exchange->run_mine, whole.count);
        }
    }
    if (error)
        return error;
    apply_sparse(exchange, edge, exchange->options.drift_correction ? drift_gain(exchange, mine, theirs) : 0);
    apply_moment(exchange, slice);
    edge->exchanges++;
    exchange->totals.exchanges++;
    exchange->totals.delta_bytes_out += mine->delta_bytes + mine->moment_bytes;
    exchange->totals.dense_bytes_out += 4 * exchange->options.parameters;
    exchange->totals.consensus =
        edge->model_energy > 0 ? sqrt(edge->residual_energy / edge->model_energy) : 0;
    return BASE_OK;
}

enum base_error gossip_averaging_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        const struct gossip_packet *mine,
                                        const struct gossip_exchange_message *theirs, uint64_t slice_clock)
{
    enum base_error error = theirs->form == GOSSIP_DELTA_BLOCK
                                ? commit_block(exchange, edge, mine, theirs)
                                : commit_sparse(exchange, edge, mine, theirs, slice_clock);

    if (error)
        return error;
    exchange->pending_any = true;
    edge->progress = edge->prepared;
    edge->met = exchange->rounds;
    account_absence(exchange, edge);
    edge->sequence++;
    return BASE_OK;
}
