// Medians of selection, encoding and decoding, and the bytes of an entry: one JSON object a line.
// Arguments: nothing for both vectors, "small" for the first only.
#include "base/rng.h"
#include "compress/compress.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS_MOST 201

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int order(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, order);
    return times[n / 2];
}

struct bench {
    const float *a;
    size_t count, k, repeats;
    struct compress_sparse sent, received;
    uint8_t *packet;
    size_t capacity;
};

static bool bench_values(struct bench *bench, enum compress_values values)
{
    static double select_us[REPEATS_MOST], encode_us[REPEATS_MOST], decode_us[REPEATS_MOST];
    size_t bytes = 0;
    for (size_t i = 0; i < bench->repeats; i++) {
        double start = now_us();
        if (compress_select_topk(bench->a, bench->count, bench->k, &bench->sent) != BASE_OK)
            return false;
        double selected = now_us();
        if (compress_delta_encode(&bench->sent, bench->count, values, bench->packet, bench->capacity,
                                  &bytes) != BASE_OK)
            return false;
        double encoded = now_us();
        if (compress_delta_decode(bench->packet, bytes, bench->count, &bench->received) != BASE_OK)
            return false;
        double decoded = now_us();
        select_us[i] = selected - start;
        encode_us[i] = encoded - selected;
        decode_us[i] = decoded - encoded;
    }
    printf("{\"bench\": \"compress_delta\", \"values\": \"%s\", \"count\": %zu, \"entries\": %zu, "
           "\"repeats\": %zu, "
           "\"select_us\": %.1f, \"encode_us\": %.1f, \"decode_us\": %.1f, \"bytes_per_entry\": %.4f}\n",
           compress_values_name(values), bench->count, bench->sent.count, bench->repeats,
           median(select_us, bench->repeats), median(encode_us, bench->repeats),
           median(decode_us, bench->repeats), (double)bytes / (double)bench->sent.count);
    return true;
}

static bool bench_vector(size_t count, size_t k, size_t repeats)
{
    struct bench bench = {.count = count, .k = k, .repeats = repeats};
    bench.capacity = compress_delta_bound(count, k, COMPRESS_FP32);
    float *a = malloc(count * sizeof *a);
    bench.packet = malloc(bench.capacity);
    bool ok = a != NULL && bench.packet != NULL && compress_sparse_create(k, &bench.sent) == BASE_OK &&
              compress_sparse_create(k, &bench.received) == BASE_OK;
    struct base_rng rng;
    base_rng_seed(&rng, 1);
    for (size_t i = 0; ok && i < count; i++)
        a[i] = (float)base_rng_normal(&rng);
    bench.a = a;
    for (unsigned values = COMPRESS_FP32; ok && values <= COMPRESS_INT8; values++)
        ok = bench_values(&bench, (enum compress_values)values);
    compress_sparse_destroy(&bench.received);
    compress_sparse_destroy(&bench.sent);
    free(bench.packet);
    free(a);
    return ok;
}

int main(int argc, char **argv)
{
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    bool ok = bench_vector(203530, 203530 / 32, REPEATS_MOST);
    if (ok && !small)
        ok = bench_vector(31000000, 310000, 5);
    return ok ? 0 : 1;
}
