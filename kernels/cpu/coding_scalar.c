// The index coders for any processor.
#include "kernels/cpu/coding_plain.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

static bool gaps(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS])
{
    uint64_t sum[KERNELS_CODING_SHIFTS] = {0};
    uint32_t next = 0;
    uint32_t any = 0; // its top bit is set if an index or a gap is 2^31 or more
    for (size_t i = 0; i < count; i++) {
        const uint32_t gap = index[i] - next;
        any |= gap | index[i];
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++)
            sum[j] += gap >> (shift + j);
        next = index[i] + 1;
    }
    const bool ascending = any >> 31 == 0;
    if (ascending)
        memcpy(sums, sum, sizeof sum);
    return ascending;
}

static void rice_write(size_t count, const uint32_t *index, unsigned width, uint8_t *high, size_t high_bytes,
                       uint8_t *low, size_t low_bytes)
{
    (void)low_bytes;
    memset(high, 0, high_bytes);
    plain_rice_write(0, count, index, 0, width, 0, high, low);
}

static void bitmap_write(size_t count, const uint32_t *index, uint8_t *bits, size_t bytes)
{
    memset(bits, 0, bytes);
    for (size_t i = 0; i < count; i++)
        plain_mark(bits, index[i]);
}

// Counts the bits of all bytes at once, then sums the bytes (Warren, Hacker's Delight, 5-1).
static unsigned ones_of(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(word * 0x0101010101010101u >> 56);
}

static size_t ones(const uint8_t *bits, size_t bytes)
{
    size_t set = 0, at = 0;
    for (; at + 8 <= bytes; at += 8)
        set += ones_of(plain_load(bits + at, 8));
    return set + ones_of(plain_load(bits + at, bytes - at));
}

static uint64_t sum(size_t count, unsigned width, const uint8_t *low, size_t low_bytes)
{
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += plain_low(low, low_bytes, i, width);
    return total;
}

static void rice_read(const struct kernels_streams *streams, struct kernels_rice *at, size_t count,
                      uint32_t *index)
{
    for (size_t done = 0, now; done < count; done += now) {
        now = count - done < CODING_BLOCK ? count - done : CODING_BLOCK;
        (void)plain_positions(streams->high, streams->high_bytes, at->bit, now, index + done);
        plain_rice_join(streams, at, now, index + done);
    }
}

static uint64_t bitmap_read(const uint8_t *bits, size_t bytes, uint64_t at, size_t count, uint32_t *index)
{
    const size_t found = plain_positions(bits, bytes, at, count, index);
    return found > 0 ? (uint64_t)index[found - 1] + 1 : at;
}

const struct kernels_coding kernels_cpu_coding_scalar = {
    .gaps = gaps,
    .rice_write = rice_write,
    .bitmap_write = bitmap_write,
    .ones = ones,
    .sum = sum,
    .rice_read = rice_read,
    .bitmap_read = bitmap_read,
};
