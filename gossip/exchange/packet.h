// One side of an exchange as it travels: kept by the initiator until the answer is there, by the responder
// until the next exchange of the edge, so that a lost answer can be replayed and applied exactly.
#ifndef GOSSIP_EXCHANGE_PACKET_H
#define GOSSIP_EXCHANGE_PACKET_H

#include "base/cursor.h"
#include "base/error.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

struct gossip_packet {
    bool held; // the other fields are valid
    uint64_t epoch, sequence, clock;
    enum gossip_standing standing;
    float step_scale, weight;
    uint64_t pace_ns; // not stored: an old one is useless
    enum gossip_delta_form form;
    uint64_t offset;
    bool keys;      // the receiver is to remember the indices; not stored: a restart forgets them
    bool again;     // ours: over the indices that the peer remembers
    uint8_t *bytes; // owned: the delta, then the moment slice; behind them the delta without indices
    size_t delta_bytes, moment_bytes, capacity;
    size_t saved; // bytes of the delta not sent, because it went without indices
};

void gossip_packet_free(struct gossip_packet *packet);
// Makes room for `capacity` bytes; the contents are lost. BASE_ENOMEM changes nothing.
enum base_error gossip_packet_reserve(struct gossip_packet *packet, size_t capacity) BASE_CHECK;
// A copy of what a peer sent (XCHG or XACK), held.
enum base_error gossip_packet_keep(struct gossip_packet *packet,
                                   const struct gossip_exchange_message *message) BASE_CHECK;
// The message that carries it; payloads point into the packet.
struct gossip_message gossip_packet_message(const struct gossip_packet *packet,
                                            enum gossip_message_kind kind);

// Checkpoint form: u8 held, then u64 epoch, sequence, clock, u8 standing, f32 step scale, f32 weight, u8
// form, u64 offset, u32 delta bytes, u32 moment bytes, the bytes. `limit`: most payload bytes accepted.
size_t gossip_packet_stored_bytes(const struct gossip_packet *packet);
void gossip_packet_store(const struct gossip_packet *packet, struct base_writer *writer);
enum base_error gossip_packet_restore(struct gossip_packet *packet, struct base_reader *reader,
                                      size_t limit) BASE_CHECK;

#endif
