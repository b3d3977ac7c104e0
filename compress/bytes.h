// Private to compress/: additions to base/bits.h.
#ifndef COMPRESS_BYTES_H
#define COMPRESS_BYTES_H

#include "base/bits.h"
#include <stddef.h>

static inline uint32_t magnitude_of(float value)
{
    return bits_of(value) & BITS_MAGNITUDE;
}

static inline uint64_t bytes_get_u64(const uint8_t *at)
{
    return (uint64_t)bytes_get_u32(at) | (uint64_t)bytes_get_u32(at + 4) << 32;
}

#endif
