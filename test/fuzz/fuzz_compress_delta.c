// Any bytes to the packet decoder. What it takes must be a valid list of entries, and survive being sent
// again. Input: length of the vector (2 bytes), capacity of the entries (1 byte), packet.
#include "compress/compress.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_entries(const struct compress_sparse *sparse, size_t count)
{
    BASE_ASSERT(sparse->count <= sparse->capacity && sparse->count <= count);
    for (size_t i = 0; i < sparse->count; i++) {
        BASE_ASSERT(isfinite(sparse->value[i]) && sparse->index[i] < count);
        BASE_ASSERT(i == 0 || sparse->index[i] > sparse->index[i - 1]);
    }
}

static void check_sent_again(struct compress_sparse *sparse, size_t count, enum compress_values values)
{
    struct compress_sparse again;
    size_t bound = compress_delta_bound(count, sparse->count, values), bytes = 0;
    uint8_t *packet = malloc(bound);
    BASE_ASSERT(packet != NULL && compress_sparse_create(sparse->count, &again) == BASE_OK);
    BASE_ASSERT(compress_delta_encode(sparse, count, values, packet, bound, &bytes) == BASE_OK);
    BASE_ASSERT(bytes <= bound && compress_delta_entries(packet, bytes) == sparse->count);
    BASE_ASSERT(compress_delta_decode(packet, bytes, count, &again) == BASE_OK &&
                again.count == sparse->count);
    BASE_ASSERT(memcmp(again.index, sparse->index, again.count * sizeof *again.index) == 0);
    BASE_ASSERT(memcmp(again.value, sparse->value, again.count * sizeof *again.value) == 0);
    compress_sparse_destroy(&again);
    free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t count = (size_t)data[0] | (size_t)data[1] << 8, capacity = data[2];
    const uint8_t *packet = data + 3;
    struct compress_sparse sparse;
    BASE_ASSERT(compress_sparse_create(capacity, &sparse) == BASE_OK);
    sparse.count = SIZE_MAX;
    if (compress_delta_decode(packet, size - 3, count, &sparse) == BASE_OK) {
        BASE_ASSERT(sparse.count == compress_delta_entries(packet, size - 3));
        check_entries(&sparse, count);
        // fp32 and fp16 keep what was decoded to the bit; int8 with a scale not of the encoder's choice may
        // not.
        enum compress_values values = (enum compress_values)(packet[0] & 0xf);
        float *before = malloc(sparse.count * sizeof *before + 1);
        BASE_ASSERT(before != NULL);
        memcpy(before, sparse.value, sparse.count * sizeof *before);
        check_sent_again(&sparse, count, values);
        BASE_ASSERT(values == COMPRESS_INT8 ||
                    memcmp(before, sparse.value, sparse.count * sizeof *before) == 0);
        free(before);
    } else {
        BASE_ASSERT(sparse.count == SIZE_MAX);
    }
    compress_sparse_destroy(&sparse);
    return 0;
}
