// What only tests and benchmarks need of compress/: a packet decoded at once, a copied history, names of
// methods.
#ifndef TEST_SUPPORT_COMPRESS_TOOLS_H
#define TEST_SUPPORT_COMPRESS_TOOLS_H

#include "compress/filter.h"
#include "compress/packet.h"
#include "compress/select.h"
#include <stdlib.h>
#include <string.h>

// Decodes a whole packet into `entries` (ordinary memory). On an error entries->count does not change.
static inline enum base_error packet_decode(const struct kernels *kernels, const uint8_t *packet,
                                            size_t packet_bytes, size_t count,
                                            struct compress_sparse *entries)
{
    struct compress_reader reader;
    const enum base_error error =
        compress_reader_open(kernels, packet, packet_bytes, count, entries->capacity, NULL, &reader);
    if (!error)
        entries->count = compress_reader_next(&reader, reader.entries, entries->index, entries->value);
    return error;
}

static inline void history_sent(struct compress_history *history, const uint32_t *index, size_t count,
                                bool again)
{
    uint32_t *copy = malloc((count + 1) * sizeof *copy);
    BASE_ASSERT(copy);
    memcpy(copy, index, count * sizeof *copy);
    compress_history_take(history, copy, count, again);
}

static inline const char *method_name(enum compress_method method)
{
    static const char *const names[COMPRESS_METHODS] = {"exact", "threshold", "bisection", "random"};
    return names[method];
}

#endif
