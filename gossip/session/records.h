// The sealed records of an established stream. A sealer makes the records of one direction, an opener opens
// them at the other end. A small message is one record; a larger message is divided into many. Small messages
// may be sent between these, so they need not wait for the end of a large one. Layout: README.md.
//
// Sealer and opener are plain state machines with one owner each, which may be different threads. No socket,
// clock or randomness.
#ifndef GOSSIP_SESSION_RECORDS_H
#define GOSSIP_SESSION_RECORDS_H

#include "base/error.h"
#include "base/limits.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_RECORD_OVERHEAD 19u // u16 length, u8 kind, tag
#define GOSSIP_PROMPT_SEALED   (LIMIT_PROMPT_BYTES + GOSSIP_RECORD_OVERHEAD)
#define GOSSIP_MESSAGE_PARTS   4u

struct gossip_sealer;
struct gossip_opener;

// A message is passed in parts, which the cipher joins.
struct gossip_session_part {
    const void *data;
    size_t bytes;
};

// The number of bytes on the stream of a message of 1 to 2^32 - 1 bytes, as records.
size_t gossip_sealed_bytes(size_t message_bytes);

void gossip_sealer_destroy(struct gossip_sealer *sealer); // wipes its keys; NULL is allowed
// Seals a message of 1 to LIMIT_PROMPT_BYTES bytes as one record, possibly between the records of a larger
// message. `out` has room for the message and GOSSIP_RECORD_OVERHEAD; returns their sum. Returns 0, without
// any change, for another length or too many parts.
size_t gossip_sealer_prompt(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                            size_t n_parts, uint8_t *out);
// Begins a larger message, of at most 2^32 - 1 bytes. The parts are copied; the bytes they point to are
// borrowed until the sealer is idle again. BASE_ELIMIT: another length, or too many parts. BASE_ESTATE: not
// idle.
enum base_error gossip_sealer_begin(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                                    size_t n_parts) BASE_CHECK;
// Writes the next records of that message, as many as fit into `room` bytes; returns their bytes. 0: idle, or
// no room for a record.
size_t gossip_sealer_next(struct gossip_sealer *sealer, uint8_t *out, size_t room);
bool gossip_sealer_idle(const struct gossip_sealer *sealer); // no larger message has been begun, or it is
                                                             // sealed completely

struct gossip_opened { // a complete message; bytes NULL: none
    uint8_t *bytes;    // malloc'ed; the caller owns them from now on
    size_t count;
};
void gossip_opener_destroy(struct gossip_opener *opener); // wipes keys and opened data; NULL is allowed
// Opens whole records from in[in_bytes], at most until a message is complete; *consumed is the number of
// bytes read. If *message stays empty, the remaining bytes are the beginning of a record: pass them again,
// with more bytes after them; they are fewer than LIMIT_RECORD_BYTES + 3. A record is opened directly into
// its message, which is allocated when its length has been authenticated and checked against the limit. After
// an error the opener is dead (BASE_ESTATE). BASE_EAUTH: bytes were modified. BASE_EFORMAT: invalid framing.
// BASE_ELIMIT: a message over the limit. BASE_ENOMEM.
enum base_error gossip_opener_take(struct gossip_opener *opener, const uint8_t *in, size_t in_bytes,
                                   size_t *consumed, struct gossip_opened *message) BASE_CHECK;

#endif
