// Bit operations of the index coders (compress/). They run on the host for every backend and give the same
// results on every path. Bits fill each byte from its lowest bit upwards. All memory is ordinary memory;
// nothing outside of the given bytes is read or written. No state; any thread.
//
// A list of ascending, unique indices below 2^30 becomes two streams: `high` holds the upper part of each
// entry in unary (that many zeros, then a one), `low` the rest in `width` plain bits per entry. With gap[i] =
// elements skipped since the previous entry, Rice code (Golomb 1966, Rice 1979) has
//     gap[i] = zeros between ones i - 1 and i << width | low[i]
#ifndef KERNELS_CODING_H
#define KERNELS_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_CODING_WIDTH  30u // the widest low part
#define KERNELS_CODING_SHIFTS 3u  // sums that one pass returns

struct kernels_streams {
    const uint8_t *high, *low;
    size_t high_bytes, low_bytes;
    unsigned width;
};

// Position of a reader of Rice code; zero at the start. `entry` is a multiple of 256 except at the end.
struct kernels_rice {
    uint64_t bit;   // of the high stream
    uint64_t entry; // entries read
    uint32_t next;  // the index of an entry with gap 0
};

struct kernels_coding {
    // sums[j] = sum of gap >> (shift + j), shift + j < 32. Returns false, without sums, unless the indices
    // ascend and are below 2^31.
    bool (*gaps)(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS]);

    // high_bytes and low_bytes are the exact lengths for this list; both streams are written completely.
    void (*rice_write)(size_t count, const uint32_t *index, unsigned width, uint8_t *high, size_t high_bytes,
                       uint8_t *low, size_t low_bytes);
    void (*bitmap_write)(size_t count, const uint32_t *index, uint8_t *bits, size_t bytes);

    // ones: the number of set bits. sum: the sum of the low parts; parts beyond the end of the stream count
    // as 0.
    size_t (*ones)(const uint8_t *bits, size_t bytes);
    uint64_t (*sum)(size_t count, unsigned width, const uint8_t *low, size_t low_bytes);

    // Reads the next `count` entries. The caller must have checked that the streams hold so many, with
    // indices in range; otherwise the output is undefined, but all accesses stay in bounds.
    void (*rice_read)(const struct kernels_streams *streams, struct kernels_rice *at, size_t count,
                      uint32_t *index);
    // The positions of the next `count` set bits from bit `at` on; returns the position after the last one.
    uint64_t (*bitmap_read)(const uint8_t *bits, size_t bytes, uint64_t at, size_t count, uint32_t *index);
};

#endif
