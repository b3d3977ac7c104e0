#include "gossip/exchange/window.h"

#include <stdlib.h>

#define ROOM_APART (16 * GOSSIP_WINDOW) // for a device: a copy and a launch have a fixed cost

static bool make_apart(const struct kernels *kernels, struct gossip_window *window)
{
    const size_t bytes = kernels_section_bytes(KERNELS_FP32, window->room); // no format takes more

    window->there.index = kernels->alloc(window->room * sizeof *window->there.index);
    window->there.value = kernels->alloc(window->room * sizeof *window->there.value);
    window->there.section = kernels->alloc(bytes);
    return window->there.index && window->there.value && window->there.section;
}

bool gossip_window_make(const struct kernels *kernels, struct gossip_window *window)
{
    const size_t room = kernels->shares_host ? GOSSIP_WINDOW : ROOM_APART;

    *window = (struct gossip_window){.kernels = kernels,
                                     .room = room,
                                     .index = malloc(room * sizeof *window->index),
                                     .value = malloc(room * sizeof *window->value)};
    if (!kernels->shares_host)
        return make_apart(kernels, window) && window->index && window->value;
    window->there.index = window->index;
    window->there.value = window->value;
    return window->index && window->value;
}

void gossip_window_free(struct gossip_window *window)
{
    if (window->kernels && !window->kernels->shares_host) {
        window->kernels->release(window->there.index);
        window->kernels->release(window->there.value);
        window->kernels->release(window->there.section);
    }
    free(window->index);
    free(window->value);
    *window = (struct gossip_window){0};
}

struct gossip_window gossip_window_on_host(const struct gossip_window *window)
{
    return (struct gossip_window){.kernels = window->kernels->host,
                                  .room = window->room,
                                  .index = window->index,
                                  .value = window->value,
                                  .there = {.index = window->index, .value = window->value}};
}

size_t gossip_window_read(struct gossip_window *window, struct compress_reader *reader)
{
    const struct kernels *kernels = window->kernels;
    const uint8_t *section;

    if (!window->there.section)
        return compress_reader_next(reader, window->room, window->index, window->value);
    const size_t count = compress_reader_piece(reader, window->room, window->index, &section);
    if (count == 0)
        return 0;
    BASE_ASSERT(count <= window->room);
    kernels->upload(window->there.index, window->index, count * sizeof *window->index);
    kernels->upload(window->there.section, section, kernels_section_bytes(reader->format, count));
    kernels->values->read(reader->format, count, window->there.section, window->there.value);
    return count;
}

void gossip_window_fetch_index(struct gossip_window *window, const uint32_t *from, size_t count)
{
    BASE_ASSERT(count <= window->room);
    window->kernels->download(window->index, from, count * sizeof *from);
}

const float *gossip_window_fetch(struct gossip_window *window, const float *vector, size_t count)
{
    BASE_ASSERT(count <= window->room);
    if (window->kernels->shares_host)
        return vector;
    window->kernels->download(window->value, vector, count * sizeof *vector);
    return window->value;
}

const float *gossip_window_send(struct gossip_window *window, size_t count)
{
    BASE_ASSERT(count <= window->room);
    if (window->there.value != window->value)
        window->kernels->upload(window->there.value, window->value, count * sizeof *window->value);
    return window->there.value;
}
