// One side of an exchange, as it is sent. The initiator keeps it until it has the answer, the responder until
// the next exchange of the edge, so that a lost answer can be replayed and applied exactly.
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
    float step_scale, weight, limit, bound;
    float progress;   // not stored: it would be out of date
    uint64_t pace_ns; // likewise
    enum gossip_delta_form form;
    uint64_t offset;
    bool keys;      // the receiver remembers the indices; not stored: a restart forgets them
    bool again;     // in our packets: the peer remembers these indices
    uint8_t *bytes; // owned: the delta, the moment slice, then the delta without indices
    size_t delta_bytes, moment_bytes, capacity;
    size_t saved; // bytes that were not sent because the delta went without indices
};

void gossip_packet_free(struct gossip_packet *packet);
// Makes room for `capacity` bytes; the contents are lost. BASE_ENOMEM changes nothing.
enum base_error gossip_packet_reserve(struct gossip_packet *packet, size_t capacity) BASE_CHECK;
// Keeps a copy of a peer's XCHG or XACK.
enum base_error gossip_packet_keep(struct gossip_packet *packet,
                                   const struct gossip_exchange_message *message) BASE_CHECK;
// The message that carries the packet; its payloads point into the packet.
struct gossip_message gossip_packet_message(const struct gossip_packet *packet,
                                            enum gossip_message_kind kind);

// Checkpoint form: u8 2, or 0 if none is held, then u64 epoch, sequence, clock, u8 standing, f32 step scale,
// f32 weight, f32 limit, f32 bound, u8 form, u64 offset, u32 delta bytes, u32 moment bytes, the bytes. Those
// of protocol 20 begin with 1 and have no limit. `most`: of payload bytes that are accepted.
size_t gossip_packet_stored_bytes(const struct gossip_packet *packet);
void gossip_packet_store(const struct gossip_packet *packet, struct base_writer *writer);
// The same of the peer's side, as its message has it.
size_t gossip_packet_message_bytes(const struct gossip_exchange_message *message);
void gossip_packet_store_message(const struct gossip_exchange_message *message, struct base_writer *writer);
enum base_error gossip_packet_restore(struct gossip_packet *packet, struct base_reader *reader,
                                      size_t most) BASE_CHECK;

#endif
