// What the coders with AVX2 and AVX-512 share: operations on 64-bit words. The including file defines
// `positions` and ROOM.
#ifndef KERNELS_CPU_CODING_WORDS_H
#define KERNELS_CPU_CODING_WORDS_H

#include "kernels/cpu/coding_plain.h"

#include <string.h>

static size_t ones(const uint8_t *bits, size_t bytes)
{
    size_t set = 0, at = 0;
    for (; at + 8 <= bytes; at += 8)
        set += (size_t)__builtin_popcountll(plain_load(bits + at, 8));
    return set + (size_t)__builtin_popcountll(plain_load(bits + at, bytes - at));
}

static uint64_t bitmap_read(const uint8_t *bits, size_t bytes, uint64_t at, size_t count, uint32_t *index)
{
    uint32_t position[ROOM];
    for (size_t now; count > 0; count -= now, index += now) {
        now = count < CODING_BLOCK ? count : CODING_BLOCK;
        positions(bits, bytes, at, now, position);
        memcpy(index, position, now * sizeof *index);
        at = (uint64_t)position[now - 1] + 1;
    }
    return at;
}

#endif
