// What an established stream carries: sealed records, in two halves. A sealer makes the records of one
// direction, an opener takes them apart at the other end. A small message is one record; a larger one is cut
// into many, and small messages may go between these, so they need not wait for the end of a large one.
// Layout: README.md.
//
// Each half is a plain state machine with one owner, which may be another thread than the other half's. No
// socket, clock or randomness.
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

// A message is given in parts that are joined by the cipher, not before.
struct gossip_session_part {
    const void *data;
    size_t bytes;
};

// The size on a stream, as records, of a message of 1 to 2^32 - 1 bytes.
size_t gossip_sealed_bytes(size_t message_bytes);

void gossip_sealer_destroy(struct gossip_sealer *sealer); // wipes its keys; NULL is fine
// A message of 1 to LIMIT_PROMPT_BYTES bytes as one record, also between the records of a larger one. `out`
// has room for its length and GOSSIP_RECORD_OVERHEAD, which are returned; 0 for any other length or too many
// parts: nothing has changed.
size_t gossip_sealer_prompt(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                            size_t n_parts, uint8_t *out);
// A larger message, of at most 2^32 - 1 bytes. The parts are copied, the bytes they point to are borrowed
// until the sealer is idle again. BASE_ELIMIT: any other length, or too many parts; BASE_ESTATE: not idle.
enum base_error gossip_sealer_begin(struct gossip_sealer *sealer, const struct gossip_session_part *parts,
                                    size_t n_parts) BASE_CHECK;
// Its next records, as many as `room` bytes hold; returns how many bytes they are. 0: idle, or no room for
// one.
size_t gossip_sealer_next(struct gossip_sealer *sealer, uint8_t *out, size_t room);
bool gossip_sealer_idle(const struct gossip_sealer *sealer); // no message is begun, or it is all sealed

struct gossip_opened { // a whole message; bytes NULL: none
    uint8_t *bytes;    // malloc'ed, the caller's from now on
    size_t count;
};
void gossip_opener_destroy(struct gossip_opener *opener); // wipes keys and what was opened; NULL is fine
// Takes whole records from in[in_bytes], at most until a message is whole, and returns the bytes taken. If
// *message stays empty, the rest is the beginning of a record: pass it again with more behind it; it is
// shorter than LIMIT_RECORD_BYTES + 3. A record is opened straight into its message, which is allocated when
// its length has been authenticated and held against the limit. After an error the opener is dead
// (BASE_ESTATE): BASE_EAUTH bytes were changed on the way, BASE_EFORMAT broken framing, BASE_ELIMIT a message
// over the limit, BASE_ENOMEM.
enum base_error gossip_opener_take(struct gossip_opener *opener, const uint8_t *in, size_t in_bytes,
                                   size_t *consumed, struct gossip_opened *message) BASE_CHECK;

#endif
