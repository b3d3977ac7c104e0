// After a restart: what the journal holds is done again, on top of the checkpoint that it follows. The local
// steps since the checkpoint are lost, but not all that they did: every packet says where x was, at its
// entries, when the packet was made.
#include "gossip/exchange/state.h"

#include <stdlib.h>
#include <string.h>

struct record {
    enum gossip_journal_kind kind;
    struct gossip_id peer;
    uint64_t clock, epoch, sequence, hash;
    struct base_reader body;
};

// The next whole record; false: there is none, and `reader` stands where the last one ends.
static bool next(struct base_reader *reader, struct record *record)
{
    struct base_reader at = *reader;
    const uint32_t bytes = base_read_u32(&at);
    const uint64_t digest = base_read_u64(&at);
    const uint8_t *payload = base_read_bytes(&at, bytes);

    if (at.failed || bytes < GOSSIP_JOURNAL_HEAD || gossip_journal_digest(payload, bytes) != digest)
        return false;
    struct base_reader body = base_reader_of(payload, bytes);
    record->kind = (enum gossip_journal_kind)base_read_u8(&body);
    memcpy(record->peer.bytes, base_read_bytes(&body, GOSSIP_ID_BYTES), GOSSIP_ID_BYTES);
    record->clock = base_read_u64(&body);
    record->epoch = base_read_u64(&body);
    record->sequence = base_read_u64(&body);
    record->hash = base_read_u64(&body);
    record->body = body;
    BASE_ASSERT(!body.failed);
    *reader = at;
    return record->clock <= GOSSIP_PLAUSIBLE_COUNT;
}

bool gossip_exchange_journal_next(const uint8_t *records, size_t bytes, size_t *at,
                                  struct gossip_journal_entry *entry)
{
    static const char *const kinds[] = {[GOSSIP_JOURNAL_REQUEST] = "request",
                                        [GOSSIP_JOURNAL_COMMIT] = "exchange",
                                        [GOSSIP_JOURNAL_RESYNC] = "resync",
                                        [GOSSIP_JOURNAL_DROP] = "drop",
                                        [GOSSIP_JOURNAL_FORGET] = "forget"};
    struct base_reader reader = base_reader_of(records + *at, bytes - *at);
    struct record record;

    if (!next(&reader, &record) || record.kind < GOSSIP_JOURNAL_REQUEST ||
        record.kind > GOSSIP_JOURNAL_FORGET)
        return false;
    *entry = (struct gossip_journal_entry){.kind = kinds[record.kind],
                                           .peer = record.peer,
                                           .round = record.clock,
                                           .epoch = record.epoch,
                                           .sequence = record.sequence,
                                           .bytes = bytes - base_reader_left(&reader) - *at};
    *at += entry->bytes;
    return true;
}

static size_t limit_of(const struct gossip_exchange *exchange)
{
    return 16 * exchange->options.parameters + 65536; // as for the packets of a checkpoint
}

// The entries of our packet as they would be in a packet of the restored x: into exchange->chosen.
static enum base_error pick_again(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                                  struct compress_reader reader)
{
    if (!gossip_edge_reads(exchange, edge))
        return BASE_ENOMEM;
    const struct kernels *kernels = exchange->options.kernels;
    const struct kernels_difference a = gossip_sparse_difference(exchange, edge);
    struct compress_sparse *chosen = &exchange->chosen;
    const size_t n = reader.entries, bound = compress_packet_bound(a.count, n, reader.format),
                 room = (n / KERNELS_VALUES_BLOCK + 1) * KERNELS_VALUES_BLOCK;
    uint32_t *index = malloc(room * sizeof *index);
    float *value = malloc(room * sizeof *value);
    uint8_t *packet = malloc(bound);
    size_t bytes;
    enum base_error error = index && value && packet ? BASE_OK : BASE_ENOMEM;

    BASE_ASSERT(n <= chosen->capacity && reader.done == 0);
    exchange->chosen_of = NULL;
    if (!error) {
        const size_t read = compress_reader_next(&reader, room, index, value);
        BASE_ASSERT(read == n);
        kernels->upload(chosen->index, index, n * sizeof *index);
        kernels->select->pick(&a, n, chosen->index, chosen->value);
        chosen->count = n;
        error = compress_packet_encode(kernels, chosen, a.count, reader.format, NULL, packet, bound, &bytes);
        kernels->wait(); // `index` is freed next
    }
    free(index);
    free(value);
    free(packet);
    return error;
}

// A sparse packet of ours was C(x - r). Where the restored x would have given another value, x moves by the
// difference of the two: what the lost steps did at these entries comes back, but for the part that the
// format rounds away. Without lost steps the two are equal, and no bit of x changes.
static enum base_error recover(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                               const struct gossip_packet *mine)
{
    const struct kernels *kernels = exchange->options.kernels;
    const size_t d = exchange->options.parameters;
    struct compress_reader sent;
    struct kernels_exchange step = {.x = exchange->model, .pending = exchange->pending.sum, .weight = 1};
    uint64_t hash = 0;

    if (mine->form != GOSSIP_DELTA_SPARSE || !exchange->journal.recovers)
        return BASE_OK;
    enum base_error error = compress_reader_open(kernels, mine->bytes, mine->delta_bytes, d, d, NULL, &sent);
    if (error || sent.entries == 0 || sent.entries > exchange->chosen.capacity)
        return error; // or ratio is smaller now than it was
    BASE_ASSERT(exchange->pending.sum_holds);
    error = pick_again(exchange, edge, sent);
    if (error)
        return error;
    struct gossip_side again = gossip_side_of_list(&exchange->chosen, &exchange->window[0], NULL);
    struct gossip_side then = gossip_side_of_packet(&sent, &exchange->window[1], NULL);
    gossip_merge_apply(kernels, &again, &then, &step, &hash);
    return BASE_OK;
}

static enum base_error redo_request(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                    struct record *record)
{
    edge->request.held = false;
    enum base_error error = gossip_packet_restore(&edge->request, &record->body, limit_of(exchange));

    if (!error && (!edge->request.held || !gossip_edge_request_fits(exchange, edge)))
        error = BASE_EFORMAT;
    if (!error)
        error = recover(exchange, edge, &edge->request);
    edge->request.held = edge->request.held && !error;
    return error;
}

// The indices over which their packet came.
static enum base_error restore_keys(struct gossip_edge *edge, struct base_reader *body)
{
    const uint32_t n = base_read_u32(body);

    if (body->failed || base_reader_left(body) != n * sizeof *edge->received.index)
        return BASE_EFORMAT;
    if (n == 0)
        return BASE_OK;
    uint32_t *index = malloc(n * sizeof *index);
    if (!index)
        return BASE_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        index[i] = base_read_u32(body);
    compress_history_take(&edge->received, index, n, false);
    return BASE_OK;
}

// If both ends have asked at once, our request is their answer, with the weight that both applied, and with
// moments only if theirs came with them (complete_crossed in request.c).
static void become_answer(struct gossip_edge *edge, const struct gossip_packet *theirs)
{
    const struct gossip_packet answer = edge->answer;

    BASE_ASSERT(edge->request.held);
    edge->answer = edge->request;
    edge->answer.weight = theirs->weight;
    if (theirs->moment_bytes == 0)
        edge->answer.moment_bytes = 0;
    edge->request = answer;
    edge->request.held = false;
}

static enum base_error redo_commit(struct gossip_exchange *exchange, struct gossip_edge *edge,
                                   struct record *record)
{
    struct base_reader *body = &record->body;
    const bool asked = body->at < body->end && *body->at == 0;
    struct gossip_packet none = {0}, theirs = {0}, *mine = asked ? &none : &edge->answer;
    struct gossip_effect effect;

    edge->answer.held = edge->answer.held && asked;
    edge->request.held = edge->request.held && asked; // it was withdrawn, or no answer would have been made
    enum base_error error = gossip_packet_restore(mine, body, limit_of(exchange));
    if (!error)
        error = gossip_packet_restore(&theirs, body, limit_of(exchange));
    const uint64_t slice_clock = base_read_u64(body);
    effect.weight = base_read_f32(body);
    effect.gain = base_read_f32(body);
    effect.keep = base_read_f32(body);
    mine = asked ? &edge->request : mine;
    if (!error)
        error = restore_keys(edge, body);
    if (!error &&
        (!theirs.held || !mine->held || mine->form != theirs.form ||
         (mine->form == GOSSIP_DELTA_BLOCK) == (edge->resync_offset == exchange->options.parameters)))
        error = BASE_EFORMAT;
    if (!error && !asked)
        error = recover(exchange, edge, mine);
    const struct gossip_message message = gossip_packet_message(&theirs, GOSSIP_XACK);
    if (!error)
        error = gossip_averaging_repeat(exchange, edge, mine, &message.as.exchange, slice_clock, &effect);
    if (!error && asked)
        become_answer(edge, &theirs);
    if (!error && slice_clock > edge->pace.clock)
        edge->pace.clock = slice_clock;
    edge->answer.held = edge->answer.held && (!error || asked);
    gossip_packet_free(&theirs);
    return error;
}

static enum base_error redo(struct gossip_exchange *exchange, struct gossip_edge *edge, struct record *record)
{
    switch (record->kind) {
    case GOSSIP_JOURNAL_REQUEST:
        return redo_request(exchange, edge, record);
    case GOSSIP_JOURNAL_COMMIT:
        return redo_commit(exchange, edge, record);
    case GOSSIP_JOURNAL_DROP:
        gossip_edge_drop_correction(exchange, edge);
        return BASE_OK;
    case GOSSIP_JOURNAL_RESYNC: {
        const uint64_t epoch = base_read_u64(&record->body);
        gossip_edge_restart(exchange, edge, epoch, base_read_u8(&record->body) != 0);
        return BASE_OK;
    }
    case GOSSIP_JOURNAL_FORGET:
        return gossip_edge_forget(exchange, &edge->peer, base_read_u8(&record->body) != 0);
    }
    return BASE_EFORMAT;
}

// A RESYNC and a FORGET begin the edge anew, so they fit an edge at any place.
static bool fits(const struct gossip_edge *edge, const struct record *record)
{
    if (record->kind == GOSSIP_JOURNAL_RESYNC || record->kind == GOSSIP_JOURNAL_FORGET)
        return true;
    return edge->epoch == record->epoch && edge->sequence == record->sequence &&
           edge->reference_hash == record->hash;
}

// All updates go to the sum of the pending ones: a list of them would borrow packets that the next record
// overwrites.
static enum base_error redo_record(struct gossip_exchange *exchange, struct record *record)
{
    struct gossip_edge *edge = gossip_edge_find(exchange, &record->peer);
    float *sum;
    enum base_error error = gossip_pending_sum(exchange, &sum);

    if (!error && !edge)
        error = gossip_edge_add(exchange, &record->peer, &edge);
    if (error)
        return error;
    BASE_ASSERT(edge->state == GOSSIP_EDGE_DOWN);
    return fits(edge, record) ? redo(exchange, edge, record) : BASE_EFORMAT;
}

enum base_error gossip_exchange_replay(struct gossip_exchange *exchange, const uint8_t *records, size_t bytes,
                                       bool recovers, struct gossip_exchange_replayed *replayed)
{
    struct base_reader reader = base_reader_of(records, bytes);
    struct record record;

    BASE_ASSERT(!exchange->pace.open && !exchange->journal.on);
    *replayed = (struct gossip_exchange_replayed){0};
    exchange->journal.recovers = recovers;
    while (next(&reader, &record)) {
        const enum base_error error = redo_record(exchange, &record);
        if (error == BASE_ENOMEM)
            return error;
        replayed->records++;
        replayed->left_out += error != BASE_OK;
        if (!error && record.clock > exchange->pace.round)
            exchange->pace.round = exchange->age = record.clock;
    }
    replayed->bytes = bytes - base_reader_left(&reader);
    replayed->round = exchange->pace.round;
    return BASE_OK;
}
