// Any vector to selection and encoder. Input: k (2 bytes), value format (1 byte), floats.
#include "compress/compress.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The chosen are as many as they should be, and none of the others is larger than the smallest of them.
static void check_chosen(const float *a, size_t count, size_t k, const struct compress_sparse *sparse)
{
    float smallest = INFINITY;
    size_t not_zero = 0, next = 0;
    for (size_t i = 0; i < sparse->count; i++)
        smallest = fminf(smallest, fabsf(sparse->value[i]));
    for (size_t i = 0; i < count; i++) {
        not_zero += a[i] != 0.0f;
        if (next < sparse->count && sparse->index[next] == i)
            BASE_ASSERT(sparse->value[next++] == a[i]);
        else
            BASE_ASSERT(a[i] == 0.0f || fabsf(a[i]) <= smallest);
    }
    BASE_ASSERT(next == sparse->count && next == (not_zero < k ? not_zero : k));
}

static void check_packet(struct compress_sparse *sparse, size_t count, enum compress_values values)
{
    struct compress_sparse received;
    size_t bound = compress_delta_bound(count, sparse->count, values), bytes = 0;
    uint8_t *packet = malloc(bound);
    BASE_ASSERT(packet != NULL && compress_sparse_create(sparse->count, &received) == BASE_OK);
    BASE_ASSERT(compress_delta_encode(sparse, count, values, packet, bound, &bytes) == BASE_OK);
    BASE_ASSERT(compress_delta_decode(packet, bytes, count, &received) == BASE_OK);
    BASE_ASSERT(received.count == sparse->count);
    BASE_ASSERT(memcmp(received.index, sparse->index, received.count * sizeof *received.index) == 0);
    BASE_ASSERT(memcmp(received.value, sparse->value, received.count * sizeof *received.value) == 0);
    compress_sparse_destroy(&received);
    free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t k = (size_t)data[0] | (size_t)data[1] << 8, count = (size - 3) / sizeof(float);
    float *a = malloc(count * sizeof *a + 1);
    struct compress_sparse sparse;
    BASE_ASSERT(a != NULL && compress_sparse_create(k < count ? k : count, &sparse) == BASE_OK);
    memcpy(a, data + 3, count * sizeof *a);
    if (compress_select_topk(a, count, k, &sparse) == BASE_OK) {
        check_chosen(a, count, k, &sparse);
        check_packet(&sparse, count, (enum compress_values)(data[2] % 3));
    }
    compress_sparse_destroy(&sparse);
    free(a);
    return 0;
}
