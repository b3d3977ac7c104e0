#include "lab/model/protobuf.h"

#include <string.h>

#define VARINT_MAX 10 // bytes of 64 bits, 7 in each

enum wire { VARINT = 0, DELIMITED = 2 };

static size_t put_varint(uint64_t value, uint8_t out[VARINT_MAX])
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        out[count++] = (uint8_t)(value | 0x80);
    out[count++] = (uint8_t)value;
    return count;
}

static void append(struct lab_protobuf *p, const void *data, size_t count)
{
    if (!p->error)
        p->error = base_buffer_append(&p->bytes, data, count, LAB_PROTOBUF_MAX);
}

static void varint(struct lab_protobuf *p, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    append(p, bytes, put_varint(value, bytes));
}

static void tag(struct lab_protobuf *p, unsigned field, enum wire wire)
{
    varint(p, (uint64_t)field << 3 | (uint64_t)wire);
}

void lab_protobuf_number(struct lab_protobuf *p, unsigned field, uint64_t value)
{
    tag(p, field, VARINT);
    varint(p, value);
}

void lab_protobuf_bytes(struct lab_protobuf *p, unsigned field, const void *data, size_t count)
{
    tag(p, field, DELIMITED);
    varint(p, count);
    append(p, data, count);
}

void lab_protobuf_text(struct lab_protobuf *p, unsigned field, const char *text)
{
    lab_protobuf_bytes(p, field, text, strlen(text));
}

size_t lab_protobuf_open(struct lab_protobuf *p, unsigned field)
{
    tag(p, field, DELIMITED);
    return base_buffer_length(&p->bytes);
}

void lab_protobuf_close(struct lab_protobuf *p, size_t opened)
{
    uint8_t length[VARINT_MAX];
    if (p->error)
        return;
    const size_t content = base_buffer_length(&p->bytes) - opened, count = put_varint(content, length);
    append(p, length, count); // room for it at the end; then it goes before the content
    if (p->error)
        return;
    uint8_t *at = p->bytes.data + p->bytes.start + opened;
    memmove(at + count, at, content);
    memcpy(at, length, count);
}

void lab_protobuf_free(struct lab_protobuf *p)
{
    base_buffer_free(&p->bytes);
    *p = (struct lab_protobuf){0};
}
