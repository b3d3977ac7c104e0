// The journal: what changes the edges of this node after a checkpoint, so that a process that is killed at
// any moment comes back to where its neighbours are. journal.c makes the records of a step, replay.c applies
// them after a restart. Private to gossip/exchange; exchange.h has what the owner calls.
//
// A record: u32 bytes of what follows the digest, u64 digest of that; u8 kind, 32 bytes peer, u64 our round,
// u64 epoch, u64 sequence, u64 hash of r, all before the change; then
//   REQUEST  our packet, which is about to be sent
//   COMMIT   our packet, or u8 0 if it is the request; theirs; u64 round of the moments' slice, f32 weight
//   and
//            f32 gain as they were applied, u32 n, n x u32: the indices of theirs if it came without them
//   RESYNC   u64 the new epoch, u8: the correction is kept, and fades
//   DROP     the correction is dropped
//   FORGET   u8: the peer has died
// Packets are in their checkpoint form (packet.h). A record fits if epoch, sequence and hash are those of the
// edge; one that does not fit is left out, and the edge will RESYNC.
#ifndef GOSSIP_EXCHANGE_JOURNAL_H
#define GOSSIP_EXCHANGE_JOURNAL_H

#include "base/cursor.h"
#include "compress/packet.h"
#include "gossip/exchange/packet.h"
#include "gossip/id.h"

struct gossip_exchange;
struct gossip_edge;

enum gossip_journal_kind {
    GOSSIP_JOURNAL_REQUEST = 1,
    GOSSIP_JOURNAL_COMMIT,
    GOSSIP_JOURNAL_RESYNC,
    GOSSIP_JOURNAL_DROP,
    GOSSIP_JOURNAL_FORGET,
};
#define GOSSIP_JOURNAL_FRAME 12u // bytes before a record: its length and its digest
#define GOSSIP_JOURNAL_HEAD  (1u + GOSSIP_ID_BYTES + 4u * 8u)

struct gossip_journal {
    bool on;
    bool recovers;    // replay: what lost steps did to x is taken from what was sent
    uint8_t *records; // of the latest step
    size_t count, capacity;
};

// What an exchange did to this end: the step of x in units of q_j - q_i, and that of c in units of the step
// of x. Both depend on what this process knew, so they are stored.
struct gossip_effect {
    float weight, gain;
    float keep; // the part of c that stays, in (0, 1]
};

// Each of these does nothing while no journal is kept. Out of memory, the journal ends.
void gossip_journal_request(struct gossip_exchange *exchange, const struct gossip_edge *edge);
// Before the exchange is applied. `keys`: those over which theirs came, or NULL.
void gossip_journal_commit(struct gossip_exchange *exchange, const struct gossip_edge *edge,
                           const struct gossip_packet *mine, const struct gossip_exchange_message *theirs,
                           uint64_t slice_clock, const struct gossip_effect *effect,
                           const struct compress_keys *keys);
void gossip_journal_resync(struct gossip_exchange *exchange, const struct gossip_edge *edge, uint64_t epoch,
                           bool fades);
void gossip_journal_drop(struct gossip_exchange *exchange, const struct gossip_edge *edge);
void gossip_journal_forget(struct gossip_exchange *exchange, const struct gossip_edge *edge, bool dead);
void gossip_journal_end(struct gossip_exchange *exchange);

uint64_t gossip_journal_digest(const void *payload, size_t bytes);

#endif
