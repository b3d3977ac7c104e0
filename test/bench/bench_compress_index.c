// The index codes: ns per index to encode (sizes of all codes, choice, writing), to check and to read; bits
// per index beside the entropy; and bytes of whole packets per entry. One JSON object per line; `ns` is of a
// whole run, the members after it are per entry. --count N (31,000,000), --seconds S per density (3).
#include "base/rng.h"
#include "compress/packet_header.h"
#include "test/support/bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PIECE 4096u // entries that are read at a time

struct work {
    const struct kernels *kernels;
    const struct compress_sparse *entries;
    size_t count;
    unsigned kind, parameter;
    size_t bytes;
    uint8_t *section;
    struct compress_reader reader;
};

static void encode(void *context)
{
    struct work *work = context;
    const size_t entries = work->entries->count;
    struct indices_list list = {.index = work->entries->index,
                                .entries = entries,
                                .count = work->count,
                                .coding = work->kernels->coding,
                                .first = indices_rice_first(work->entries->index, entries)};
    bool ascending = list.coding->gaps(entries, list.index, list.first, list.sums);
    BASE_ASSERT(ascending);
    work->bytes = SIZE_MAX;
    for (unsigned kind = 0; kind < INDICES_KINDS; kind++) {
        if (!packet_codes[kind])
            continue;
        unsigned parameter;
        const size_t bytes = packet_codes[kind]->size(&list, &parameter);
        if (bytes < work->bytes) {
            work->bytes = bytes;
            work->kind = kind;
            work->parameter = parameter;
        }
    }
    packet_codes[work->kind]->write(&list, work->parameter, work->section, work->bytes);
}

static void start(struct work *work)
{
    work->reader = (struct compress_reader){.host = work->kernels,
                                            .indices = work->section,
                                            .index_bytes = work->bytes,
                                            .code = work->kind,
                                            .parameter = work->parameter,
                                            .count = work->count,
                                            .entries = work->entries->count};
}

static void check(void *context)
{
    struct work *work = context;
    start(work);
    enum base_error error = packet_codes[work->kind]->check(&work->reader);
    BASE_ASSERT(!error);
}

static void read_all(void *context)
{
    static uint32_t index[PIECE];
    struct work *work = context;
    start(work);
    struct compress_reader *reader = &work->reader;
    for (size_t now; reader->done < reader->entries; reader->done += now) {
        now = reader->entries - reader->done < PIECE ? reader->entries - reader->done : PIECE;
        packet_codes[work->kind]->read(reader, now, index);
    }
}

// Entropy, in bits per entry, of a list of `entries` among `count`.
static double entropy(double count, double entries)
{
    const double nats = lgamma(count + 1) - lgamma(entries + 1) - lgamma(count - entries + 1);
    return nats / log(2.0) / entries;
}

static struct compress_sparse list_make(size_t count, double density)
{
    struct base_rng rng;
    base_rng_seed(&rng, 1);
    struct compress_sparse list;
    const size_t capacity = (size_t)((double)count * density * 1.1) + 1000;
    if (compress_sparse_create(capacity, &list))
        abort();
    for (size_t i = 0; i < count && list.count < capacity; i++) {
        if (base_rng_uniform(&rng) < density) {
            list.value[list.count] = (float)base_rng_normal(&rng);
            list.index[list.count++] = (uint32_t)i;
        }
    }
    return list;
}

static void print_codes(const struct compress_sparse *list, struct work *works, size_t paths,
                        const struct bench_path *path, const struct bench_time *times, const char *density)
{
    static const char *const stages[] = {"encode", "check", "read"};
    const double entries = (double)list->count, floor = entropy((double)works[0].count, entries);
    for (size_t i = 0; i < 3 * paths; i++) {
        const struct work *work = &works[i / 3];
        const double bits = (double)work->bytes * 8 / entries;
        char name[64], more[256];
        snprintf(name, sizeof name, "%s %s", stages[i % 3], density);
        snprintf(more, sizeof more,
                 "\"code\": %u, \"ns_entry\": %.3f, \"ns_entry_min\": %.3f, \"bits\": %.4f, "
                 "\"entropy_bits\": %.4f, \"bits_ratio\": %.4f",
                 work->kind, times[i].ns / entries, times[i].ns_min / entries, bits, floor, bits / floor);
        bench_print(&(struct bench_result){.bench = "compress_index",
                                           .name = name,
                                           .path = path[i / 3].name,
                                           .count = work->count,
                                           .entries = list->count,
                                           .time = times[i],
                                           .more = more});
    }
}

static void print_bytes(const struct kernels *kernels, struct compress_sparse *list, size_t count,
                        const char *density)
{
    static const enum kernels_format formats[] = {KERNELS_FP32, KERNELS_FP16, KERNELS_INT8,
                                                  KERNELS_INT4, KERNELS_INT2, KERNELS_SIGN};
    static const char *const names[] = {"fp32", "fp16", "int8", "int4", "int2", "sign"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const size_t bound = compress_packet_bound(count, list->count, formats[i]);
        uint8_t *packet = bench_alloc(bound);
        size_t bytes = 0;
        if (compress_packet_encode(kernels, list, count, formats[i], NULL, packet, bound, &bytes))
            abort();
        printf("{\"bench\": \"compress_index\", \"case\": \"packet %s %s\", \"count\": %zu, "
               "\"entries\": %zu, \"bytes_entry\": %.4f}\n",
               names[i], density, count, list->count, (double)bytes / (double)list->count);
        bench_free(packet);
    }
}

static void bench_density(size_t count, double density, const char *name, double seconds)
{
    struct bench_path path[BENCH_PATHS];
    const size_t paths = bench_paths(path);
    struct compress_sparse list = list_make(count, density);
    const size_t bound = compress_packet_bound(count, list.count, KERNELS_SIGN);
    struct work works[BENCH_PATHS];
    struct bench_case cases[3 * BENCH_PATHS];
    struct bench_time times[3 * BENCH_PATHS];
    for (size_t i = 0; i < paths; i++) {
        works[i] = (struct work){
            .kernels = path[i].table, .entries = &list, .count = count, .section = bench_alloc(bound)};
        cases[3 * i] = (struct bench_case){.run = encode, .context = &works[i]};
        cases[3 * i + 1] = (struct bench_case){.run = check, .context = &works[i]};
        cases[3 * i + 2] = (struct bench_case){.run = read_all, .context = &works[i]};
    }
    bench_alternate(cases, 3 * paths, seconds, times);
    print_codes(&list, works, paths, path, times, name);
    print_bytes(path[0].table, &list, count, name);
    for (size_t i = 0; i < paths; i++)
        bench_free(works[i].section);
    compress_sparse_destroy(&list);
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "3"), NULL);
    bench_density(count, 0.001, "0.1%", seconds);
    bench_density(count, 0.01, "1%", seconds);
    bench_density(count, 0.1, "10%", seconds);
    return 0;
}
