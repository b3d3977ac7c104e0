// What an exchange and a training step ask of a CUDA device, one line a kernel, beside its floor: the bytes
// that it must move over the bandwidth of a plain read of a vector (finite()) in the same run. Times are of
// whole calls, launch and answer included. Exits 77 where no device answers. Arguments: --count N
// (124000000), --percent P (1),
// --seconds S for each kernel (1).
#include "test/support/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, FLOOR_SECTOR = 32 };

// Vectors and lists on the device; a case takes of them what it needs.
struct device {
    const struct kernels *k;
    size_t count, entries;
    float *x, *r, *pending, *m, *value, *other_value;
    uint32_t *index, floor;
    uint8_t *section;
    double bytes_per_ns;
};

struct run {
    const char *name;
    void (*call)(struct device *d);
    double bytes;
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

// A run of a case ends when the device is done.
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
    d->bytes_per_ns = d->bytes_per_ns > 0.0 ? d->bytes_per_ns : run->bytes / time.ns; // the first is the read
    char more[64];
    (void)snprintf(more, sizeof more, "\"bytes\": %.0f, \"gb_s\": %.1f", run->bytes, run->bytes / time.ns);
    bench_print(&(struct bench_result){.bench = "kernels_cuda",
                                       .name = run->name,
                                       .path = "cuda",
                                       .count = d->count,
                                       .entries = d->entries,
                                       .time = time,
                                       .floor_ns = run->bytes / d->bytes_per_ns,
                                       .more = more});
}

static void *must_alloc(const struct kernels *k, size_t bytes)
{
    void *memory = k->alloc(bytes);
    if (memory == NULL) {
        (void)fprintf(stderr, "the device has no %zu bytes left: take a smaller --count\n", bytes);
        exit(1);
    }
    return memory;
}

// Gaussian x and zero r; the floor that about `percent` of |x| reach, from the first elements.
static void device_fill(struct device *d, double percent)
{
    const size_t bytes = d->count * sizeof(float), samples = d->count < 100000 ? d->count : 100000;
    float *host = bench_alloc(bytes);
    double *magnitude = malloc(samples * sizeof *magnitude);
    bench_fill(BENCH_GAUSSIAN, 1, host, d->count);
    for (size_t i = 0; magnitude != NULL && i < samples; i++) {
        magnitude[i] = fabs((double)host[i]);
    }
    if (magnitude != NULL) {
        (void)bench_median(magnitude, samples); // sorts
        const float floor = (float)magnitude[(size_t)((1.0 - percent / 100) * (double)(samples - 1))];
        memcpy(&d->floor, &floor, sizeof floor);
    }
    d->k->upload(d->x, host, bytes);
    free(magnitude);
    bench_free(host);
}

static struct device device_make(const struct kernels *k, size_t count, double percent)
{
    struct device d = {.k = k, .count = count, .entries = (size_t)((double)count * percent / 100) + 1};
    const size_t bytes = count * sizeof(float), list = 2 * d.entries * sizeof(float) + 65536;
    d.x = must_alloc(k, bytes);
    d.r = must_alloc(k, bytes);
    d.pending = must_alloc(k, bytes);
    d.m = must_alloc(k, bytes);
    d.value = must_alloc(k, list);
    d.other_value = must_alloc(k, list);
    d.index = must_alloc(k, list);
    d.section = must_alloc(k, list);
    device_fill(&d, percent);
    const struct kernels_difference a = difference(&d);
    struct kernels_seen seen;
    const size_t found = k->select->gather(&a, 0, d.floor, 2 * d.entries, d.index, d.value, &seen);
    d.entries = found > 0 ? found : d.entries;
    return d;
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "124000000"), NULL, 10);
    const double percent = strtod(bench_option(argc, argv, "--percent", "1"), NULL);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "1"), NULL);
    const struct kernels *k;
    struct base_reason why;
    if (kernels_open("cuda", 1, &k, &why) != BASE_OK) {
        printf("skipped: no device: %s\n", why.text);
        return SKIPPED;
    }
    printf("{\"bench\": \"kernels_cuda\", \"device\": \"%s\"}\n", kernels_describe(k));
    struct device d = device_make(k, count, percent);
    const double n = (double)count, e = (double)d.entries;
    const struct run runs[] = {
        {"read", call_read, 4 * n},
        {"hash", call_hash, 4 * n},
        {"gather", call_gather, 8 * n + 8 * e},
        {"gather_x", call_gather_x, 4 * n + 8 * e},
        {"histogram", call_histogram, 8 * n},
        {"count_8", call_count, 8 * n},
        {"write_int8", call_write, 9 * e},
        {"valid_int8", call_valid, e},
        {"read_int8", call_read_values, 5 * e},
        {"exchange", call_exchange,
         e * (6 * FLOOR_SECTOR + 16)}, // sectors of x, r and pending, read and written
        {"sgd", call_sgd, 20 * n},
        {"column_sum", call_column_sum, 4 * n},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        measure(&d, &runs[i], seconds);
    }
    return 0;
}
