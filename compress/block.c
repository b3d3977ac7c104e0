#include "base/limits.h"
#include "compress/bytes.h"
#include "compress/compress.h"
#include <stdbool.h>

static bool block_finite(const uint8_t *block, size_t count)
{
    uint32_t broken = 0;
    for (size_t i = 0; i < count; i++)
        broken |= (bytes_get_u32(block + 4 * i) & BITS_MAGNITUDE) >= BITS_INFINITY;
    return !broken;
}

enum base_error compress_block_encode(const float *values, size_t count, uint8_t *block, size_t capacity,
                                      size_t *block_bytes)
{
    uint32_t broken = 0;
    if (count > LIMIT_PARAMETERS || capacity < 4 * count)
        return BASE_ELIMIT;
    for (size_t i = 0; i < count; i++)
        broken |= magnitude_of(values[i]) >= BITS_INFINITY;
    if (broken)
        return BASE_EFORMAT;
    for (size_t i = 0; i < count; i++)
        bytes_put_u32(block + 4 * i, bits_of(values[i]));
    *block_bytes = 4 * count;
    return BASE_OK;
}

enum base_error compress_block_decode(const uint8_t *block, size_t block_bytes, float *values, size_t count)
{
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    if (block_bytes != 4 * count || !block_finite(block, count))
        return BASE_EFORMAT;
    for (size_t i = 0; i < count; i++)
        values[i] = float_of(bytes_get_u32(block + 4 * i));
    return BASE_OK;
}
