// The fused end of an exchange: two lists, each of a share of the vector, applied to x, pending and r (and to
// the two vectors of the drift correction), beside one read of a vector. `lines_ns` is the cost of the
// touched cache lines at the measured speed of a copy, read and written back. Also the hash and the finite
// check of a whole vector. Arguments: --count N (31000000), --percent P (1), --seconds S for each group (3).
#include "test/support/bench.h"

#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>

struct lists {
    uint32_t *index[2];
    float *value[2];
    size_t count[2];
};

// Each element with chance p, independent of the other list.
static void list_fill(struct lists *lists, size_t which, uint64_t seed, size_t count, double p)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    size_t room = (size_t)(p * (double)count * 1.1) + 1000, n = 0;
    lists->index[which] = bench_alloc(room * sizeof(uint32_t));
    lists->value[which] = bench_alloc(room * sizeof(float));
    for (size_t i = 0; i < count && n < room; i++)
        if (base_rng_uniform(&rng) < p) {
            lists->index[which][n] = (uint32_t)i;
            lists->value[which][n++] = 1e-3f * (float)base_rng_normal(&rng);
        }
    lists->count[which] = n;
}

struct apply_run {
    const struct kernels_apply *apply;
    struct kernels_exchange exchange;
    uint64_t hash;
};

static void run_exchange(void *context)
{
    struct apply_run *run = context;
    run->apply->exchange(&run->exchange, &run->hash);
}

struct vector_run {
    const struct kernels_apply *apply;
    const float *x;
    size_t count;
    uint64_t result;
};

static void run_hash(void *context)
{
    struct vector_run *run = context;
    run->result += run->apply->hash(run->x, run->count, 0, false);
}

static void run_finite(void *context)
{
    struct vector_run *run = context;
    run->result += run->apply->finite(run->x, run->count);
}

// Distinct cache lines of one vector that the two lists touch.
static size_t lines_of(const struct kernels_exchange *e)
{
    size_t lines = 0, i = 0, j = 0, last = SIZE_MAX;
    while (i < e->mine.count || j < e->theirs.count) {
        size_t a = i < e->mine.count ? e->mine.index[i] / 16 : SIZE_MAX;
        size_t b = j < e->theirs.count ? e->theirs.index[j] / 16 : SIZE_MAX, line = a < b ? a : b;
        i += a == line;
        j += b == line;
        lines += line != last;
        last = line;
    }
    return lines;
}

enum { CASES = 1 + 1 + BENCH_PATHS };

// One exchange on every path, beside a read and a copy.
static void bench_exchange(const char *name, struct kernels_exchange exchange, size_t count, double seconds,
                           const struct bench_span *span)
{
    struct bench_path paths[BENCH_PATHS];
    struct apply_run runs[BENCH_PATHS];
    struct bench_case cases[CASES] = {{.run = bench_read, .context = (void *)(uintptr_t)span},
                                      {.run = bench_copy, .context = (void *)(uintptr_t)span}};
    struct bench_time times[CASES];
    size_t n = bench_paths(paths);
    for (size_t p = 0; p < n; p++) {
        runs[p] = (struct apply_run){.apply = paths[p].table->apply, .exchange = exchange};
        cases[2 + p] = (struct bench_case){.run = run_exchange, .context = &runs[p]};
    }
    bench_alternate(cases, 2 + n, seconds, times);
    double vectors = 2 + (exchange.pending != NULL) + 2 * (exchange.correction != NULL),
           lines = vectors * (double)lines_of(&exchange);
    for (size_t p = 0; p < n; p++) {
        char more[160];
        (void)snprintf(more, sizeof more,
                       "\"lines\": %.0f, \"lines_ns\": %.0f, \"ratio_min\": %.3f, \"copy_ns\": %.0f", lines,
                       lines * 64 / (double)span->bytes * times[1].ns, times[2 + p].ns_min / times[0].ns_min,
                       times[1].ns);
        bench_print(&(struct bench_result){.bench = "kernels_apply",
                                           .name = name,
                                           .path = paths[p].name,
                                           .count = count,
                                           .entries = exchange.mine.count + exchange.theirs.count,
                                           .time = times[2 + p],
                                           .floor_ns = times[0].ns,
                                           .more = more});
    }
}

static void bench_whole(const char *name, void (*run)(void *), const float *x, size_t count, double seconds)
{
    struct bench_path paths[BENCH_PATHS];
    struct vector_run runs[BENCH_PATHS];
    struct bench_span span = {.a = x, .bytes = count * sizeof *x};
    struct bench_case cases[CASES] = {{.run = bench_read, .context = &span}};
    struct bench_time times[CASES];
    size_t n = bench_paths(paths);
    for (size_t p = 0; p < n; p++) {
        runs[p] = (struct vector_run){.apply = paths[p].table->apply, .x = x, .count = count};
        cases[1 + p] = (struct bench_case){.run = run, .context = &runs[p]};
    }
    bench_alternate(cases, 1 + n, seconds, times);
    for (size_t p = 0; p < n; p++)
        bench_print(&(struct bench_result){.bench = "kernels_apply",
                                           .name = name,
                                           .path = paths[p].name,
                                           .count = count,
                                           .time = times[1 + p],
                                           .floor_ns = times[0].ns});
}

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10);
    const double percent = strtod(bench_option(argc, argv, "--percent", "1"), NULL);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "3"), NULL);
    float *vector[6];
    for (size_t v = 0; v < 6; v++) {
        vector[v] = bench_alloc(count * sizeof(float));
        if (v < 3)
            bench_fill(BENCH_GAUSSIAN, v + 1, vector[v], count);
    }
    struct lists lists;
    list_fill(&lists, 0, 11, count, percent / 100);
    list_fill(&lists, 1, 12, count, percent / 100);
    struct bench_span span = {.a = vector[0], .b = vector[5], .bytes = count * sizeof(float)};
    struct kernels_exchange e = {.x = vector[0],
                                 .pending = vector[1],
                                 .r = vector[2],
                                 .weight = 0.5f,
                                 .gain = 0.1f,
                                 .mine = {lists.index[0], lists.value[0], lists.count[0], 0},
                                 .theirs = {lists.index[1], lists.value[1], lists.count[1], 0}};
    bench_exchange("exchange", e, count, seconds, &span);
    struct kernels_exchange same = e;
    same.theirs.index = same.mine.index;
    same.theirs.count = same.mine.count < e.theirs.count ? same.mine.count : e.theirs.count;
    bench_exchange("exchange_same_keys", same, count, seconds, &span);
    same.pending = NULL;
    bench_exchange("exchange_x_and_r_same_keys", same, count, seconds, &span);
    struct kernels_exchange two = e;
    two.pending = NULL;
    bench_exchange("exchange_x_and_r", two, count, seconds, &span);
    e.correction = vector[3];
    e.correction_sum = vector[4];
    bench_exchange("exchange_corrected", e, count, seconds, &span);
    bench_whole("hash", run_hash, vector[0], count, seconds);
    bench_whole("finite", run_finite, vector[0], count, seconds);
    for (size_t v = 0; v < 6; v++)
        bench_free(vector[v]);
    for (size_t i = 0; i < 2; i++) {
        bench_free(lists.index[i]);
        bench_free(lists.value[i]);
    }
    return 0;
}
