// The cost of a chain of filters per entry, beside fetching x at the entries (pick), which is most of it if a
// filter reads x: x is far larger than the caches. The copy of the list that each run starts from is not
// timed. Arguments: --count N (31000000), --seconds S (2).
#include "compress/filter.h"
#include "test/support/bench.h"

#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filtering {
    struct compress_filters filters;
    struct compress_turn turn;
    struct kernels_difference a;
    struct compress_sparse source, list;
};

static void list_restore(void *context)
{
    struct filtering *f = context;
    f->list.count = f->source.count;
    memcpy(f->list.index, f->source.index, f->source.count * sizeof *f->list.index);
    memcpy(f->list.value, f->source.value, f->source.count * sizeof *f->list.value);
}

static void list_drop(void *context)
{
    struct filtering *f = context;
    f->turn.seed++;
    if (compress_filters_drop(&f->filters, &f->turn, &f->list)) {
        exit(1);
    }
}

static void model_pick(void *context)
{
    struct filtering *f = context;
    f->turn.kernels->select->pick(&f->a, f->source.count, f->source.index, f->list.value);
}

// Random gaps, 1% of the elements.
static void source_fill(struct compress_sparse *source, size_t count)
{
    struct base_rng rng;
    base_rng_seed(&rng, 1);
    uint64_t at = base_rng_below(&rng, 199);
    for (source->count = 0; source->count < source->capacity && at < count; source->count++) {
        source->index[source->count] = (uint32_t)at;
        source->value[source->count] = 0.5f * (float)base_rng_normal(&rng);
        at += 1 + base_rng_below(&rng, 199);
    }
}

int main(int argc, char **argv)
{
    static const char *const texts[] = {"", "significantly-modified:0.5", "random-skip:0.5",
                                        "significantly-modified:0.5,random-skip:0.5"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    const size_t count = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "2"), NULL);
    const struct kernels *kernels;
    struct compress_sparse source, list;
    if (kernels_open("cpu", 1, &kernels, NULL) || compress_sparse_create(count / 100, &source) ||
        compress_sparse_create(count / 100, &list)) {
        return 1;
    }
    float *x = bench_alloc(count * sizeof *x);
    bench_fill(BENCH_GAUSSIAN, 2, x, count);
    source_fill(&source, count);

    struct filtering all[TEXTS];
    struct bench_case cases[TEXTS];
    struct bench_time times[TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        all[i] = (struct filtering){.a = {.x = x, .count = count}, .source = source, .list = list};
        all[i].turn = (struct compress_turn){.kernels = kernels, .a = &all[i].a};
        if (compress_filters_parse(texts[i], &all[i].filters, NULL)) {
            return 1;
        }
        cases[i] = (struct bench_case){
            .run = i == 0 ? model_pick : list_drop, .prepare = list_restore, .context = &all[i]};
    }
    bench_alternate(cases, TEXTS, seconds, times);
    for (size_t i = 0; i < TEXTS; i++) {
        char more[96];
        (void)snprintf(more, sizeof more, "\"ns_entry\": %.2f, \"ns_entry_min\": %.2f, \"kept\": %zu",
                       times[i].ns / (double)source.count, times[i].ns_min / (double)source.count,
                       i == 0 ? source.count : all[i].list.count);
        bench_print(&(struct bench_result){.bench = "compress_filter",
                                           .name = i == 0 ? "pick" : texts[i],
                                           .count = count,
                                           .entries = source.count,
                                           .time = times[i],
                                           .floor_ns = times[0].ns,
                                           .more = more});
    }
    compress_sparse_destroy(&source);
    compress_sparse_destroy(&list);
    bench_free(x);
    return 0;
}
