// Any bytes to the decoder of logarithmic blocks, and any floats to its encoder. Input: number of elements (1
// byte), block.
#include "compress/compress.h"
#include <math.h>
#include <string.h>

static void check_sent(float *values, size_t count)
{
    float decoded[256];
    uint8_t block[4 + 256];
    size_t bytes = 0;
    if (compress_log8_encode(values, count, block, sizeof block, &bytes))
        return;
    BASE_ASSERT(!compress_log8_decode(block, bytes, decoded, count));
    BASE_ASSERT(memcmp(values, decoded, count * sizeof *values) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t count = data[0];
    float values[256], before[256];
    if (!compress_log8_decode(data + 1, size - 1, values, count)) {
        for (size_t i = 0; i < count; i++)
            BASE_ASSERT(isfinite(values[i]) && values[i] >= 0.0f);
        memcpy(before, values, sizeof *values * count);
        check_sent(values, count);
        BASE_ASSERT(memcmp(before, values, sizeof *values * count) ==
                    0); // decoded values are encoded again without loss
    }
    count = (size - 1) / sizeof *values < 256 ? (size - 1) / sizeof *values : 256;
    memcpy(values, data + 1, count * sizeof *values);
    check_sent(values, count);
    return 0;
}
