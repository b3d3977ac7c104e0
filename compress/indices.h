// Private to compress/: the codes of the index section. Layouts: compress/LAYOUT.md. The encoder asks each
// code for the size of the section and takes the smallest.
#ifndef COMPRESS_INDICES_H
#define COMPRESS_INDICES_H

#include "compress/packet.h"

// The numbers are those on the wire; 2 is no code. Of two equally short sections the one with the lower
// number is used, because it is faster to read.
enum indices_kind {
    INDICES_ALL = 0,
    INDICES_BITMAP = 1,
    INDICES_RICE = 3,
    INDICES_SAME_KEYS = 4,
};
#define INDICES_KINDS 5u

#define INDICES_IMPOSSIBLE SIZE_MAX // a size: this code cannot express this list

// A list to encode: ascending, unique, below `count`.
struct indices_list {
    const uint32_t *index;
    size_t entries, count;
    const struct kernels_coding *coding;
    const struct compress_keys *known; // or NULL
    // sums[j]: number of zeros in the Rice code with parameter first + j (kernels/coding.h)
    unsigned first;
    uint64_t sums[KERNELS_CODING_SHIFTS];
};

struct indices_code {
    // The exact length of the section with the best parameter, and that parameter.
    size_t (*size)(const struct indices_list *list, unsigned *parameter);
    void (*write)(const struct indices_list *list, unsigned parameter, uint8_t *out, size_t bytes);
    // Checks the whole section that the reader's header describes; the reader stays at its start.
    // BASE_EFORMAT, or BASE_ENOTFOUND for keys that the reader does not know.
    enum base_error (*check)(struct compress_reader *reader);
    // Reads the next `count` entries of a checked section; `count` is a multiple of 256 except at the end.
    void (*read)(struct compress_reader *reader, size_t count, uint32_t *index);
};

extern const struct indices_code indices_all, indices_bitmap, indices_rice, indices_same_keys;

// The first parameter for which sums are computed: the best one is nearly always among the
// KERNELS_CODING_SHIFTS from there on.
unsigned indices_rice_first(const uint32_t *index, size_t entries);
// The longest section, with the best parameter, of any `entries` indices below `count`.
size_t indices_rice_bound(size_t count, size_t entries);

// Bytes of `entries` numbers of `width` bits.
static inline size_t indices_low_bytes(size_t entries, unsigned width)
{
    return (size_t)(((uint64_t)entries * width + 7) / 8);
}

// The position of the last set bit, plus 1; the last byte must not be zero.
static inline uint64_t indices_bits(const uint8_t *bits, size_t bytes)
{
    return bytes == 0 ? 0 : (uint64_t)bytes * 8 - (unsigned)(__builtin_clz(bits[bytes - 1]) - 24);
}

// Is the padding after `entries` numbers of `width` bits zero?
static inline bool indices_padding_zero(const uint8_t *low, size_t entries, unsigned width)
{
    const uint64_t bits = (uint64_t)entries * width;
    return bits % 8 == 0 || low[bits / 8] >> (bits % 8) == 0;
}

#endif
