// Edges in and out of checkpoints, and the public getters.
#include "gossip/exchange/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gossip_exchange_met(const struct gossip_exchange *exchange, const struct gossip_id *partner,
                         uint64_t round)
{
    if (!exchange->options.sync || !partner)
        return true;
    const struct gossip_edge *edge = gossip_edge_find(exchange, partner);
    return edge && edge->pace.clock >= round;
}

size_t gossip_exchange_edges(const struct gossip_exchange *exchange)
{
    return exchange->n_edges;
}

void gossip_exchange_edge_info(const struct gossip_exchange *exchange, size_t at,
                               struct gossip_edge_info *info)
{
    const struct gossip_edge *edge = exchange->edges[at];

    *info = (struct gossip_edge_info){
        .peer = edge->peer,
        .state = edge->state,
        .epoch = edge->epoch,
        .sequence = edge->sequence,
        .clock = edge->pace.clock,
        .resync_offset = edge->resync_offset,
        .exchanges = edge->exchanges,
        .resyncs = edge->resyncs,
        .replays = edge->replays,
        .discards = edge->discards,
        .crossings = edge->crossings,
        .busy = edge->busy,
        .timeouts = edge->timeouts,
        .mismatches = edge->mismatches,
        .implausible = edge->implausible,
        .scaling = gossip_edge_apart(exchange, edge) ? exchange->scaling : 0,
        .other_scaling = gossip_edge_apart(exchange, edge) ? edge->peer_scaling : 0,
        .begins = edge->start == GOSSIP_EDGE_LATE,
        .rates = edge->rates,
        .silent = gossip_pace_spent(&exchange->pace, &edge->pace),
        .barred = edge->state == GOSSIP_EDGE_BARRED,
        .standing = edge->standing,
        .answer_median_ns = gossip_answers_median(&edge->pace.answers),
        .pace_ns = edge->pace_ns,
        .deadline_ns = gossip_edge_patience(exchange, edge),
        .trust = edge->trust,
        .reference = edge->reference.fp32,
        .correction = edge->correction.fp32,
        .reference_bf16 = edge->reference.bf16,
        .correction_bf16 = edge->correction.bf16,
    };
}

static uint64_t memory_of(const struct gossip_exchange *exchange)
{
    const float *const own[] = {exchange->own, exchange->own_second, exchange->pending_second,
                                exchange->sum.own, exchange->pending.sum};
    size_t vectors = exchange->n_orphans, bytes = exchange->pending.bytes + exchange->journal.capacity;

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        vectors += own[i] ? 1 : 0;
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        bytes += gossip_vector_bytes(&edge->reference, exchange->options.parameters) +
                 gossip_vector_bytes(&edge->correction, exchange->options.parameters);
        bytes += edge->request.capacity + edge->answer.capacity + edge->deferred.capacity;
    }
    bytes += gossip_vector_bytes(&exchange->seed, exchange->options.parameters);
    return vectors * exchange->options.parameters * sizeof(float) + bytes;
}

void gossip_exchange_totals(const struct gossip_exchange *exchange, struct gossip_exchange_totals *totals)
{
    *totals = exchange->totals;
    totals->standing = exchange->standing;
    totals->memory = memory_of(exchange);
    totals->entries = exchange->entries;
    totals->distrusted = gossip_trust_distrusted(exchange);
    totals->waits = exchange->pace.waits;
    totals->apart = gossip_pace_apart(&exchange->pace);
    totals->reason = exchange->pace.reason;
    totals->waits_for = exchange->pace.waits_for;
}

size_t gossip_exchange_parameters(const struct gossip_exchange *exchange)
{
    return exchange->options.parameters;
}

const struct kernels *gossip_exchange_kernels(const struct gossip_exchange *exchange)
{
    return exchange->options.kernels;
}

const float *gossip_exchange_model(const struct gossip_exchange *exchange)
{
    return exchange->model;
}

const void *gossip_exchange_scratch(const struct gossip_exchange *exchange, size_t *bytes)
{
    const bool host = exchange->options.kernels->shares_host;
    *bytes = host ? exchange->options.parameters * sizeof *exchange->own : 0;
    return host ? exchange->own : NULL;
}

const float *gossip_exchange_second_moment(const struct gossip_exchange *exchange)
{
    return exchange->second_known ? exchange->second : NULL;
}

const float *gossip_exchange_correction(const struct gossip_exchange *exchange)
{
    return exchange->sum.now ? exchange->sum.now : exchange->sum.lent;
}

// The progress of node and edge as the drift correction counts it, so that a resumed node continues as if it
// had not stopped.
#define PROGRESS_BYTES (3 * 8 + 2 * 4 + 3 * 8 + 2 * 4 + 1)
#define TRUST_BYTES    (2 + 8 + 3 * 4 + 3 * 8 + 4 + 1)
enum { HAS_SUM = 1, HAS_AGREED = 2, HAS_TRUST = 4 };

// The sum of all corrections has rounding errors of its own, by which two runs would differ: it is stored
// with the first edge.
static bool carries_sum(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->options.drift_correction && edge == exchange->edges[0];
}

static void restore_sum(struct gossip_exchange *exchange, struct base_reader *reader)
{
    size_t bytes = exchange->options.parameters * sizeof *exchange->sum.now;
    const uint8_t *sum = base_read_bytes(reader, bytes);

    BASE_ASSERT(!exchange->pace.open);
    if (!sum || !exchange->sum.now)
        return;
    exchange->options.kernels->upload(exchange->sum.now, sum, bytes);
    exchange->summed =
        exchange->options.kernels->apply->finite(exchange->sum.now, exchange->options.parameters);
    if (!exchange->summed)
        gossip_sum_again(exchange);
}

static uint64_t behind(const struct gossip_exchange *exchange)
{
    return exchange->furthest > exchange->pace.round ? exchange->furthest - exchange->pace.round : 0;
}

uint64_t gossip_exchange_behind(const struct gossip_exchange *exchange)
{
    return exchange->behind;
}

// Who has stopped and goes on follows its neighbours as before, and as far.
static void store_clip(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                       struct base_writer *writer)
{
    base_write_u8(writer, (uint8_t)(edge->doublings + GOSSIP_CLIP_DOUBLINGS));
    base_write_u64(writer, exchange->clip.rounds);
    base_write_f32(writer, edge->peer_progress);
    base_write_f64(writer, exchange->clip.energy);
    base_write_f64(writer, exchange->clip.highest);
}

// `sum`: for the edge that contains it, else NULL.
static void store_progress(const struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           const float *sum, struct base_writer *writer)
{
    base_write_u64(writer, behind(exchange));
    base_write_u64(writer, exchange->counted);
    base_write_u64(writer, exchange->pace.rounds - edge->pace.met);
    base_write_f32(writer, exchange->step_scale);
    base_write_f32(writer, exchange->lately);
    base_write_f64(writer, exchange->progress);
    base_write_f64(writer, edge->progress);
    base_write_f64(writer, edge->prepared);
    base_write_f32(writer, edge->since);
    base_write_f32(writer, edge->absence);
    base_write_u8(writer, (uint8_t)((sum ? HAS_SUM : 0) |
                                    (edge->start == GOSSIP_EDGE_AGREED ? HAS_AGREED : 0) | HAS_TRUST));
    uint8_t *room = sum ? base_write_room(writer, exchange->options.parameters * sizeof *sum) : NULL;
    if (room)
        exchange->options.kernels->download(room, sum, exchange->options.parameters * sizeof *sum);
    gossip_trust_store(&edge->trust, writer);
    store_clip(exchange, edge, writer);
}

static bool is_count(double value)
{
    return isfinite(value) && value >= 0;
}

static void restore_clip(struct gossip_exchange *exchange, struct gossip_edge *edge,
                         struct base_reader *reader)
{
    const uint8_t doublings = base_read_u8(reader); // from the most halvings on
    struct gossip_clip clip = {.rounds = base_read_u64(reader)};
    const float peer_progress = base_read_f32(reader);

    clip.energy = base_read_f64(reader);
    clip.highest = base_read_f64(reader);
    if (!is_count(clip.energy) || !is_count(clip.highest) || clip.rounds > GOSSIP_PLAUSIBLE_COUNT ||
        (clip.rounds == 0 && clip.energy > 0) || !is_count((double)peer_progress) ||
        doublings > 2 * GOSSIP_CLIP_DOUBLINGS)
        reader->failed = true;
    if (reader->failed)
        return;
    exchange->clip = clip;
    edge->peer_progress = peer_progress;
    edge->doublings = (int)doublings - GOSSIP_CLIP_DOUBLINGS;
}

static enum base_error restore_progress(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                        struct base_reader *reader)
{
    const uint64_t was_behind = base_read_u64(reader), counted = base_read_u64(reader),
                   missed = base_read_u64(reader);
    float step_scale = base_read_f32(reader), lately = base_read_f32(reader);
    double progress = base_read_f64(reader);

    BASE_ASSERT(edge->exchanges == 0 && edge->state == GOSSIP_EDGE_DOWN);
    edge->progress = base_read_f64(reader);
    edge->prepared = base_read_f64(reader);
    edge->since = base_read_f32(reader);
    edge->absence = base_read_f32(reader);
    const uint8_t has = base_read_u8(reader);
    edge->start = has & HAS_AGREED ? GOSSIP_EDGE_AGREED : GOSSIP_EDGE_UNMET;
    if (has & HAS_SUM)
        restore_sum(exchange, reader);
    if (has & HAS_TRUST) {
        gossip_trust_restore(&edge->trust, reader);
        restore_clip(exchange, edge, reader);
    }
    if (reader->failed || counted > GOSSIP_PLAUSIBLE_COUNT || was_behind > GOSSIP_PLAUSIBLE_COUNT ||
        !is_count((double)step_scale) || !is_count((double)lately) || !is_count(progress) ||
        !is_count(edge->progress) || !is_count(edge->prepared) || !is_count((double)edge->since) ||
        !is_count((double)edge->absence))
        return BASE_EFORMAT;
    edge->pace.met = exchange->pace.rounds - missed;
    exchange->progress = progress;
    exchange->step_scale = step_scale;
    exchange->lately = lately;
    exchange->counted = counted;
    exchange->behind = was_behind;
    exchange->furthest = exchange->pace.round + was_behind;
    return BASE_OK;
}

enum base_error gossip_exchange_export(struct gossip_exchange *exchange, size_t at,
                                       struct gossip_edge_record *record)
{
    struct gossip_edge *edge = exchange->edges[at];
    size_t bytes = gossip_packet_stored_bytes(&edge->request) + gossip_packet_stored_bytes(&edge->answer) +
                   PROGRESS_BYTES + TRUST_BYTES;
    const float *sum = carries_sum(exchange, edge) ? gossip_sum_read(exchange) : NULL;
    if (carries_sum(exchange, edge) && !sum)
        return BASE_ENOMEM;
    bytes += sum ? exchange->options.parameters * sizeof *sum : 0;
    uint8_t *stored = malloc(bytes);

    if (!stored)
        return BASE_ENOMEM;
    struct base_writer writer = base_writer_of(stored, bytes);
    gossip_packet_store(&edge->request, &writer);
    gossip_packet_store(&edge->answer, &writer);
    store_progress(exchange, edge, sum, &writer);
    BASE_ASSERT(!writer.failed && base_writer_used(&writer) == bytes);
    free(edge->stored);
    edge->stored = stored;
    *record = (struct gossip_edge_record){
        .peer = edge->peer,
        .epoch = edge->epoch,
        .sequence = edge->sequence,
        .resync_offset = edge->resync_offset,
        .clock = edge->pace.clock,
        .reference = edge->reference.fp32,
        .correction = edge->correction.fp32,
        .reference_bf16 = edge->reference.bf16,
        .correction_bf16 = edge->correction.bf16,
        .transactions = stored,
        .transactions_bytes = bytes,
    };
    return BASE_OK;
}

// A request is open at the place of its edge: the next block of a RESYNC, or after that a sparse packet.
bool gossip_edge_request_fits(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const struct gossip_packet *request = &edge->request;
    const uint64_t left = exchange->options.parameters - edge->resync_offset;

    BASE_ASSERT(edge->resync_offset <= exchange->options.parameters);
    if (!request->held)
        return true;
    if (request->epoch != edge->epoch || request->sequence != edge->sequence)
        return false;
    if (left == 0)
        return request->form == GOSSIP_DELTA_SPARSE;
    return request->form == GOSSIP_DELTA_BLOCK && request->offset == edge->resync_offset &&
           request->moment_bytes == 0 && request->delta_bytes > 0 &&
           request->delta_bytes % sizeof(float) == 0 && request->delta_bytes / sizeof(float) <= left;
}

static enum base_error restore_transactions(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                            const struct gossip_edge_record *record)
{
    struct base_reader reader = base_reader_of(record->transactions, record->transactions_bytes);
    size_t limit = 16 * exchange->options.parameters + 65536; // any packet and any moment slice, generously

    enum base_error error = gossip_packet_restore(&edge->request, &reader, limit);
    if (!error)
        error = gossip_packet_restore(&edge->answer, &reader, limit);
    if (!error && base_reader_left(&reader) > 0) // if it is missing, the edge counts from now on
        error = restore_progress(exchange, edge, &reader);
    if (!error && (base_reader_left(&reader) != 0 || !gossip_edge_request_fits(exchange, edge)))
        error = BASE_EFORMAT;
    return error;
}

// Only read.
static struct gossip_vector vector_of(const float *fp32, const uint16_t *bf16)
{
    return (struct gossip_vector){.fp32 = (float *)(uintptr_t)fp32, .bf16 = (uint16_t *)(uintptr_t)bf16};
}

// Only in the form that the options name, because the other end has it in that form. In ordinary memory.
static bool is_stored(const struct gossip_exchange *exchange, const struct gossip_vector *vector)
{
    const struct gossip_exchange_options *options = &exchange->options;

    return (options->reference_bf16 ? vector->bf16 != NULL : vector->fp32 != NULL) &&
           gossip_vector_finite(options->kernels->host, vector, options->parameters);
}

static void copy(const struct kernels *kernels, struct gossip_vector *to, const struct gossip_vector *from,
                 size_t count)
{
    BASE_ASSERT(!to->bf16 == !from->bf16);
    if (from->bf16)
        memcpy(to->bf16, from->bf16, count * sizeof *to->bf16);
    else
        kernels->upload(to->fp32, from->fp32, count * sizeof *to->fp32);
}

// Vectors of the edge itself are only made for those that the record has. BASE_ENOMEM: some are missing.
static enum base_error restore_vectors(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                       const struct gossip_vector *reference,
                                       const struct gossip_vector *correction)
{
    const struct gossip_exchange_options *options = &exchange->options;
    const struct gossip_vector *const from[] = {reference, correction};
    struct gossip_vector *const to[] = {&edge->reference, &edge->correction};

    for (size_t i = 0; i < 2; i++) {
        if (!gossip_vector_is(from[i]) || (i == 1 && !options->drift_correction))
            continue;
        if (!gossip_vector_make(options->kernels, options->parameters, options->reference_bf16, to[i]))
            return BASE_ENOMEM;
        copy(options->kernels, to[i], from[i], options->parameters);
    }
    return BASE_OK;
}

// Before the first exchange r follows from the place of the edge.
static bool is_place(const struct gossip_exchange *exchange, const struct gossip_edge_record *record)
{
    const bool seed = record->epoch == 0 && record->resync_offset == exchange->options.parameters;

    return record->sequence == 0 && (seed || record->resync_offset == 0);
}

static uint64_t hash_of(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (gossip_vector_is(&edge->reference))
        return gossip_vector_hash(exchange->options.kernels, &edge->reference, exchange->options.parameters,
                                  false);
    return edge->resync_offset == 0 ? exchange->zero_hash : exchange->start_hash;
}

enum base_error gossip_exchange_import(struct gossip_exchange *exchange,
                                       const struct gossip_edge_record *record)
{
    const struct gossip_vector reference = vector_of(record->reference, record->reference_bf16),
                               correction = vector_of(record->correction, record->correction_bf16);
    size_t count = exchange->options.parameters;
    struct gossip_edge *edge;

    BASE_ASSERT(!exchange->pace.open);
    if (record->resync_offset > count ||
        (gossip_vector_is(&reference) ? !is_stored(exchange, &reference) : !is_place(exchange, record)) ||
        (gossip_vector_is(&correction) && !is_stored(exchange, &correction)) ||
        gossip_edge_find(exchange, &record->peer))
        return BASE_EFORMAT;
    enum base_error error = gossip_edge_add(exchange, &record->peer, &edge);
    if (error)
        return error;
    edge->epoch = record->epoch;
    edge->sequence = record->sequence;
    edge->resync_offset = record->resync_offset;
    edge->pace.clock = record->clock;
    error = restore_vectors(exchange, edge, &reference, &correction);
    if (!error) {
        edge->reference_hash = hash_of(exchange, edge);
        error = restore_transactions(exchange, edge, record);
    }
    if (error)
        gossip_edge_remove(exchange, edge);
    else if (gossip_vector_is(&edge->correction) && !exchange->summed)
        gossip_sum_again(exchange);
    return error;
}
