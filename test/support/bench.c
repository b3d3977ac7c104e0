#include "test/support/bench.h"

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RUNS_MIN  5u
#define RUNS_MAX  10000u
#define HUGE_PAGE ((size_t)2 << 20)

double bench_clock(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double bench_now(void)
{
    return bench_clock(CLOCK_MONOTONIC);
}

double bench_now_s(void)
{
    return 1e-9 * bench_now();
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, ascending);
    return n % 2 == 1 ? times[n / 2] : 0.5 * (times[n / 2 - 1] + times[n / 2]);
}

double bench_minimum(const double *times, size_t n)
{
    double least = times[0];
    for (size_t i = 1; i < n; i++) {
        least = times[i] < least ? times[i] : least;
    }
    return least;
}

static void *or_stop(void *memory)
{
    if (!memory) {
        (void)fprintf(stderr, "benchmark: out of memory\n");
        exit(1);
    }
    return memory;
}

static double run_once(clockid_t clock, const struct bench_case *one)
{
    if (one->prepare) {
        one->prepare(one->context);
    }
    const double start = bench_clock(clock);
    one->run(one->context);
    return bench_clock(clock) - start;
}

void bench_alternate_by(clockid_t clock, const struct bench_case *cases, size_t n, double seconds,
                        struct bench_time *times)
{
    double *all = or_stop(calloc(n * RUNS_MAX, sizeof *all));
    for (size_t c = 0; c < n; c++) {
        (void)run_once(clock, &cases[c]);
    }
    const double end = bench_now() + seconds * 1e9;
    size_t runs = 0;
    while (runs < RUNS_MIN || (runs < RUNS_MAX && bench_now() < end)) {
        for (size_t c = 0; c < n; c++) {
            all[c * RUNS_MAX + runs] = run_once(clock, &cases[c]);
        }
        runs++;
    }
    for (size_t c = 0; c < n; c++) {
        double *own = all + c * RUNS_MAX;
        times[c] = (struct bench_time){bench_median(own, runs), bench_minimum(own, runs), runs};
    }
    free(all);
}

void bench_alternate(const struct bench_case *cases, size_t n, double seconds, struct bench_time *times)
{
    bench_alternate_by(CLOCK_MONOTONIC, cases, n, seconds, times);
}

void *bench_alloc(size_t bytes)
{
    const size_t rounded = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *memory = or_stop(aligned_alloc(HUGE_PAGE, rounded));
    (void)madvise(memory, rounded, MADV_HUGEPAGE); // a kernel without huge pages still gives memory
    return memset(memory, 0, rounded);
}

void bench_free(void *memory)
{
    free(memory);
}

static const char *const data_names[BENCH_DATA] = {"gaussian", "student", "sparse99",
                                                   "constant", "few",     "sorted"};

const char *bench_data_name(enum bench_data data)
{
    return data_names[data];
}

bool bench_data_parse(const char *name, enum bench_data *data)
{
    for (size_t i = 0; i < BENCH_DATA; i++) {
        if (strcmp(name, data_names[i]) == 0) {
            *data = (enum bench_data)i;
            return true;
        }
    }
    return false;
}

static float draw(enum bench_data data, struct base_rng *rng)
{
    static const float few[] = {-0.5f, -0.25f, 0.125f, 0.25f, 0.5f};
    switch (data) {
    case BENCH_STUDENT: {
        const double chi_squared = 2.0 * base_rng_gamma(rng, 1.5);
        return (float)(base_rng_normal(rng) / sqrt(chi_squared / 3.0));
    }
    case BENCH_SPARSE:
        return base_rng_below(rng, 100) == 0 ? (float)base_rng_normal(rng) : 0.0f;
    case BENCH_CONSTANT:
        return 0.5f;
    case BENCH_FEW:
        return few[base_rng_below(rng, sizeof few / sizeof few[0])];
    default:
        return (float)base_rng_normal(rng);
    }
}

static int ascending_floats(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

void bench_fill(enum bench_data data, uint64_t seed, float *x, size_t count)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < count; i++) {
        x[i] = draw(data, &rng);
    }
    if (data == BENCH_SORTED) {
        qsort(x, count, sizeof *x, ascending_floats);
    }
}

size_t bench_paths(struct bench_path paths[BENCH_PATHS])
{
    static const char *const names[BENCH_PATHS] = {"avx512", "avx2", "scalar"};
    size_t n = 0;
    for (size_t i = 0; i < BENCH_PATHS; i++) {
        const struct kernels *table = kernels_cpu_table(names[i]);
        if (table) {
            paths[n++] = (struct bench_path){names[i], table};
        }
    }
    return n;
}

void bench_print(const struct bench_result *r)
{
    printf("{\"bench\": \"%s\", \"case\": \"%s\"", r->bench, r->name);
    if (r->path) {
        printf(", \"path\": \"%s\"", r->path);
    }
    printf(", \"count\": %zu", r->count);
    if (r->entries > 0) {
        printf(", \"entries\": %zu", r->entries);
    }
    printf(", \"ns\": %.0f, \"ns_min\": %.0f, \"runs\": %zu", r->time.ns, r->time.ns_min, r->time.runs);
    if (r->floor_ns > 0.0) {
        printf(", \"floor_ns\": %.0f, \"ratio\": %.3f", r->floor_ns, r->time.ns / r->floor_ns);
    }
    if (r->more) {
        printf(", %s", r->more);
    }
    printf("}\n");
    (void)fflush(stdout);
}

void bench_print_steps(const char *name, double *times, size_t n)
{
    const double median = bench_median(times, n);
    printf("%s median=%.4f min=%.4f steps=%zu\n", name, median * 1e-6, times[0] * 1e-6, n);
}

long bench_status_kib(const char *key)
{
    long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            kib = strtol(line + strlen(key), NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib;
}

const char *bench_option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return fallback;
}

bool bench_flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return false;
}
