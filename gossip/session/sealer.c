#include "gossip/session/records_private.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

// Record size of a larger message: both passes of the cipher find the data in L1.
#define PIECE_BYTES 16384u

struct gossip_sealer {
    struct gossip_noise_cipher cipher;
    struct gossip_aead_key *ready; // the cipher's key, prepared
    // The larger message in progress.
    struct gossip_session_part parts[GOSSIP_MESSAGE_PARTS];
    size_t part, offset; // position of the next byte
    size_t bytes, left;  // bytes: its length; left: bytes not sealed yet
    bool announced;      // the record with its length is sealed
};

size_t gossip_sealed_bytes(size_t message_bytes)
{
    if (message_bytes <= LIMIT_PROMPT_BYTES)
        return message_bytes + GOSSIP_RECORD_OVERHEAD;
    size_t records = 1 + (message_bytes + PIECE_BYTES - 1) / PIECE_BYTES; // the first one has the length
    return BEGIN_BYTES + message_bytes + records * GOSSIP_RECORD_OVERHEAD;
}

struct gossip_sealer *gossip_sealer_create(const struct gossip_noise_cipher *cipher)
{
    struct gossip_sealer *sealer = calloc(1, sizeof *sealer);
    if (!sealer)
        return NULL;
    sealer->cipher = *cipher;
    sealer->ready = gossip_aead_key_create(cipher->aead, cipher->key);
    if (sealer->ready)
        return sealer;
    gossip_sealer_destroy(sealer);
    return NULL;
}

void gossip_sealer_destroy(struct gossip_sealer *sealer)
{
    if (!sealer)
        return;
    gossip_aead_key_destroy(sealer->ready);
    sodium_memzero(sealer, sizeof *sealer);
    free(sealer);
}

// SIZE_MAX: too many parts, or over 2^32 - 1 bytes.
static size_t bytes_of(const struct gossip_session_part *parts, size_t n_parts)
{
    size_t bytes = 0;
    if (n_parts > GOSSIP_MESSAGE_PARTS)
        return SIZE_MAX;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].bytes > UINT32_MAX - bytes)
            return SIZE_MAX;
        bytes += parts[i].bytes;
    }
    return bytes;
}

static size_t seal(struct gossip_sealer *sealer, enum record_kind kind, const uint8_t *plain, size_t bytes,
                   uint8_t *record)
{
    struct gossip_noise_cipher *cipher = &sealer->cipher;
    BASE_ASSERT(cipher->nonce < UINT64_MAX);
    const struct gossip_aead_message message = {cipher->nonce++, record, RECORD_PREFIX,
                                                plain,           bytes,  record + RECORD_PREFIX};
    record_prefix(record, bytes, kind);
    gossip_aead_seal(sealer->ready, &message);
    if (record_step(cipher))
        gossip_aead_key_replace(sealer->ready, cipher->key);
    return bytes + GOSSIP_RECORD_OVERHEAD;
}

size_t gossip_sealer_prompt(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                            size_t n_parts, uint8_t *out)
{
    const size_t bytes = bytes_of(parts, n_parts);
    uint8_t *at = out + RECORD_PREFIX;
    if (bytes == 0 || bytes > LIMIT_PROMPT_BYTES)
        return 0;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].bytes > 0)
            memcpy(at, parts[i].data, parts[i].bytes);
        at += parts[i].bytes;
    }
    return seal(sealer, RECORD_WHOLE, out + RECORD_PREFIX, bytes, out);
}

bool gossip_sealer_idle(const struct gossip_sealer *sealer)
{
    return sealer->left == 0;
}

enum base_error gossip_sealer_begin(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                                    size_t n_parts)
{
    const size_t bytes = bytes_of(parts, n_parts);
    if (!gossip_sealer_idle(sealer))
        return BASE_ESTATE;
    if (bytes <= LIMIT_PROMPT_BYTES || bytes == SIZE_MAX)
        return BASE_ELIMIT;
    BASE_ASSERT(n_parts <= sizeof sealer->parts / sizeof sealer->parts[0]);
    memcpy(sealer->parts, parts, n_parts * sizeof *parts);
    sealer->part = sealer->offset = 0;
    sealer->bytes = sealer->left = bytes;
    sealer->announced = false;
    return BASE_OK;
}

// The next `bytes` bytes of the message: in place if one part holds them, otherwise joined in `room`.
static const uint8_t *gather(struct gossip_sealer *sealer, uint8_t *room, size_t bytes)
{
    BASE_ASSERT(bytes <= sealer->left);
    while (sealer->offset == sealer->parts[sealer->part].bytes) {
        sealer->part++;
        sealer->offset = 0;
    }
    const struct gossip_session_part *part = &sealer->parts[sealer->part];
    if (part->bytes - sealer->offset >= bytes) {
        sealer->offset += bytes;
        return (const uint8_t *)part->data + sealer->offset - bytes;
    }
    for (size_t filled = 0; filled < bytes;) {
        part = &sealer->parts[sealer->part];
        const size_t left = part->bytes - sealer->offset;
        const size_t take = left < bytes - filled ? left : bytes - filled;
        if (take > 0)
            memcpy(room + filled, (const uint8_t *)part->data + sealer->offset, take);
        filled += take;
        sealer->offset += take;
        if (filled < bytes) {
            sealer->part++;
            sealer->offset = 0;
        }
    }
    return room;
}

static size_t announce(struct gossip_sealer *sealer, uint8_t *out)
{
    BASE_ASSERT(!sealer->announced && sealer->left == sealer->bytes);
    uint8_t length[BEGIN_BYTES];
    struct base_writer writer = base_writer_of(length, sizeof length);
    base_write_u32(&writer, (uint32_t)sealer->bytes);
    sealer->announced = true;
    return seal(sealer, RECORD_BEGIN, length, sizeof length, out);
}

size_t gossip_sealer_next(struct gossip_sealer *sealer, uint8_t *out, size_t room)
{
    BASE_ASSERT(sealer->left <= sealer->bytes);
    size_t made = 0;
    while (sealer->left > 0) {
        const size_t piece = sealer->left < PIECE_BYTES ? sealer->left : PIECE_BYTES;
        if (room - made < piece + 2 * GOSSIP_RECORD_OVERHEAD + BEGIN_BYTES)
            break;
        if (!sealer->announced)
            made += announce(sealer, out + made);
        const uint8_t *plain = gather(sealer, out + made + RECORD_PREFIX, piece);
        made += seal(sealer, RECORD_MORE, plain, piece, out + made);
        sealer->left -= piece;
    }
    return made;
}
