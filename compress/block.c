#include "base/limits.h"
#include "compress/bytes.h"
#include "compress/compress.h"
#include "compress/values.h"

enum base_error compress_block_encode(const float *values, size_t count, uint8_t *block, size_t capacity,
                                      size_t *block_bytes)
{
    if (count > LIMIT_PARAMETERS || capacity < 4 * count)
        return BASE_ELIMIT;
    if (!compress_values_finite(values, count))
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
    if (block_bytes != 4 * count || compress_values_check(COMPRESS_FP32, block, count) != BASE_OK)
        return BASE_EFORMAT;
    compress_values_read(COMPRESS_FP32, block, count, values);
    return BASE_OK;
}
