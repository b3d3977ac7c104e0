// The index coders in plain C: the scalar path, which the other paths also use at the ends of their vectors.
#ifndef KERNELS_CPU_CODING_PLAIN_H
#define KERNELS_CPU_CODING_PLAIN_H

#include "kernels/coding.h"

#define CODING_BLOCK 256u // entries that pass through L1 at a time

// Up to 8 bytes from `at` on as a little-endian number, padded with zeros.
static inline uint64_t plain_load(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;
    if (bytes >= 8) {
        for (unsigned i = 0; i < 8; i++) // one load
            word |= (uint64_t)at[i] << 8 * i;
        return word;
    }
    for (unsigned i = 0; i < bytes; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static inline void plain_mark(uint8_t *bits, uint64_t at)
{
    bits[at >> 3] = (uint8_t)(bits[at >> 3] | 1u << (at & 7));
}

// Packs numbers of `width` bits one after another, starting at a whole byte.
struct plain_packer {
    uint8_t *at;
    uint64_t held;
    unsigned used, width;
};

static inline void plain_pack(struct plain_packer *packer, uint32_t value)
{
    packer->held |= (uint64_t)(value & ((1u << packer->width) - 1)) << packer->used;
    packer->used += packer->width;
    if (packer->used >= 32) {
        for (unsigned i = 0; i < 4; i++) // one store
            packer->at[i] = (uint8_t)(packer->held >> 8 * i);
        packer->at += 4;
        packer->held >>= 32;
        packer->used -= 32;
    }
}

static inline void plain_pack_end(struct plain_packer *packer)
{
    for (unsigned done = 0; done < packer->used; done += 8)
        *packer->at++ = (uint8_t)(packer->held >> done);
}

static inline uint32_t plain_low(const uint8_t *low, size_t low_bytes, uint64_t entry, unsigned width)
{
    const uint64_t bit = entry * width, byte = bit >> 3;
    if (byte >= low_bytes)
        return 0;
    return (uint32_t)(plain_load(low + byte, low_bytes - byte) >> (bit & 7)) & ((1u << width) - 1);
}

// Entries from `entry` on, which is a multiple of 8, so that their low parts begin at a whole byte. `bit` is
// the position in the high stream, `next` the index of an entry with gap 0.
static inline void plain_rice_write(size_t entry, size_t count, const uint32_t *index, uint32_t next,
                                    unsigned width, uint64_t bit, uint8_t *high, uint8_t *low)
{
    struct plain_packer packer = {.at = low + entry / 8 * width, .width = width};
    for (size_t i = entry; i < count; i++) {
        const uint32_t gap = index[i] - next;
        bit += gap >> width;
        plain_mark(high, bit++);
        plain_pack(&packer, gap);
        next = index[i] + 1;
    }
    plain_pack_end(&packer);
}

// The positions of up to `count` set bits from bit `at` on; returns their number.
static inline size_t plain_positions(const uint8_t *bits, size_t bytes, uint64_t at, size_t count,
                                     uint32_t *position)
{
    size_t found = 0;
    unsigned skip = at & 63;
    for (size_t byte = (size_t)(at >> 6) * 8; byte < bytes && found < count; byte += 8) {
        uint64_t word = plain_load(bits + byte, bytes - byte) >> skip << skip;
        skip = 0;
        for (; word != 0 && found < count; word &= word - 1)
            position[found++] = (uint32_t)(byte * 8 + (unsigned)__builtin_ctzll(word));
    }
    return found;
}

// Converts positions in the high stream, from `entry` on, to indices in place.
static inline void plain_rice_join(const struct kernels_streams *streams, struct kernels_rice *at,
                                   size_t count, uint32_t *index)
{
    uint32_t next = at->next;
    uint64_t bit = at->bit; // just after the previous one bit: zeros are counted from here
    for (size_t i = 0; i < count; i++) {
        const uint32_t zeros = (uint32_t)(index[i] - bit);
        bit = (uint64_t)index[i] + 1;
        index[i] = next + (zeros << streams->width) +
                   plain_low(streams->low, streams->low_bytes, at->entry + i, streams->width);
        next = index[i] + 1;
    }
    *at = (struct kernels_rice){.bit = bit, .entry = at->entry + count, .next = next};
}

#endif
