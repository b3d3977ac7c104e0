#include "base/protobuf.h"

#include <string.h>

#define VARINT_MAX 10 // bytes of a 64-bit number, 7 bits in each

enum wire { VARINT = 0, FIXED64 = 1, DELIMITED = 2, FIXED32 = 5 };

static size_t put_varint(uint64_t value, uint8_t out[VARINT_MAX])
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        out[count++] = (uint8_t)(value | 0x80);
    out[count++] = (uint8_t)value;
    return count;
}

static void append(struct base_protobuf *p, const void *data, size_t count)
{
    if (!p->error)
        p->error = base_buffer_append(&p->bytes, data, count, BASE_PROTOBUF_MAX);
}

static void varint(struct base_protobuf *p, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    append(p, bytes, put_varint(value, bytes));
}

static void tag(struct base_protobuf *p, unsigned field, enum wire wire)
{
    varint(p, (uint64_t)field << 3 | (uint64_t)wire);
}

void base_protobuf_number(struct base_protobuf *p, unsigned field, uint64_t value)
{
    tag(p, field, VARINT);
    varint(p, value);
}

// Little-endian, on every host.
static void fixed(struct base_protobuf *p, uint64_t bits, size_t bytes)
{
    uint8_t out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(bits >> 8 * i);
    append(p, out, bytes);
}

void base_protobuf_float(struct base_protobuf *p, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(p, field, FIXED32);
    fixed(p, bits, sizeof bits);
}

void base_protobuf_double(struct base_protobuf *p, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tag(p, field, FIXED64);
    fixed(p, bits, sizeof bits);
}

void base_protobuf_bytes(struct base_protobuf *p, unsigned field, const void *data, size_t count)
{
    tag(p, field, DELIMITED);
    varint(p, count);
    append(p, data, count);
}

void base_protobuf_text(struct base_protobuf *p, unsigned field, const char *text)
{
    base_protobuf_bytes(p, field, text, strlen(text));
}

size_t base_protobuf_open(struct base_protobuf *p, unsigned field)
{
    tag(p, field, DELIMITED);
    return base_buffer_length(&p->bytes);
}

void base_protobuf_close(struct base_protobuf *p, size_t opened)
{
    uint8_t length[VARINT_MAX];
    if (p->error)
        return;
    const size_t content = base_buffer_length(&p->bytes) - opened, count = put_varint(content, length);
    append(p, length, count); // makes room at the end; the length then moves before the content
    if (p->error)
        return;
    uint8_t *at = p->bytes.data + p->bytes.start + opened;
    memmove(at + count, at, content);
    memcpy(at, length, count);
}

void base_protobuf_free(struct base_protobuf *p)
{
    base_buffer_free(&p->bytes);
    *p = (struct base_protobuf){0};
}
