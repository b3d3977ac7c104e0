#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

void base_buffer_free(struct base_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct base_buffer){0};
}

size_t base_buffer_length(const struct base_buffer *buffer)
{
    return buffer->end - buffer->start;
}

const uint8_t *base_buffer_head(const struct base_buffer *buffer)
{
    return buffer->data ? buffer->data + buffer->start : NULL;
}

// Doubles the capacity, up to `limit`, so that appending n bytes copies O(n) bytes in all.
static enum base_error grow(struct base_buffer *buffer, size_t needed, size_t limit)
{
    size_t capacity = buffer->capacity < 256 ? 256 : buffer->capacity;
    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    if (capacity > limit)
        capacity = limit;
    uint8_t *data = capacity <= PTRDIFF_MAX ? malloc(capacity) : NULL;
    if (!data)
        return BASE_ENOMEM;
    size_t length = base_buffer_length(buffer);
    if (length)
        memcpy(data, buffer->data + buffer->start, length);
    free(buffer->data);
    *buffer = (struct base_buffer){.data = data, .end = length, .capacity = capacity};
    return BASE_OK;
}

enum base_error base_buffer_reserve(struct base_buffer *buffer, size_t bytes, size_t limit, uint8_t **room)
{
    size_t length = base_buffer_length(buffer);
    if (length > limit || bytes > limit - length)
        return BASE_ELIMIT;
    size_t needed = length + bytes;
    if (!buffer->data || needed > buffer->capacity) {
        // Even an empty reservation in an unused buffer must return an address.
        enum base_error error = grow(buffer, needed ? needed : 1, limit ? limit : 1);
        if (error)
            return error;
    } else if (bytes > buffer->capacity - buffer->end) {
        memmove(buffer->data, buffer->data + buffer->start, length);
        buffer->start = 0;
        buffer->end = length;
    }
    *room = buffer->data + buffer->end;
    return BASE_OK;
}

void base_buffer_commit(struct base_buffer *buffer, size_t bytes)
{
    BASE_ASSERT(bytes <= buffer->capacity - buffer->end);
    buffer->end += bytes;
}

enum base_error base_buffer_append(struct base_buffer *buffer, const void *data, size_t bytes, size_t limit)
{
    uint8_t *room;
    enum base_error error = base_buffer_reserve(buffer, bytes, limit, &room);
    if (error)
        return error;
    if (bytes)
        memcpy(room, data, bytes);
    base_buffer_commit(buffer, bytes);
    return BASE_OK;
}

void base_buffer_consume(struct base_buffer *buffer, size_t bytes)
{
    BASE_ASSERT(bytes <= base_buffer_length(buffer));
    buffer->start += bytes;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}
