// The part of |a|^2 that a selection of 1% keeps, by method and data, and what each format loses of it. No
// timing. Arguments: --count N (4194304), --scale S (0.44): spread of the scales, ln.
#include "compress/select.h"
#include "test/support/bench.h"

#include "base/rng.h"
#include "test/support/compress_tools.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096u // elements of one scale, and of one block

struct quality {
    const struct kernels *kernels;
    const char *data;
    struct kernels_difference a;
    struct compress_sparse entries;
};

static void stop(const char *what)
{
    (void)fprintf(stderr, "benchmark: %s failed\n", what);
    exit(1);
}

static double energy_of(const float *values, size_t count)
{
    double energy = 0.0;
    for (size_t i = 0; i < count; i++) {
        energy += (double)values[i] * (double)values[i];
    }
    return energy;
}

static void select_entries(struct quality *q, enum compress_method method, size_t block)
{
    const struct compress_selection selection = {
        .method = method, .k = q->a.count / 100, .block = block, .seed = 1};
    if (compress_select(q->kernels, &selection, &q->a, &q->entries, NULL)) {
        stop("selection");
    }
}

static void print_method(struct quality *q, enum compress_method method, size_t block)
{
    select_entries(q, method, block);
    printf("{\"bench\": \"compress_quality\", \"case\": \"%s\", \"method\": \"%s\", \"block\": %zu, "
           "\"count\": %zu, \"entries\": %zu, \"energy_kept\": %.5f}\n",
           q->data, method_name(method), block, q->a.count, q->entries.count,
           energy_of(q->entries.value, q->entries.count) / energy_of(q->a.x, q->a.count));
}

static void print_format(struct quality *q, enum kernels_format format, const char *name)
{
    const size_t count = q->entries.count, bytes = kernels_section_bytes(format, count);
    float *value = malloc(count * sizeof *value);
    uint8_t *section = malloc(bytes);
    if (!value || !section) {
        stop("allocation");
    }
    memcpy(value, q->entries.value, count * sizeof *value);
    q->kernels->values->write(format, count, value, section);
    const double all = energy_of(q->a.x, q->a.count), selected = energy_of(q->entries.value, count);
    for (size_t i = 0; i < count; i++) {
        value[i] -= q->entries.value[i];
    }
    const double lost = energy_of(value, count);
    printf("{\"bench\": \"compress_quality\", \"case\": \"%s\", \"method\": \"exact\", \"format\": \"%s\", "
           "\"count\": %zu, \"entries\": %zu, \"bytes_entry\": %.4f, \"relative_error\": %.7f, "
           "\"energy_kept\": %.5f}\n",
           q->data, name, q->a.count, count, (double)bytes / (double)count, sqrt(lost / selected),
           (selected - lost) / all);
    free(section);
    free(value);
}

static void print_all(struct quality *q)
{
    static const char *const names[KERNELS_FORMATS] = {"fp32", "fp16", "int8", "bf16",
                                                       "int4", "int2", "sign"};
    for (unsigned method = 0; method < COMPRESS_METHODS; method++) {
        print_method(q, (enum compress_method)method, 0);
    }
    print_method(q, COMPRESS_EXACT, BLOCK);
    select_entries(q, COMPRESS_EXACT, 0);
    for (unsigned format = 0; format < KERNELS_FORMATS; format++) {
        print_format(q, (enum kernels_format)format, names[format]);
    }
}

// Gaussian; each stretch of BLOCK elements has its own log-normal scale, like the tensors of a model.
static void fill_scales(float *x, size_t count, double spread)
{
    struct base_rng rng;
    base_rng_seed(&rng, 3);
    double scale = 1.0;
    for (size_t i = 0; i < count; i++) {
        scale = i % BLOCK == 0 ? exp(spread * base_rng_normal(&rng)) : scale;
        x[i] = (float)(scale * base_rng_normal(&rng));
    }
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "4194304"), NULL, 10);
    const double spread = strtod(bench_option(argc, argv, "--scale", "0.44"), NULL);
    const struct compress_selection widest = {.k = count / 100, .block = BLOCK};
    const struct compress_selection whole = {.k = count / 100};
    const size_t room_blocks = compress_select_room(&widest, count);
    const size_t room_whole = compress_select_room(&whole, count);
    float *x = bench_alloc(count * sizeof *x);
    struct quality q = {.a = {.x = x, .count = count}};
    if (count < 100 || kernels_open("cpu", 1, &q.kernels, NULL) ||
        compress_sparse_create(room_blocks > room_whole ? room_blocks : room_whole, &q.entries)) {
        stop("setup");
    }
    static const enum bench_data data[] = {BENCH_GAUSSIAN, BENCH_STUDENT};
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        bench_fill(data[i], 1, x, count);
        q.data = bench_data_name(data[i]);
        print_all(&q);
    }
    fill_scales(x, count, spread);
    q.data = "scales";
    print_all(&q);
    compress_sparse_destroy(&q.entries);
    bench_free(x);
    return 0;
}
