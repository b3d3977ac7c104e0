#include "gossip/exchange/packet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_NOT, HELD_WITHOUT_LIMITS, HELD }; // the first byte of the checkpoint form

void gossip_packet_free(struct gossip_packet *packet)
{
    free(packet->bytes);
    memset(packet, 0, sizeof *packet);
}

enum base_error gossip_packet_reserve(struct gossip_packet *packet, size_t capacity)
{
    BASE_ASSERT(packet->bytes || packet->capacity == 0);
    if (capacity <= packet->capacity)
        return BASE_OK;
    uint8_t *bytes = malloc(capacity);
    if (!bytes)
        return BASE_ENOMEM;
    free(packet->bytes);
    packet->bytes = bytes;
    packet->capacity = capacity;
    return BASE_OK;
}

enum base_error gossip_packet_keep(struct gossip_packet *packet,
                                   const struct gossip_exchange_message *message)
{
    size_t delta_bytes = message->delta_bytes, moment_bytes = message->moment_bytes;
    enum base_error error = gossip_packet_reserve(packet, delta_bytes + moment_bytes);

    if (error)
        return error;
    BASE_ASSERT(packet->bytes || delta_bytes + moment_bytes == 0);
    packet->held = true;
    packet->epoch = message->epoch;
    packet->sequence = message->sequence;
    packet->clock = message->clock;
    packet->standing = (enum gossip_standing)message->standing;
    packet->step_scale = message->step_scale;
    packet->weight = message->weight;
    packet->limit = message->limit;
    packet->bound = message->bound;
    packet->progress = message->progress;
    packet->pace_ns = message->pace_ns;
    packet->form = (enum gossip_delta_form)message->form;
    packet->offset = message->offset;
    packet->keys = message->keys;
    packet->again = false;
    packet->saved = 0;
    packet->delta_bytes = delta_bytes;
    packet->moment_bytes = moment_bytes;
    if (delta_bytes)
        memcpy(packet->bytes, message->delta, delta_bytes);
    if (moment_bytes)
        memcpy(packet->bytes + delta_bytes, message->moment, moment_bytes);
    return BASE_OK;
}

struct gossip_message gossip_packet_message(const struct gossip_packet *packet, enum gossip_message_kind kind)
{
    struct gossip_message message = {.kind = kind};

    message.as.exchange = (struct gossip_exchange_message){
        .epoch = packet->epoch,
        .sequence = packet->sequence,
        .clock = packet->clock,
        .standing = (uint8_t)packet->standing,
        .step_scale = packet->step_scale,
        .weight = packet->weight,
        .limit = packet->limit,
        .bound = packet->bound,
        .progress = packet->progress,
        .pace_ns = packet->pace_ns,
        .form = (uint8_t)packet->form,
        .offset = packet->offset,
        .keys = packet->keys,
        .delta = packet->bytes,
        .delta_bytes = (uint32_t)packet->delta_bytes,
        .moment = packet->moment_bytes ? packet->bytes + packet->delta_bytes : NULL,
        .moment_bytes = (uint32_t)packet->moment_bytes,
    };
    return message;
}

size_t gossip_packet_message_bytes(const struct gossip_exchange_message *message)
{
    return 1 + 3 * 8 + 1 + 4 * 4 + 1 + 8 + 2 * 4 + (size_t)message->delta_bytes + message->moment_bytes;
}

void gossip_packet_store_message(const struct gossip_exchange_message *message, struct base_writer *writer)
{
    base_write_u8(writer, HELD);
    base_write_u64(writer, message->epoch);
    base_write_u64(writer, message->sequence);
    base_write_u64(writer, message->clock);
    base_write_u8(writer, message->standing);
    base_write_f32(writer, message->step_scale);
    base_write_f32(writer, message->weight);
    base_write_f32(writer, message->limit);
    base_write_f32(writer, message->bound);
    base_write_u8(writer, message->form);
    base_write_u64(writer, message->offset);
    base_write_u32(writer, message->delta_bytes);
    base_write_u32(writer, message->moment_bytes);
    base_write_bytes(writer, message->delta, message->delta_bytes);
    base_write_bytes(writer, message->moment, message->moment_bytes);
}

size_t gossip_packet_stored_bytes(const struct gossip_packet *packet)
{
    const struct gossip_message message = gossip_packet_message(packet, GOSSIP_XCHG);

    return packet->held ? gossip_packet_message_bytes(&message.as.exchange) : 1;
}

void gossip_packet_store(const struct gossip_packet *packet, struct base_writer *writer)
{
    const struct gossip_message message = gossip_packet_message(packet, GOSSIP_XCHG);

    if (packet->held)
        gossip_packet_store_message(&message.as.exchange, writer);
    else
        base_write_u8(writer, HELD_NOT);
}

enum base_error gossip_packet_restore(struct gossip_packet *packet, struct base_reader *reader, size_t most)
{
    BASE_ASSERT(!packet->held);
    struct gossip_exchange_message message = {0};
    uint8_t held = base_read_u8(reader);

    if (reader->failed || held > HELD)
        return BASE_EFORMAT;
    if (held == HELD_NOT) {
        packet->held = false;
        return BASE_OK;
    }
    message.epoch = base_read_u64(reader);
    message.sequence = base_read_u64(reader);
    message.clock = base_read_u64(reader);
    message.standing = base_read_u8(reader);
    message.step_scale = base_read_f32(reader);
    message.weight = base_read_f32(reader);
    message.limit = held == HELD ? base_read_f32(reader) : INFINITY;
    message.bound = held == HELD ? base_read_f32(reader) : INFINITY;
    message.form = base_read_u8(reader);
    message.offset = base_read_u64(reader);
    message.delta_bytes = base_read_u32(reader);
    message.moment_bytes = base_read_u32(reader);
    if (reader->failed || message.form > GOSSIP_DELTA_BLOCK || message.standing > GOSSIP_FINISHED ||
        !isfinite(message.step_scale) || message.step_scale < 0 ||
        !(message.weight > 0 && message.weight <= 1) || !(message.limit >= 0) || !(message.bound >= 0) ||
        (message.form == GOSSIP_DELTA_SPARSE && message.offset != 0) ||
        (size_t)message.delta_bytes + message.moment_bytes > most)
        return BASE_EFORMAT;
    message.delta = base_read_bytes(reader, message.delta_bytes);
    message.moment = base_read_bytes(reader, message.moment_bytes);
    if (reader->failed)
        return BASE_EFORMAT;
    return gossip_packet_keep(packet, &message);
}
