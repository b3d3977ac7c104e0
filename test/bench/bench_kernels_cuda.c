// What an exchange and a training step ask of a CUDA device, one line per kernel, beside its floor in the
// same run: the bytes that it must move over the bandwidth of a plain read of a vector (finite()), or, for
// products, its operations over the rate of a large product. Times are of whole calls, with launch and
// answer. Exits 77 without a device. Arguments: --count N (124000000), --percent P (1), --seconds S for each
// kernel (1). Decoders: GPT-2's 768 numbers and 12 heads, 1,024 tokens, as many sequences as fit into N, at
// most 16. Images: 128 of 32 x 32 with 32 channels.
#include "test/support/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, FLOOR_SECTOR = 32, GEMM_SIDE = 4096 };
enum { WIDTH = 768, HEADS = 12, TOKENS = 1024, WORDS = 50257 }; // GPT-2

// Vectors and lists on the device; a case uses the ones that it needs.
struct device {
    const struct kernels *k;
    size_t count, entries;
    float *x, *r, *pending, *m, *v, *value, *other_value;
    uint32_t *index, floor;
    uint8_t *section;
    uint32_t *ids; // [rows] of text
    size_t rows;
    double bytes_per_ns, operations_per_ns;
};

struct run {
    const char *name;
    void (*call)(struct device *d);
    double bytes, operations; // one of them is 0
};

static struct kernels_difference difference(const struct device *d)
{
    return (struct kernels_difference){.x = d->x, .r = d->r, .count = d->count};
}

static void call_read(struct device *d)
{
    (void)d->k->apply->finite(d->x, d->count);
}

static void call_hash(struct device *d)
{
    (void)d->k->apply->hash(d->x, d->count, 0, false);
}

static void call_gather(struct device *d)
{
    const struct kernels_difference a = difference(d);
    struct kernels_seen seen;
    (void)d->k->select->gather(&a, 0, d->floor, 2 * d->entries, d->index, d->value, &seen);
}

static void call_gather_x(struct device *d)
{
    const struct kernels_difference a = {.x = d->x, .count = d->count};
    struct kernels_seen seen;
    (void)d->k->select->gather(&a, 0, d->floor, 2 * d->entries, d->index, d->value, &seen);
}

static void call_histogram(struct device *d)
{
    static uint64_t bins[KERNELS_BINS];
    const struct kernels_difference a = difference(d);
    struct kernels_seen seen;
    d->k->select->histogram(&a, 1, 19, bins, &seen);
}

static void call_count(struct device *d)
{
    const uint32_t floors[8] = {1u << 20,    1u << 24,    1u << 28,    1u << 29,
                                0x3f000000u, 0x3f800000u, 0x40000000u, d->floor};
    const struct kernels_difference a = difference(d);
    uint64_t counts[8];
    struct kernels_seen seen;
    d->k->select->count(&a, floors, 8, counts, &seen);
}

static void call_write(struct device *d)
{
    d->k->values->write(KERNELS_INT8, d->entries, d->value, d->section);
}

static void call_valid(struct device *d)
{
    (void)d->k->values->valid(KERNELS_INT8, d->entries, d->section);
}

static void call_read_values(struct device *d)
{
    d->k->values->read(KERNELS_INT8, d->entries, d->section, d->other_value);
}

static void call_exchange(struct device *d)
{
    const struct kernels_exchange e = {.x = d->x,
                                       .r = d->r,
                                       .pending = d->pending,
                                       .weight = 0.5f,
                                       .mine = {d->index, d->value, d->entries, 0},
                                       .theirs = {d->index, d->other_value, d->entries, 0}};
    uint64_t hash = 0;
    d->k->apply->exchange(&e, &hash);
}

static void call_sgd(struct device *d)
{
    const struct kernels_sgd o = {.rate = 0.0f, .momentum = 0.9f};
    d->k->sgd_step(d->count, &o, d->r, NULL, d->m, d->x);
}

static void call_column_sum(struct device *d)
{
    const size_t rows = (size_t)sqrt((double)d->count);
    d->k->column_sum(rows, rows, d->x, d->value);
}

static void call_adamw(struct device *d)
{
    const struct kernels_adamw o = {
        .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8f, .correction1 = 1.0f, .correction2 = 1.0f};
    d->k->adamw_step(d->count, &o, d->r, NULL, d->m, d->v, d->x);
}

static void call_lion(struct device *d)
{
    const struct kernels_lion o = {.beta1 = 0.9, .beta2 = 0.99};
    d->k->lion_step(d->count, &o, d->r, NULL, d->m, d->x);
}

static void call_gemm(struct device *d)
{
    d->k->gemm(false, false, GEMM_SIDE, GEMM_SIDE, GEMM_SIDE, 1.0f, d->x, d->r, 0.0f, d->pending);
}

static void call_gemm_bf16(struct device *d)
{
    d->k->bf16->gemm(false, false, GEMM_SIDE, GEMM_SIDE, GEMM_SIDE, 1.0f, d->x, d->r, 0.0f, d->pending);
}

// --- decoders ---

static void call_embed(struct device *d)
{
    d->k->sequence->embed(d->rows, TOKENS, WIDTH, d->ids, d->r, d->m, d->pending);
}

static void call_embed_backward(struct device *d)
{
    d->k->sequence->embed_backward(d->rows, WIDTH, d->ids, d->x, d->pending);
}

static void call_layernorm(struct device *d)
{
    d->k->sequence->layernorm(d->rows, WIDTH, d->x, d->m, d->m, d->pending, d->value, d->other_value);
}

static void call_layernorm_backward(struct device *d)
{
    const struct kernels_norm n = {d->rows, WIDTH, false};
    d->k->sequence->layernorm_backward(&n, d->r, d->x, d->m, d->value, d->other_value, d->pending, d->pending,
                                       d->m + WIDTH, d->m + 2 * WIDTH);
}

static void call_bias_gelu(struct device *d)
{
    d->k->sequence->bias_gelu(d->rows, WIDTH, d->m, d->x, d->pending);
}

static void call_gelu_backward(struct device *d)
{
    d->k->sequence->gelu_backward(d->rows * WIDTH, d->x, d->pending);
}

static void call_residual(struct device *d)
{
    d->k->sequence->residual(d->rows, WIDTH, d->m, d->x, d->pending);
}

static void call_dropout(struct device *d)
{
    d->k->sequence->dropout(d->rows * WIDTH, 1, 0.1f, d->x, d->pending);
}

static struct kernels_attention attention(const struct device *d)
{
    return (struct kernels_attention){d->rows / TOKENS, TOKENS, HEADS, WIDTH / HEADS};
}

static void call_attention(struct device *d)
{
    const struct kernels_attention shape = attention(d);
    d->k->sequence->attention(&shape, d->x, d->pending, d->r, d->m);
}

static void call_attention_backward(struct device *d)
{
    const struct kernels_attention shape = attention(d);
    d->k->sequence->attention_backward(&shape, d->x, d->r, d->m, d->r, d->m, d->pending);
}

// --- images ---

enum { IMAGES = 128, SIDE = 32, CHANNELS = 32, PIXELS = IMAGES * SIDE * SIDE };

static const struct kernels_conv conv = {.images = IMAGES,
                                         .height = SIDE,
                                         .width = SIDE,
                                         .channels = CHANNELS,
                                         .size = 3,
                                         .stride = 1,
                                         .padding = 1,
                                         .out_height = SIDE,
                                         .out_width = SIDE,
                                         .outputs = CHANNELS};
static const struct kernels_pool pool = {IMAGES,      SIDE,        SIDE,     CHANNELS, .size_y = 2,
                                         .size_x = 2, .stride = 2, SIDE / 2, SIDE / 2};
static const struct kernels_group_norm norm = {IMAGES, SIDE *SIDE, CHANNELS, .groups = 8, .epsilon = 1e-5f};
static const struct kernels_shortcut shortcut = {IMAGES, SIDE,        SIDE,     SIDE,
                                                 SIDE,   .stride = 1, CHANNELS, CHANNELS};

static void call_conv(struct device *d)
{
    d->k->image->conv(&conv, d->x, d->r, NULL, d->m, d->pending);
}

static void call_conv_backward(struct device *d)
{
    d->k->image->conv_backward(&conv, d->x, d->r, NULL, d->pending, false, d->m, d->value, NULL, d->m);
}

static void call_max_pool(struct device *d)
{
    d->k->image->max_pool(&pool, d->x, (uint32_t *)(void *)d->m, d->pending);
}

static void call_max_pool_backward(struct device *d)
{
    d->k->image->max_pool_backward(&pool, (const uint32_t *)(const void *)d->m, d->x, d->pending);
}

static void call_mean_pool(struct device *d)
{
    d->k->image->mean_pool(&pool, d->x, d->pending);
}

static void call_mean_pool_backward(struct device *d)
{
    d->k->image->mean_pool_backward(&pool, d->x, d->pending);
}

static void call_norm(struct device *d)
{
    d->k->image->norm(&norm, d->x, d->r, d->r, d->m, d->pending);
}

static void call_norm_backward(struct device *d)
{
    float *const rest = d->value;
    d->k->image->norm_backward(&norm, d->x, NULL, d->r, d->m, d->pending, false, rest, rest + 6 * CHANNELS,
                               rest + 7 * CHANNELS, d->r + CHANNELS);
}

static void call_shortcut(struct device *d)
{
    d->k->image->shortcut(&shortcut, d->x, d->pending);
}

static void call_shortcut_backward(struct device *d)
{
    d->k->image->shortcut_backward(&shortcut, d->x, d->pending);
}

// A run of a case ends when the device has finished.
struct timed {
    struct device *device;
    const struct run *run;
};

static void timed_run(void *context)
{
    const struct timed *timed = context;
    timed->run->call(timed->device);
    timed->device->k->wait();
}

static void measure(struct device *d, const struct run *run, double seconds)
{
    struct timed timed = {d, run};
    struct bench_time time;
    bench_alternate(&(struct bench_case){.run = timed_run, .context = &timed}, 1, seconds, &time);
    if (run->bytes > 0.0 && d->bytes_per_ns <= 0.0) { // the first one is the read
        d->bytes_per_ns = run->bytes / time.ns;
    }
    if (run->operations > 0.0 && d->operations_per_ns <= 0.0) { // the first one is the product
        d->operations_per_ns = run->operations / time.ns;
    }
    const double floor_ns =
        run->operations > 0.0 ? run->operations / d->operations_per_ns : run->bytes / d->bytes_per_ns;
    char more[128];
    (void)snprintf(more, sizeof more,
                   "\"bytes\": %.0f, \"gb_s\": %.1f, \"operations\": %.0f, \"gflop_s\": %.1f", run->bytes,
                   run->bytes / time.ns, run->operations, run->operations / time.ns);
    bench_print(&(struct bench_result){.bench = "kernels_cuda",
                                       .name = run->name,
                                       .path = "cuda",
                                       .count = d->count,
                                       .entries = d->entries,
                                       .time = time,
                                       .floor_ns = floor_ns,
                                       .more = more});
}

static void *must_alloc(const struct kernels *k, size_t bytes)
{
    void *memory = k->alloc(bytes);
    if (!memory) {
        (void)fprintf(stderr, "the device has no %zu bytes left: take a smaller --count\n", bytes);
        exit(1);
    }
    return memory;
}

// Gaussian x and zero r; the floor is one that about `percent` of |x| reach, from the first elements.
static void device_fill(struct device *d, double percent)
{
    const size_t bytes = d->count * sizeof(float), samples = d->count < 100000 ? d->count : 100000;
    float *host = bench_alloc(bytes);
    double *magnitude = malloc(samples * sizeof *magnitude);
    bench_fill(BENCH_GAUSSIAN, 1, host, d->count);
    for (size_t i = 0; magnitude && i < samples; i++) {
        magnitude[i] = fabs((double)host[i]);
    }
    if (magnitude) {
        (void)bench_median(magnitude, samples); // sorts
        const float floor = (float)magnitude[(size_t)((1.0 - percent / 100) * (double)(samples - 1))];
        memcpy(&d->floor, &floor, sizeof floor);
    }
    d->k->upload(d->x, host, bytes);
    free(magnitude);
    bench_free(host);
}

// Ids like those of a text: a few words are frequent.
static void ids_fill(struct device *d)
{
    const size_t sequences = d->count / (3 * WIDTH * TOKENS);
    d->rows = (sequences < 16 ? sequences : 16) * TOKENS;
    uint32_t *host = malloc((d->rows + 1) * sizeof *host);
    d->ids = must_alloc(d->k, d->rows * sizeof *host);
    for (size_t i = 0; host && i < d->rows; i++) {
        host[i] = (uint32_t)(i * 2654435761u % (i % 4 == 0 ? 16 : WORDS));
    }
    if (host) {
        d->k->upload(d->ids, host, d->rows * sizeof *host);
    }
    free(host);
}

static struct device device_make(const struct kernels *k, size_t count, double percent)
{
    struct device d = {.k = k, .count = count, .entries = (size_t)((double)count * percent / 100) + 1};
    const size_t bytes = count * sizeof(float), list = 2 * d.entries * sizeof(float) + 65536;
    d.x = must_alloc(k, bytes);
    d.r = must_alloc(k, bytes);
    d.pending = must_alloc(k, bytes);
    d.m = must_alloc(k, bytes);
    d.v = must_alloc(k, bytes); // of AdamW, never negative
    d.value = must_alloc(k, list);
    d.other_value = must_alloc(k, list);
    d.index = must_alloc(k, list);
    d.section = must_alloc(k, list);
    ids_fill(&d);
    device_fill(&d, percent);
    const struct kernels_difference a = difference(&d);
    struct kernels_seen seen;
    const size_t found = k->select->gather(&a, 0, d.floor, 2 * d.entries, d.index, d.value, &seen);
    d.entries = found > 0 ? found : d.entries;
    return d;
}

static void measure_all(struct device *d, const struct run *runs, size_t count, double seconds)
{
    for (size_t i = 0; i < count; i++) {
        measure(d, &runs[i], seconds);
    }
}

static void measure_exchange(struct device *d, double seconds)
{
    const double n = (double)d->count, e = (double)d->entries;
    const struct run runs[] = {
        {"read", call_read, 4 * n, 0},
        {"hash", call_hash, 4 * n, 0},
        {"gather", call_gather, 8 * n + 8 * e, 0},
        {"gather_x", call_gather_x, 4 * n + 8 * e, 0},
        {"histogram", call_histogram, 8 * n, 0},
        {"count_8", call_count, 8 * n, 0},
        {"write_int8", call_write, 9 * e, 0},
        {"valid_int8", call_valid, e, 0},
        {"read_int8", call_read_values, 5 * e, 0},
        // sectors of x, r and pending, read and written
        {"exchange", call_exchange, e * (6 * FLOOR_SECTOR + 16), 0},
        {"sgd", call_sgd, 20 * n, 0},
        {"column_sum", call_column_sum, 4 * n, 0},
    };
    measure_all(d, runs, sizeof runs / sizeof runs[0], seconds);
}

static void measure_decoder(struct device *d, double seconds)
{
    const double rows = (double)d->rows, numbers = rows * WIDTH;
    // Each product of attention needs half of tokens^2: two forward, five backward.
    const double product = rows * TOKENS * WIDTH;
    const struct run runs[] = {
        {"embed", call_embed, 8 * numbers, 0},
        {"embed_backward", call_embed_backward, 4 * numbers, 0},
        {"layernorm", call_layernorm, 8 * numbers, 0},
        {"layernorm_backward", call_layernorm_backward, 16 * numbers, 0},
        {"bias_gelu", call_bias_gelu, 12 * numbers, 0},
        {"gelu_backward", call_gelu_backward, 12 * numbers, 0},
        {"residual", call_residual, 8 * numbers, 0},
        {"dropout", call_dropout, 8 * numbers, 0},
        {"attention", call_attention, 0, 2 * product},
        {"attention_backward", call_attention_backward, 0, 5 * product},
    };
    measure_all(d, runs, sizeof runs / sizeof runs[0], seconds);
}

static void measure_images(struct device *d, double seconds)
{
    const double numbers = (double)PIXELS * CHANNELS, product = 2 * numbers * 9 * CHANNELS;
    const struct run runs[] = {
        {"conv", call_conv, 0, product},
        {"conv_backward", call_conv_backward, 0, 2 * product},
        {"max_pool", call_max_pool, 4 * numbers + 8 * numbers / 4, 0},
        {"max_pool_backward", call_max_pool_backward, 4 * numbers + 8 * numbers / 4, 0},
        {"mean_pool", call_mean_pool, 4 * numbers + 4 * numbers / 4, 0},
        {"mean_pool_backward", call_mean_pool_backward, 4 * numbers + 4 * numbers / 4, 0},
        {"norm", call_norm, 8 * numbers, 0},
        {"norm_backward", call_norm_backward, 12 * numbers, 0},
        {"shortcut", call_shortcut, 12 * numbers, 0},
        {"shortcut_backward", call_shortcut_backward, 12 * numbers, 0},
    };
    measure_all(d, runs, sizeof runs / sizeof runs[0], seconds);
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "124000000"), NULL, 10);
    const double percent = strtod(bench_option(argc, argv, "--percent", "1"), NULL);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "1"), NULL);
    const struct kernels *k;
    struct base_reason why;
    if (kernels_open("cuda", 1, &k, &why)) {
        printf("skipped: no device: %s\n", why.text);
        return SKIPPED;
    }
    printf("{\"bench\": \"kernels_cuda\", \"device\": \"%s\"}\n", kernels_describe(k));
    struct device d = device_make(k, count, percent);
    measure_exchange(&d, seconds);
    if (count < (size_t)WORDS * WIDTH) {
        printf("layers of decoders and images need --count %d or more\n", WORDS * WIDTH);
        return 0;
    }
    const double n = (double)count;
    const struct run updates[] = {
        {"adamw", call_adamw, 28 * n, 0},
        {"lion", call_lion, 20 * n, 0},
        {"gemm", call_gemm, 0, 2.0 * GEMM_SIDE * GEMM_SIDE * GEMM_SIDE},
        {"gemm_bf16", call_gemm_bf16, 0, 2.0 * GEMM_SIDE * GEMM_SIDE * GEMM_SIDE}, // floor: of fp32
    };
    measure_all(&d, updates, sizeof updates / sizeof updates[0], seconds);
    measure_decoder(&d, seconds);
    measure_images(&d, seconds);
    return 0;
}
