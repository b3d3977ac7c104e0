// The headers of messages: msgpack-c packs into a bounded cursor.
#include "base/cursor.h"
#include "gossip/wire/fields.h"
#include <msgpack/pack.h>
#include <string.h>

struct encoder {
    msgpack_packer packer;
    struct base_writer out;
    bool invalid; // a field that our own decoder would refuse
};

static int put_bytes(void *data, const char *bytes, size_t count)
{
    struct base_writer *out = data;
    base_write_bytes(out, bytes, count);
    return out->failed ? -1 : 0;
}

// The packer's return value says no more than out.failed does.
static void put_uint(struct encoder *encoder, uint64_t value)
{
    (void)msgpack_pack_uint64(&encoder->packer, value);
}

static void put_text(struct encoder *encoder, const char *text, size_t capacity, enum gossip_charset charset)
{
    const size_t length = strnlen(text, capacity);
    if (length == capacity || !gossip_text_valid(text, length, charset)) {
        encoder->invalid = true;
        return;
    }
    (void)msgpack_pack_str(&encoder->packer, length);
    (void)msgpack_pack_str_body(&encoder->packer, text, length);
}

static void put_greeting(struct encoder *encoder, const struct gossip_greeting *greeting)
{
    put_uint(encoder, greeting->protocol);
    put_text(encoder, greeting->version, sizeof greeting->version, GOSSIP_CHARSET_TEXT);
    put_text(encoder, greeting->name, sizeof greeting->name, GOSSIP_CHARSET_NAME);
    put_text(encoder, greeting->model, sizeof greeting->model, GOSSIP_CHARSET_TEXT);
    put_uint(encoder, greeting->schema);
    put_uint(encoder, greeting->parameters);
    put_uint(encoder, greeting->life);
    put_text(encoder, greeting->rules, sizeof greeting->rules, GOSSIP_CHARSET_TEXT);
    put_text(encoder, greeting->told, sizeof greeting->told, GOSSIP_CHARSET_TEXT);
    for (size_t i = 0; i < GOSSIP_OWN_WORDS; i++)
        put_uint(encoder, greeting->own[i]);
    put_uint(encoder, greeting->begun);
    encoder->invalid |= greeting->begun > 1;
    put_uint(encoder, greeting->shard);
}

static void put_hello(struct encoder *encoder, const struct gossip_hello *hello)
{
    put_uint(encoder, hello->epoch);
    put_uint(encoder, hello->sequence);
    put_uint(encoder, hello->reference_hash);
    put_uint(encoder, hello->correction_hash);
    put_uint(encoder, hello->resync_offset);
    put_uint(encoder, hello->answer);
    put_uint(encoder, hello->standing);
    encoder->invalid |= hello->standing > GOSSIP_FINISHED;
}

static void put_exchange(struct encoder *encoder, const struct gossip_exchange_message *exchange)
{
    put_uint(encoder, exchange->epoch);
    put_uint(encoder, exchange->sequence);
    put_uint(encoder, exchange->clock);
    put_uint(encoder, exchange->standing);
    (void)msgpack_pack_float(&encoder->packer, exchange->step_scale);
    (void)msgpack_pack_float(&encoder->packer, exchange->weight);
    put_uint(encoder, exchange->pace_ns);
    put_uint(encoder, exchange->form);
    put_uint(encoder, exchange->offset);
    put_uint(encoder, exchange->keys);
    put_uint(encoder, exchange->delta_bytes);
    put_uint(encoder, exchange->moment_bytes);
    encoder->invalid |= !gossip_exchange_message_valid(exchange);
}

static void put_tell(struct encoder *encoder, const struct gossip_snapshot_tell *tell)
{
    put_uint(encoder, tell->snapshot);
    put_uint(encoder, tell->parts);
    put_uint(encoder, tell->part);
    put_uint(encoder, tell->block);
    put_uint(encoder, tell->round);
    put_uint(encoder, tell->step);
    put_uint(encoder, tell->hash);
    put_uint(encoder, tell->values_bytes);
    encoder->invalid |= !gossip_tell_valid(tell);
}

static void put_ask(struct encoder *encoder, const struct gossip_snapshot_ask *ask)
{
    put_uint(encoder, ask->snapshot);
    put_uint(encoder, ask->part);
    put_uint(encoder, ask->block);
    encoder->invalid |= ask->part >= GOSSIP_PARTS;
}

static void put_fields(struct encoder *encoder, const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_GREETING:
        put_greeting(encoder, &message->as.greeting);
        break;
    case GOSSIP_HELLO:
        put_hello(encoder, &message->as.hello);
        break;
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        put_exchange(encoder, &message->as.exchange);
        break;
    case GOSSIP_BUSY:
        put_uint(encoder, message->as.busy.epoch);
        put_uint(encoder, message->as.busy.sequence);
        break;
    case GOSSIP_BYE:
        put_text(encoder, message->as.bye.reason, sizeof message->as.bye.reason, GOSSIP_CHARSET_TEXT);
        break;
    case GOSSIP_MEMBERS:
        put_uint(encoder, message->as.members.packet_bytes);
        encoder->invalid |= !gossip_members_valid(&message->as.members);
        break;
    case GOSSIP_SNAPSHOT_ASK:
        put_ask(encoder, &message->as.ask);
        break;
    case GOSSIP_SNAPSHOT_TELL:
        put_tell(encoder, &message->as.tell);
        break;
    case GOSSIP_CLOCK:
        put_uint(encoder, message->as.clock.round);
        break;
    }
}

enum base_error gossip_message_encode_header(const struct gossip_message *message, uint8_t *header,
                                             size_t capacity, size_t *header_bytes)
{
    struct encoder encoder = {.out = base_writer_of(header, capacity)};
    const unsigned fields = gossip_message_fields(message->kind);
    if (fields == 0)
        return BASE_EINVAL;
    msgpack_packer_init(&encoder.packer, &encoder.out, put_bytes);
    (void)msgpack_pack_array(&encoder.packer, fields);
    put_uint(&encoder, (uint64_t)message->kind);
    put_fields(&encoder, message);
    if (encoder.invalid)
        return BASE_EINVAL;
    if (encoder.out.failed)
        return BASE_ELIMIT;
    *header_bytes = base_writer_used(&encoder.out);
    return BASE_OK;
}
