// A growing byte queue: bytes are appended at the back and consumed at the front. It owns its memory; growth
// is bounded by the `limit` given at each append. One owner.
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct base_buffer {
    uint8_t *data;   // NULL when empty and never used
    size_t start;    // first byte not consumed
    size_t end;      // one past the last byte
    size_t capacity; // allocated bytes
};

// Frees the memory and sets the buffer to {0}, which is an empty buffer.
void base_buffer_free(struct base_buffer *buffer);
size_t base_buffer_length(const struct base_buffer *buffer);
const uint8_t *base_buffer_head(const struct base_buffer *buffer);
// Reserves `bytes` more at the back; the buffer then holds at most `limit` bytes. *room is valid until the
// next call. BASE_ELIMIT or BASE_ENOMEM change nothing. Call base_buffer_commit afterwards, with the number
// of bytes written.
enum base_error base_buffer_reserve(struct base_buffer *buffer, size_t bytes, size_t limit,
                                    uint8_t **room) BASE_CHECK;
void base_buffer_commit(struct base_buffer *buffer, size_t bytes);
enum base_error base_buffer_append(struct base_buffer *buffer, const void *data, size_t bytes,
                                   size_t limit) BASE_CHECK;
void base_buffer_consume(struct base_buffer *buffer, size_t bytes);

#endif
