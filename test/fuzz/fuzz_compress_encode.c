// Any vector through selection, encoder and reader. Input: k (2 bytes), method (1 byte), format (1 byte),
// elements of a block (1 byte), floats.
#include "compress/packet.h"
#include "compress/select.h"
#include "test/support/compress_tools.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Without blocks: the right number of entries, and no other element is larger than the smallest of them.
static void check_exact(const float *a, size_t count, size_t k, const struct compress_sparse *chosen)
{
    float smallest = INFINITY;
    size_t not_zero = 0, next = 0;
    for (size_t i = 0; i < chosen->count; i++)
        smallest = fminf(smallest, fabsf(chosen->value[i]));
    for (size_t i = 0; i < count; i++) {
        not_zero += a[i] != 0.0f;
        if (next < chosen->count && chosen->index[next] == i)
            BASE_ASSERT(chosen->value[next++] == a[i]);
        else
            BASE_ASSERT(a[i] == 0.0f || fabsf(a[i]) <= smallest);
    }
    BASE_ASSERT(next == chosen->count && next == (not_zero < k ? not_zero : k));
}

static void check_packet(struct compress_sparse *chosen, size_t count, enum kernels_format format)
{
    struct compress_sparse received;
    size_t bound = compress_packet_bound(count, chosen->count, format), bytes = 0;
    uint8_t *packet = malloc(bound);
    enum base_error error = compress_sparse_create(chosen->count, &received);
    BASE_ASSERT(packet && !error);
    error = compress_packet_encode(cpu_kernels(), chosen, count, format, NULL, packet, bound, &bytes);
    BASE_ASSERT(!error);
    error = packet_decode(cpu_kernels(), packet, bytes, count, &received);
    BASE_ASSERT(!error && received.count == chosen->count);
    BASE_ASSERT(memcmp(received.index, chosen->index, received.count * sizeof *received.index) == 0);
    BASE_ASSERT(memcmp(received.value, chosen->value, received.count * sizeof *received.value) == 0);
    compress_sparse_destroy(&received);
    free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 5)
        return 0;
    size_t count = (size - 5) / sizeof(float), k = (size_t)data[0] | (size_t)data[1] << 8;
    const struct compress_selection selection = {.method = (enum compress_method)(data[2] % COMPRESS_METHODS),
                                                 .k = k < count ? k : count,
                                                 .block = data[4],
                                                 .seed = data[3]};
    float *a = malloc(count * sizeof *a + 1);
    struct compress_sparse chosen;
    enum base_error error =
        compress_sparse_create_on(cpu_kernels(), compress_select_room(&selection, count), &chosen);
    BASE_ASSERT(a && !error);
    memcpy(a, data + 5, count * sizeof *a);
    const struct kernels_difference difference = {.x = a, .count = count};
    if (!compress_select(cpu_kernels(), &selection, &difference, &chosen, NULL)) {
        if (selection.method == COMPRESS_EXACT && (selection.block == 0 || selection.block >= count))
            check_exact(a, count, selection.k, &chosen);
        check_packet(&chosen, count, (enum kernels_format)(data[3] % KERNELS_FORMATS));
    }
    compress_sparse_destroy(&chosen);
    free(a);
    return 0;
}
