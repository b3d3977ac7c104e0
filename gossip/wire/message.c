#include "gossip/wire/message.h"
#include "base/cursor.h"
#include <math.h>
#include <msgpack/pack.h>
#include <stdbool.h>
#include <string.h>

enum charset {
    CHARSET_NAME, // [A-Za-z0-9._-], not empty
    CHARSET_TEXT, // printable ASCII
};

// Elements of the header array, kind included.
enum {
    FIELDS_GREETING = 9,
    FIELDS_HELLO = 7,
    FIELDS_EXCHANGE = 12,
    FIELDS_BUSY = 3,
    FIELDS_BYE = 2,
    FIELDS_MEMBERS = 2,
    FIELDS_SNAPSHOT_ASK = 4,
    FIELDS_SNAPSHOT_TELL = 9,
    FIELDS_CLOCK = 2,
};

static unsigned field_count(enum gossip_message_kind kind)
{
    switch (kind) {
    case GOSSIP_GREETING:
        return FIELDS_GREETING;
    case GOSSIP_HELLO:
        return FIELDS_HELLO;
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        return FIELDS_EXCHANGE;
    case GOSSIP_BUSY:
        return FIELDS_BUSY;
    case GOSSIP_BYE:
        return FIELDS_BYE;
    case GOSSIP_MEMBERS:
        return FIELDS_MEMBERS;
    case GOSSIP_SNAPSHOT_ASK:
        return FIELDS_SNAPSHOT_ASK;
    case GOSSIP_SNAPSHOT_TELL:
        return FIELDS_SNAPSHOT_TELL;
    case GOSSIP_CLOCK:
        return FIELDS_CLOCK;
    }
    return 0;
}

const char *gossip_message_kind_name(enum gossip_message_kind kind)
{
    switch (kind) {
    case GOSSIP_GREETING:
        return "greeting";
    case GOSSIP_HELLO:
        return "hello";
    case GOSSIP_XCHG:
        return "xchg";
    case GOSSIP_XACK:
        return "xack";
    case GOSSIP_BUSY:
        return "busy";
    case GOSSIP_BYE:
        return "bye";
    case GOSSIP_MEMBERS:
        return "members";
    case GOSSIP_SNAPSHOT_ASK:
        return "snapshot_ask";
    case GOSSIP_SNAPSHOT_TELL:
        return "snapshot_tell";
    case GOSSIP_CLOCK:
        return "clock";
    }
    return "unknown";
}

static bool text_valid(const char *text, size_t length, enum charset charset)
{
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const bool name = alphanumeric || c == '.' || c == '_' || c == '-';
        if (charset == CHARSET_NAME ? !name : c < ' ' || c > '~')
            return false;
    }
    return charset != CHARSET_NAME || length > 0;
}

static bool exchange_valid(const struct gossip_exchange_message *exchange)
{
    if (!isfinite(exchange->step_scale) || exchange->step_scale < 0.0f)
        return false;
    if (exchange->form == GOSSIP_DELTA_BLOCK)
        return exchange->weight == 0.5f && exchange->keys == 0;
    return exchange->form == GOSSIP_DELTA_SPARSE && exchange->weight > 0.0f && exchange->weight <= 1.0f &&
           exchange->offset == 0 && exchange->keys <= 1;
}

static bool members_valid(const struct gossip_members_message *members)
{
    return members->packet_bytes >= 1 && members->packet_bytes <= LIMIT_GOSSIP_BYTES;
}

static bool tell_valid(const struct gossip_snapshot_tell *tell)
{
    return tell->snapshot >= 1 && tell->parts < 1u << GOSSIP_PARTS && tell->part < GOSSIP_PARTS &&
           (tell->parts & 1u << tell->part) != 0 && tell->values_bytes >= sizeof(float) &&
           tell->values_bytes <= LIMIT_SNAPSHOT_BLOCK * sizeof(float) &&
           tell->values_bytes % sizeof(float) == 0;
}

// Writing: msgpack-c packs into a bounded cursor.

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

static void put_text(struct encoder *encoder, const char *text, size_t capacity, enum charset charset)
{
    const size_t length = strnlen(text, capacity);
    if (length == capacity || !text_valid(text, length, charset)) {
        encoder->invalid = true;
        return;
    }
    (void)msgpack_pack_str(&encoder->packer, length);
    (void)msgpack_pack_str_body(&encoder->packer, text, length);
}

static void put_greeting(struct encoder *encoder, const struct gossip_greeting *greeting)
{
    put_uint(encoder, greeting->protocol);
    put_text(encoder, greeting->version, sizeof greeting->version, CHARSET_TEXT);
    put_text(encoder, greeting->name, sizeof greeting->name, CHARSET_NAME);
    put_text(encoder, greeting->model, sizeof greeting->model, CHARSET_TEXT);
    put_uint(encoder, greeting->schema);
    put_uint(encoder, greeting->parameters);
    put_uint(encoder, greeting->life);
    put_uint(encoder, greeting->rules);
}

static void put_hello(struct encoder *encoder, const struct gossip_hello *hello)
{
    put_uint(encoder, hello->epoch);
    put_uint(encoder, hello->sequence);
    put_uint(encoder, hello->reference_hash);
    put_uint(encoder, hello->correction_hash);
    put_uint(encoder, hello->booted);
    put_uint(encoder, hello->answer);
}

static void put_exchange(struct encoder *encoder, const struct gossip_exchange_message *exchange)
{
    put_uint(encoder, exchange->epoch);
    put_uint(encoder, exchange->sequence);
    put_uint(encoder, exchange->clock);
    (void)msgpack_pack_float(&encoder->packer, exchange->step_scale);
    (void)msgpack_pack_float(&encoder->packer, exchange->weight);
    put_uint(encoder, exchange->pace_ns);
    put_uint(encoder, exchange->form);
    put_uint(encoder, exchange->offset);
    put_uint(encoder, exchange->keys);
    put_uint(encoder, exchange->delta_bytes);
    put_uint(encoder, exchange->moment_bytes);
    encoder->invalid |= !exchange_valid(exchange);
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
    encoder->invalid |= !tell_valid(tell);
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
        put_text(encoder, message->as.bye.reason, sizeof message->as.bye.reason, CHARSET_TEXT);
        break;
    case GOSSIP_MEMBERS:
        put_uint(encoder, message->as.members.packet_bytes);
        encoder->invalid |= !members_valid(&message->as.members);
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
    const unsigned fields = field_count(message->kind);
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

static size_t add_payload(struct gossip_payload *payloads, size_t n, const uint8_t *bytes, size_t count)
{
    if (count > 0)
        payloads[n++] = (struct gossip_payload){bytes, count};
    return n;
}

size_t gossip_message_payloads(const struct gossip_message *message,
                               struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS])
{
    size_t n = 0;
    switch (message->kind) {
    case GOSSIP_XCHG:
    case GOSSIP_XACK:
        n = add_payload(payloads, n, message->as.exchange.delta, message->as.exchange.delta_bytes);
        return add_payload(payloads, n, message->as.exchange.moment, message->as.exchange.moment_bytes);
    case GOSSIP_MEMBERS:
        return add_payload(payloads, n, message->as.members.packet, message->as.members.packet_bytes);
    case GOSSIP_SNAPSHOT_TELL:
        return add_payload(payloads, n, message->as.tell.values, message->as.tell.values_bytes);
    case GOSSIP_GREETING:
    case GOSSIP_HELLO:
    case GOSSIP_BUSY:
    case GOSSIP_BYE:
    case GOSSIP_SNAPSHOT_ASK:
    case GOSSIP_CLOCK:
        break;
    }
    return 0;
}

// Reading: a cursor of our own for the formats that occur (msgpack's specification: fixarray, the unsigned
// integers, fixstr and str 8, float 32). msgpack-c's unpacker reserves memory by numbers that it finds in the
// input. Every violation sets reader->failed.

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

static void get_text(struct base_reader *reader, char *text, size_t capacity, enum charset charset)
{
    const uint8_t tag = base_read_u8(reader);
    size_t length = tag & 0x1fu; // fixstr
    if (tag == 0xd9) {           // str 8
        length = base_read_u8(reader);
        reader->failed |= length < 32;
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
    reader->failed |= !text_valid(text, length, charset);
}

static void get_greeting(struct base_reader *reader, struct gossip_greeting *greeting)
{
    greeting->protocol = (uint32_t)get_uint(reader, UINT32_MAX);
    get_text(reader, greeting->version, sizeof greeting->version, CHARSET_TEXT);
    get_text(reader, greeting->name, sizeof greeting->name, CHARSET_NAME);
    get_text(reader, greeting->model, sizeof greeting->model, CHARSET_TEXT);
    greeting->schema = get_uint(reader, UINT64_MAX);
    greeting->parameters = get_uint(reader, UINT64_MAX);
    greeting->life = get_uint(reader, UINT64_MAX);
    greeting->rules = get_uint(reader, UINT64_MAX);
}

static void get_hello(struct base_reader *reader, struct gossip_hello *hello)
{
    hello->epoch = get_uint(reader, UINT64_MAX);
    hello->sequence = get_uint(reader, UINT64_MAX);
    hello->reference_hash = get_uint(reader, UINT64_MAX);
    hello->correction_hash = get_uint(reader, UINT64_MAX);
    hello->booted = get_uint(reader, UINT64_MAX);
    hello->answer = (uint8_t)get_uint(reader, UINT8_MAX);
}

static void get_exchange(struct base_reader *reader, struct gossip_exchange_message *exchange)
{
    exchange->epoch = get_uint(reader, UINT64_MAX);
    exchange->sequence = get_uint(reader, UINT64_MAX);
    exchange->clock = get_uint(reader, UINT64_MAX);
    exchange->step_scale = get_float(reader);
    exchange->weight = get_float(reader);
    exchange->pace_ns = get_uint(reader, UINT64_MAX);
    exchange->form = (uint8_t)get_uint(reader, GOSSIP_DELTA_BLOCK);
    exchange->offset = get_uint(reader, UINT64_MAX);
    exchange->keys = (uint8_t)get_uint(reader, 1);
    exchange->delta_bytes = (uint32_t)get_uint(reader, UINT32_MAX);
    exchange->moment_bytes = (uint32_t)get_uint(reader, UINT32_MAX);
    reader->failed |= !exchange_valid(exchange);
    if (exchange->delta_bytes > 0)
        exchange->delta = base_read_bytes(reader, exchange->delta_bytes);
    if (exchange->moment_bytes > 0)
        exchange->moment = base_read_bytes(reader, exchange->moment_bytes);
}

static void get_members(struct base_reader *reader, struct gossip_members_message *members)
{
    members->packet_bytes = (uint32_t)get_uint(reader, LIMIT_GOSSIP_BYTES);
    reader->failed |= !members_valid(members);
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
    reader->failed |= !tell_valid(tell);
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
        get_text(reader, message->as.bye.reason, sizeof message->as.bye.reason, CHARSET_TEXT);
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
    const unsigned fields = field_count(parsed.kind);
    if (reader.failed || fields == 0 || array != (0x90u | fields)) // fixarray
        return BASE_EFORMAT;
    get_fields(&reader, &parsed);
    if (reader.failed || base_reader_left(&reader) != 0)
        return BASE_EFORMAT;
    *message = parsed;
    return BASE_OK;
}
