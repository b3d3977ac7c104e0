#include "gossip/exchange/state.h"

#include "base/hash.h"
#include <stdlib.h>

#define DIGEST_SEED 0x6a6f75726e616cull // "journal"

uint64_t gossip_journal_digest(const void *payload, size_t bytes)
{
    return base_hash_bytes(DIGEST_SEED, payload, bytes);
}

void gossip_journal_end(struct gossip_exchange *exchange)
{
    exchange->journal.on = false;
    exchange->journal.count = 0;
}

// False: no journal is kept, or it has just ended, out of memory: without this record the later ones would
// not fit.
static bool make_room(struct gossip_exchange *exchange, size_t bytes)
{
    struct gossip_journal *journal = &exchange->journal;

    BASE_ASSERT(journal->count <= journal->capacity);
    if (!journal->on || journal->capacity - journal->count >= bytes)
        return journal->on;
    const size_t capacity = 2 * journal->capacity + bytes;
    uint8_t *records = realloc(journal->records, capacity);
    if (!records) {
        gossip_journal_end(exchange);
        return false;
    }
    journal->records = records;
    journal->capacity = capacity;
    return true;
}

// A record with a body of `bytes` bytes, which the caller writes. False: it is not to be made.
static bool begin(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                  enum gossip_journal_kind kind, size_t bytes, struct base_writer *writer)
{
    struct gossip_journal *journal = &exchange->journal;
    const size_t all = GOSSIP_JOURNAL_FRAME + GOSSIP_JOURNAL_HEAD + bytes;

    if (!make_room(exchange, all))
        return false;
    *writer = base_writer_of(journal->records + journal->count, all);
    (void)base_write_room(writer, GOSSIP_JOURNAL_FRAME);
    base_write_u8(writer, (uint8_t)kind);
    base_write_bytes(writer, edge->peer.bytes, GOSSIP_ID_BYTES);
    base_write_u64(writer, exchange->pace.round);
    base_write_u64(writer, edge->epoch);
    base_write_u64(writer, edge->sequence);
    base_write_u64(writer, edge->reference_hash);
    return true;
}

static void end(struct gossip_exchange *exchange, const struct base_writer *writer)
{
    const size_t all = base_writer_used(writer);
    struct base_writer frame = base_writer_of(writer->start, GOSSIP_JOURNAL_FRAME);

    BASE_ASSERT(!writer->failed && writer->at == writer->end);
    base_write_u32(&frame, (uint32_t)(all - GOSSIP_JOURNAL_FRAME));
    base_write_u64(&frame,
                   gossip_journal_digest(writer->start + GOSSIP_JOURNAL_FRAME, all - GOSSIP_JOURNAL_FRAME));
    exchange->journal.count += all;
}

void gossip_journal_request(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    struct base_writer writer;

    BASE_ASSERT(edge->request.held);
    if (!begin(exchange, edge, GOSSIP_JOURNAL_REQUEST, gossip_packet_stored_bytes(&edge->request), &writer))
        return;
    gossip_packet_store(&edge->request, &writer);
    end(exchange, &writer);
}

void gossip_journal_commit(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           const struct gossip_packet *mine, const struct gossip_exchange_message *theirs,
                           uint64_t slice_clock, const struct gossip_effect *effect,
                           const struct compress_keys *keys)
{
    const bool asked = mine == &edge->request;
    const size_t n_keys = keys ? keys->count : 0;
    struct base_writer writer;

    BASE_ASSERT(mine->held && (asked || mine == &edge->answer));
    if (!begin(exchange, edge, GOSSIP_JOURNAL_COMMIT,
               (asked ? 1 : gossip_packet_stored_bytes(mine)) + gossip_packet_message_bytes(theirs) + 8 +
                   3 * 4 + 4 + n_keys * sizeof *keys->index,
               &writer))
        return;
    if (asked)
        base_write_u8(&writer, 0);
    else
        gossip_packet_store(mine, &writer);
    gossip_packet_store_message(theirs, &writer);
    base_write_u64(&writer, slice_clock);
    base_write_f32(&writer, effect->weight);
    base_write_f32(&writer, effect->gain);
    base_write_f32(&writer, effect->keep);
    base_write_u32(&writer, (uint32_t)n_keys);
    for (size_t i = 0; i < n_keys; i++)
        base_write_u32(&writer, keys->index[i]);
    end(exchange, &writer);
}

void gossip_journal_resync(struct gossip_exchange *exchange, const struct gossip_edge *edge, uint64_t epoch,
                           bool fades)
{
    struct base_writer writer;

    if (!begin(exchange, edge, GOSSIP_JOURNAL_RESYNC, 8 + 1, &writer))
        return;
    base_write_u64(&writer, epoch);
    base_write_u8(&writer, fades);
    end(exchange, &writer);
}

void gossip_journal_drop(struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    struct base_writer writer;

    if (begin(exchange, edge, GOSSIP_JOURNAL_DROP, 0, &writer))
        end(exchange, &writer);
}

void gossip_journal_forget(struct gossip_exchange *exchange, const struct gossip_edge *edge, bool dead)
{
    struct base_writer writer;

    if (!begin(exchange, edge, GOSSIP_JOURNAL_FORGET, 1, &writer))
        return;
    base_write_u8(&writer, dead);
    end(exchange, &writer);
}

void gossip_exchange_journal_begin(struct gossip_exchange *exchange)
{
    exchange->journal.on = true;
    exchange->journal.count = 0;
}

bool gossip_exchange_journal_kept(const struct gossip_exchange *exchange)
{
    return exchange->journal.on;
}

const uint8_t *gossip_exchange_journal(const struct gossip_exchange *exchange, size_t *bytes)
{
    *bytes = exchange->journal.count;
    return exchange->journal.records;
}
