// Messages read: a cursor of our own for the formats that occur (msgpack's specification: fixarray, the
// unsigned integers, fixstr, str 8 and str 16, float 32). msgpack-c's unpacker reserves memory by numbers
// that it finds in the input. Every violation sets reader->failed.
#include "base/cursor.h"
#include "gossip/wire/fields.h"
#include <string.h>

static uint64_t get_big_endian(struct base_reader *reader, size_t bytes)
{
    const uint8_t *at = base_read_bytes(reader, bytes);
    uint64_t value = 0;
    for (size_t i = 0; at != NULL && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

// At most `most`, and in the shortest form: every value has one encoding.
static uint64_t get_uint(struct base_reader *reader, uint64_t most)
{
    const uint8_t tag = base_read_u8(reader);
    uint64_t value = tag;
    if (tag >= 0xcc && tag <= 0xcf) { // uint 8, 16, 32, 64
        const unsigned bytes = 1u << (tag - 0xcc);
        const uint64_t least = bytes == 1 ? 0x80 : 1ull << (bytes * 4);
        value = get_big_endian(reader, bytes);
        reader->failed |= value < least;
    } else {
        reader->failed |= tag > 0x7f; // positive fixint
    }
    reader->failed |= value > most;
    return value;
}

static float get_float(struct base_reader *reader)
{
    union {
        uint32_t u;
        float f;
    } bits;
    reader->failed |= base_read_u8(reader) != 0xca; // float 32
    bits.u = (uint32_t)get_big_endian(reader, 4);
    return bits.f;
}

static void get_text(struct base_reader *reader, char *text, size_t capacity, enum gossip_charset charset)
{
    const uint8_t tag = base_read_u8(reader);
    size_t length = tag & 0x1fu; // fixstr
    if (tag == 0xd9) {           // str 8
        length = base_read_u8(reader);
        reader->failed |= length < 32;
    } else if (tag == 0xda) { // str 16
        length = (size_t)get_big_endian(reader, 2);
        reader->failed |= length < 256;
    } else {
        reader->failed |= (tag & 0xe0) != 0xa0;
    }
    reader->failed |= length >= capacity;
    if (reader->failed)
        return;
    const uint8_t *bytes = base_read_bytes(reader, length);
    if (bytes == NULL)
        return;
    memcpy(text, bytes, length);
    text[length] = '\0';
    reader->failed |= !gossip_text_valid(text, length, charset);
}

static void get_greeting(struct base_reader *reader, struct gossip_greeting *greeting)
{
    greeting->protocol = (uint32_t)get_uint(reader, UINT32_MAX);
    get_text(reader, greeting->version, sizeof greeting->version, GOSSIP_CHARSET_TEXT);
    get_text(reader, greeting->name, sizeof greeting->name, GOSSIP_CHARSET_NAME);
    get_text(reader, greeting->model, sizeof greeting->model, GOSSIP_CHARSET_TEXT);
    greeting->schema = get_uint(reader, UINT64_MAX);
    greeting->parameters = get_uint(reader, UINT64_MAX);
    greeting->life = get_uint(reader, UINT64_MAX);
    get_text(reader, greeting->rules, sizeof greeting->rules, GOSSIP_CHARSET_TEXT);
    get_text(reader, greeting->told, sizeof greeting->told, GOSSIP_CHARSET_TEXT);
    for (size_t i = 0; i < GOSSIP_OWN_WORDS; i++)
        greeting->own[i] = get_uint(reader, UINT64_MAX);
    greeting->begun = (uint8_t)get_uint(reader, 1);
    greeting->shard = (uint32_t)get_uint(reader, UINT32_MAX);
}

static void get_hello(struct base_reader *reader, struct gossip_hello *hello)
{
    hello->epoch = get_uint(reader, UINT64_MAX);
    hello->sequence = get_uint(reader, UINT64_MAX);
    hello->reference_hash = get_uint(reader, UINT64_MAX);
    hello->correction_hash = get_uint(reader, UINT64_MAX);
    hello->resync_offset = get_uint(reader, UINT64_MAX);
    hello->answer = (uint8_t)get_uint(reader, UINT8_MAX);
    hello->standing = (uint8_t)get_uint(reader, GOSSIP_FINISHED);
}

static void get_exchange(struct base_reader *reader, struct gossip_exchange_message *exchange)
{
    exchange->epoch = get_uint(reader, UINT64_MAX);
    exchange->sequence = get_uint(reader, UINT64_MAX);
    exchange->clock = get_uint(reader, UINT64_MAX);
    exchange->standing = (uint8_t)get_uint(reader, GOSSIP_FINISHED);
    exchange->step_scale = get_float(reader);
    exchange->weight = get_float(reader);
    exchange->pace_ns = get_uint(reader, UINT64_MAX);
    exchange->form = (uint8_t)get_uint(reader, GOSSIP_DELTA_BLOCK);
    exchange->offset = get_uint(reader, UINT64_MAX);
    exchange->keys = (uint8_t)get_uint(reader, 1);
    exchange->delta_bytes = (uint32_t)get_uint(reader, UINT32_MAX);
    exchange->moment_bytes = (uint32_t)get_uint(reader, UINT32_MAX);
    reader->failed |= !gossip_exchange_message_valid(exchange);
    if (exchange->delta_bytes > 0)
        exchange->delta = base_read_bytes(reader, exchange->delta_bytes);
    if (exchange->moment_bytes > 0)
        exchange->moment = base_read_bytes(reader, exchange->moment_bytes);
}

static void get_members(struct base_reader *reader, struct gossip_members_message *members)
{
    members->packet_bytes = (uint32_t)get_uint(reader, LIMIT_GOSSIP_BYTES);
    reader->failed |= !gossip_members_valid(members);
    members->packet = base_read_bytes(reader, members->packet_bytes);
}

static void get_ask(struct base_reader *reader, struct gossip_snapshot_ask *ask)
{
    ask->snapshot = get_uint(reader, UINT64_MAX);
    ask->part = (uint8_t)get_uint(reader, GOSSIP_PARTS - 1);
    ask->block = (uint32_t)get_uint(reader, UINT32_MAX);
}

static void get_tell(struct base_reader *reader, struct gossip_snapshot_tell *tell)
{
    tell->snapshot = get_uint(reader, UINT64_MAX);
    tell->parts = (uint8_t)get_uint(reader, UINT8_MAX);
    tell->part = (uint8_t)get_uint(reader, UINT8_MAX);
    tell->block = (uint32_t)get_uint(reader, UINT32_MAX);
    tell->round = get_uint(reader, UINT64_MAX);
    tell->step = get_uint(reader, UINT64_MAX);
    tell->hash = get_uint(reader, UINT64_MAX);
    tell->values_bytes = (uint32_t)get_uint(reader, UINT32_MAX);
    reader->failed |= !gossip_tell_valid(tell);
    tell->values = base_read_bytes(reader, tell->values_bytes);
}

static void get_fields(struct base_reader *reader, struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_GREETING:
        get_greeting(reader, &message->as.greeting);
        break;
    case GOSSIP_HELLO:
        get_hello(reader, &message->as.hello);
        break;
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        get_exchange(reader, &message->as.exchange);
        break;
    case GOSSIP_BUSY:
        message->as.busy.epoch = get_uint(reader, UINT64_MAX);
        message->as.busy.sequence = get_uint(reader, UINT64_MAX);
        break;
    case GOSSIP_BYE:
        get_text(reader, message->as.bye.reason, sizeof message->as.bye.reason, GOSSIP_CHARSET_TEXT);
        break;
    case GOSSIP_MEMBERS:
        get_members(reader, &message->as.members);
        break;
    case GOSSIP_SNAPSHOT_ASK:
        get_ask(reader, &message->as.ask);
        break;
    case GOSSIP_SNAPSHOT_TELL:
        get_tell(reader, &message->as.tell);
        break;
    case GOSSIP_CLOCK:
        message->as.clock.round = get_uint(reader, UINT64_MAX);
        break;
    }
}

enum base_error gossip_message_decode(const uint8_t *bytes, size_t count, struct gossip_message *message)
{
    struct base_reader reader = base_reader_of(bytes, count);
    struct gossip_message parsed;
    memset(&parsed, 0, sizeof parsed);
    const uint8_t array = base_read_u8(&reader);
    parsed.kind = (enum gossip_message_kind)get_uint(&reader, GOSSIP_CLOCK);
    const unsigned fields = gossip_message_fields(parsed.kind);
    if (reader.failed || fields == 0 || array != (0x90u | fields)) // fixarray
        return BASE_EFORMAT;
    get_fields(&reader, &parsed);
    if (reader.failed || base_reader_left(&reader) != 0)
        return BASE_EFORMAT;
    *message = parsed;
    return BASE_OK;
}
