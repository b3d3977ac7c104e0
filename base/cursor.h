// Bounded little-endian readers and writers. A cursor never leaves its bytes: a read or write past the end
// sets `failed`. It and all later ones yield zero and do not move the cursor, so a parser can read all its
// fields and check once. Borrowed memory; one owner.
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_reader {
    const uint8_t *at, *end;
    bool failed;
};
struct base_reader base_reader_of(const void *data, size_t bytes);
size_t base_reader_left(const struct base_reader *reader);
uint8_t base_read_u8(struct base_reader *reader);
uint16_t base_read_u16(struct base_reader *reader);
uint32_t base_read_u32(struct base_reader *reader);
uint64_t base_read_u64(struct base_reader *reader);
float base_read_f32(struct base_reader *reader);
double base_read_f64(struct base_reader *reader);
// `bytes` bytes in place (not copied), or NULL past the end.
const uint8_t *base_read_bytes(struct base_reader *reader, size_t bytes);

struct base_writer {
    uint8_t *start, *at, *end;
    bool failed;
};
struct base_writer base_writer_of(void *data, size_t capacity);
size_t base_writer_used(const struct base_writer *writer);
void base_write_u8(struct base_writer *writer, uint8_t value);
void base_write_u16(struct base_writer *writer, uint16_t value);
void base_write_u32(struct base_writer *writer, uint32_t value);
void base_write_u64(struct base_writer *writer, uint64_t value);
void base_write_f32(struct base_writer *writer, float value);
void base_write_f64(struct base_writer *writer, double value);
void base_write_bytes(struct base_writer *writer, const void *data, size_t bytes);
// Room for `bytes` bytes that the caller fills, or NULL past the end.
uint8_t *base_write_room(struct base_writer *writer, size_t bytes);

#endif
