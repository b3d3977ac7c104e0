// Writes the headers of messages: msgpack-c packs into a bounded cursor.
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

// The return value of the packer is ignored; out.failed has the same information.
static void put_uint(struct encoder *encoder, const struct gossip_field *field, const void *at)
{
    BASE_ASSERT(field->size == sizeof(uint64_t) || field->size == sizeof(uint32_t) || field->size == 1);
    const uint64_t value = field->size == sizeof(uint64_t)   ? *(const uint64_t *)at
                           : field->size == sizeof(uint32_t) ? *(const uint32_t *)at
                                                             : *(const uint8_t *)at;
    encoder->invalid |= value > field->max;
    (void)msgpack_pack_uint64(&encoder->packer, value);
}

static void put_text(struct encoder *encoder, const struct gossip_field *field, const char *text)
{
    BASE_ASSERT(field->size > 0);
    const size_t length = strnlen(text, field->size);
    if (length == field->size || !gossip_text_valid(text, length, field->type)) {
        encoder->invalid = true;
        return;
    }
    (void)msgpack_pack_str(&encoder->packer, length);
    (void)msgpack_pack_str_body(&encoder->packer, text, length);
}

static void put_field(struct encoder *encoder, const struct gossip_field *field, const void *at)
{
    switch (field->type) {
    case GOSSIP_FIELD_UINT:
    case GOSSIP_FIELD_PAYLOAD:
        put_uint(encoder, field, at);
        break;
    case GOSSIP_FIELD_FLOAT:
        (void)msgpack_pack_float(&encoder->packer, *(const float *)at);
        break;
    case GOSSIP_FIELD_NAME:
    case GOSSIP_FIELD_TEXT:
        put_text(encoder, field, at);
        break;
    }
}

enum base_error gossip_message_encode_header(const struct gossip_message *message, uint8_t *header,
                                             size_t capacity, size_t *header_bytes)
{
    struct encoder encoder = {.out = base_writer_of(header, capacity)};
    const struct gossip_kind *kind = gossip_kind_of(message->kind);
    if (!kind)
        return BASE_EINVAL;
    msgpack_packer_init(&encoder.packer, &encoder.out, put_bytes);
    (void)msgpack_pack_array(&encoder.packer, kind->count + 1);
    (void)msgpack_pack_uint64(&encoder.packer, (uint64_t)message->kind);
    for (unsigned i = 0; i < kind->count; i++)
        put_field(&encoder, &kind->fields[i], (const char *)message + kind->fields[i].offset);
    if (encoder.invalid || !gossip_message_valid(message))
        return BASE_EINVAL;
    if (encoder.out.failed)
        return BASE_ELIMIT;
    *header_bytes = base_writer_used(&encoder.out);
    return BASE_OK;
}
