// Reads messages, with our own cursor for the formats that occur (msgpack's specification: fixarray and
// array 16, the unsigned integers, fixstr, str 8 and str 16, float 32). msgpack-c's unpacker allocates memory
// according to numbers in the input. Every violation sets reader->failed.
#include "base/cursor.h"
#include "gossip/wire/fields.h"
#include <string.h>

static uint64_t get_big_endian(struct base_reader *reader, size_t bytes)
{
    const uint8_t *at = base_read_bytes(reader, bytes);
    uint64_t value = 0;
    for (size_t i = 0; at && i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

// An integer of at most `most`, in the shortest form: every value has one encoding.
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

static void get_text(struct base_reader *reader, char *text, size_t capacity, enum gossip_field_type type)
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
    if (!bytes)
        return;
    memcpy(text, bytes, length);
    text[length] = '\0';
    reader->failed |= !gossip_text_valid(text, length, type);
}

static void get_field(struct base_reader *reader, const struct gossip_field *field, void *at)
{
    switch (field->type) {
    case GOSSIP_FIELD_UINT:
    case GOSSIP_FIELD_PAYLOAD:
        if (field->size == sizeof(uint64_t))
            *(uint64_t *)at = get_uint(reader, field->max);
        else if (field->size == sizeof(uint32_t))
            *(uint32_t *)at = (uint32_t)get_uint(reader, field->max);
        else
            *(uint8_t *)at = (uint8_t)get_uint(reader, field->max);
        break;
    case GOSSIP_FIELD_FLOAT:
        *(float *)at = get_float(reader);
        break;
    case GOSSIP_FIELD_NAME:
    case GOSSIP_FIELD_TEXT:
        get_text(reader, at, field->size, field->type);
        break;
    }
}

// The pointer to an empty payload stays NULL.
static void get_payloads(struct base_reader *reader, const struct gossip_kind *kind, char *message)
{
    for (unsigned i = 0; i < kind->count; i++) {
        const struct gossip_field *field = &kind->fields[i];
        if (field->type != GOSSIP_FIELD_PAYLOAD)
            continue;
        const uint32_t count = *(const uint32_t *)(const void *)(message + field->offset);
        if (count > 0)
            *(const uint8_t **)(void *)(message + field->payload) = base_read_bytes(reader, count);
    }
}

// The number of elements; 0: another form.
static uint64_t get_array(struct base_reader *reader)
{
    const uint8_t first = base_read_u8(reader);
    if ((first & 0xf0u) == 0x90u)
        return first & 0x0fu;
    const uint64_t count = first == 0xdcu ? get_big_endian(reader, 2) : 0;
    return count > 0x0fu ? count : 0;
}

enum base_error gossip_message_decode(const uint8_t *bytes, size_t count, struct gossip_message *message)
{
    struct base_reader reader = base_reader_of(bytes, count);
    struct gossip_message parsed;
    memset(&parsed, 0, sizeof parsed);
    const uint64_t elements = get_array(&reader);
    parsed.kind = (enum gossip_message_kind)get_uint(&reader, GOSSIP_LAST_KIND);
    const struct gossip_kind *kind = gossip_kind_of(parsed.kind);
    if (reader.failed || !kind || elements != kind->count + 1)
        return BASE_EFORMAT;
    for (unsigned i = 0; i < kind->count; i++)
        get_field(&reader, &kind->fields[i], (char *)&parsed + kind->fields[i].offset);
    if (reader.failed || !gossip_message_valid(&parsed))
        return BASE_EFORMAT;
    get_payloads(&reader, kind, (char *)&parsed);
    if (reader.failed || base_reader_left(&reader) != 0)
        return BASE_EFORMAT;
    *message = parsed;
    return BASE_OK;
}
