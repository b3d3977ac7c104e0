// Any bytes as a dense block for its decoder. Input: number of elements (1 byte), block.
#include "compress/compress.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t count = data[0], bytes = 0;
    float values[256];
    uint8_t block[4 * 256];
    if (compress_block_decode(data + 1, size - 1, values, count))
        return 0;
    for (size_t i = 0; i < count; i++)
        BASE_ASSERT(isfinite(values[i]));
    BASE_ASSERT(!compress_block_encode(values, count, block, sizeof block, &bytes));
    BASE_ASSERT(bytes == size - 1 && memcmp(block, data + 1, bytes) == 0);
    return 0;
}
