// Shared by session.c, sealer.c and opener.c: the frame of a record, and the constructors. Private to these
// files and to tests that act as a misbehaving peer.
#ifndef GOSSIP_SESSION_RECORDS_PRIVATE_H
#define GOSSIP_SESSION_RECORDS_PRIVATE_H

#include "base/cursor.h"
#include "gossip/session/noise.h"
#include "gossip/session/records.h"

#define RECORD_PREFIX 3u // u16 length of the rest, u8 kind; both are associated data
#define RECORD_TAG    GOSSIP_NOISE_TAG_BYTES
#define RECORD_PLAIN  (LIMIT_RECORD_BYTES - RECORD_TAG) // maximum plaintext of a record
#define BEGIN_BYTES   4u                                // plaintext of RECORD_BEGIN: u32 length

enum record_kind {
    RECORD_WHOLE, // a small message
    RECORD_BEGIN, // the length of a larger one
    RECORD_MORE,  // its next bytes
};

_Static_assert(RECORD_PREFIX + RECORD_TAG == GOSSIP_RECORD_OVERHEAD, "what a record adds");

// AES-GCM: at 2^28 blocks under a key an attacker's advantage is below 2^-72 (quadratic in the blocks, over
// 2^128).
_Static_assert((uint64_t)LIMIT_REKEY_RECORDS *(LIMIT_RECORD_BYTES / 16 + 1) <= 1u << 28,
               "blocks under one key");

// Both ends step their key at the same record. True: the key has changed.
static inline bool record_step(struct gossip_noise_cipher *cipher)
{
    const bool steps = cipher->nonce % LIMIT_REKEY_RECORDS == 0;
    if (steps)
        gossip_noise_rekey(cipher);
    return steps;
}

static inline void record_prefix(uint8_t *record, size_t plain, enum record_kind kind)
{
    struct base_writer writer = base_writer_of(record, RECORD_PREFIX);
    base_write_u16(&writer, (uint16_t)(plain + RECORD_TAG));
    base_write_u8(&writer, (uint8_t)kind);
}

// NULL: no memory.
struct gossip_sealer *gossip_sealer_create(const struct gossip_noise_cipher *cipher);
struct gossip_opener *gossip_opener_create(const struct gossip_noise_cipher *cipher, size_t message_limit);

#endif
