#include "base/cursor.h"

#include <string.h>

struct base_reader base_reader_of(const void *data, size_t bytes)
{
    const uint8_t *start = data;
    return (struct base_reader){.at = start, .end = bytes ? start + bytes : start};
}

size_t base_reader_left(const struct base_reader *reader)
{
    return reader->at ? (size_t)(reader->end - reader->at) : 0;
}

// A failed cursor stays failed: a later, smaller read would start at the wrong field.
const uint8_t *base_read_bytes(struct base_reader *reader, size_t bytes)
{
    static const uint8_t nothing[1];
    if (reader->failed || bytes > base_reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    if (!bytes)
        return reader->at ? reader->at : nothing;
    const uint8_t *found = reader->at;
    reader->at += bytes;
    return found;
}

static uint64_t read_little_endian(struct base_reader *reader, unsigned bytes)
{
    const uint8_t *found = base_read_bytes(reader, bytes);
    uint64_t value = 0;
    for (unsigned i = 0; found && i < bytes; i++)
        value |= (uint64_t)found[i] << (8 * i);
    return value;
}

uint8_t base_read_u8(struct base_reader *reader)
{
    return (uint8_t)read_little_endian(reader, 1);
}

uint16_t base_read_u16(struct base_reader *reader)
{
    return (uint16_t)read_little_endian(reader, 2);
}

uint32_t base_read_u32(struct base_reader *reader)
{
    return (uint32_t)read_little_endian(reader, 4);
}

uint64_t base_read_u64(struct base_reader *reader)
{
    return read_little_endian(reader, 8);
}

float base_read_f32(struct base_reader *reader)
{
    uint32_t bits = base_read_u32(reader);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double base_read_f64(struct base_reader *reader)
{
    uint64_t bits = base_read_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct base_writer base_writer_of(void *data, size_t capacity)
{
    uint8_t *start = data;
    return (struct base_writer){.start = start, .at = start, .end = capacity ? start + capacity : start};
}

size_t base_writer_used(const struct base_writer *writer)
{
    return writer->at ? (size_t)(writer->at - writer->start) : 0;
}

uint8_t *base_write_room(struct base_writer *writer, size_t bytes)
{
    size_t left = writer->at ? (size_t)(writer->end - writer->at) : 0;
    if (writer->failed || bytes > left) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *room = writer->at;
    if (bytes)
        writer->at += bytes;
    return room;
}

void base_write_bytes(struct base_writer *writer, const void *data, size_t bytes)
{
    uint8_t *room = base_write_room(writer, bytes);
    if (room && bytes)
        memcpy(room, data, bytes);
}

static void write_little_endian(struct base_writer *writer, uint64_t value, unsigned bytes)
{
    uint8_t *room = base_write_room(writer, bytes);
    for (unsigned i = 0; room && i < bytes; i++)
        room[i] = (uint8_t)(value >> (8 * i));
}

void base_write_u8(struct base_writer *writer, uint8_t value)
{
    write_little_endian(writer, value, 1);
}

void base_write_u16(struct base_writer *writer, uint16_t value)
{
    write_little_endian(writer, value, 2);
}

void base_write_u32(struct base_writer *writer, uint32_t value)
{
    write_little_endian(writer, value, 4);
}

void base_write_u64(struct base_writer *writer, uint64_t value)
{
    write_little_endian(writer, value, 8);
}

void base_write_f32(struct base_writer *writer, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    base_write_u32(writer, bits);
}

void base_write_f64(struct base_writer *writer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    base_write_u64(writer, bits);
}
