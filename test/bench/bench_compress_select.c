// Selection beside one read of the vector, all cases of a group in turn, in processor time. Cases: "exact"
// (of a), "pass" (reads x and r, computes x - r, its largest magnitude and both energies, keeps nothing),
// "exact_difference" (the same with selection; its floor is "pass" on the same path), and the other methods.
// Arguments: --count N, --data NAME or all, --percent P (k is P% of count), --seconds S (in all),
// --all-methods.
#include "test/support/bench.h"

#include "compress/select.h"
#include "test/support/compress_tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct selected {
    const struct kernels *kernels;
    struct compress_selection selection;
    struct kernels_difference a;
    struct compress_sparse entries;
};

static void run_select(void *context)
{
    struct selected *s = context;
    struct compress_energy energy;
    if (compress_select(s->kernels, &s->selection, &s->a, &s->entries, &energy)) {
        abort();
    }
}

static void run_pass(void *context)
{
    struct selected *s = context;
    struct kernels_seen seen;
    (void)s->kernels->select->gather(&s->a, 0, 0xffffffffu, 0, s->entries.index, s->entries.value, &seen);
}

enum { GROUP = 2 + 4 * BENCH_PATHS };

// The cases of one group; the first one is the read.
struct group {
    struct bench_case cases[GROUP];
    struct selected selected[GROUP];
    const char *names[GROUP], *paths[GROUP];
    size_t floors[GROUP]; // whose time is the floor
    size_t n;
};

static size_t group_add(struct group *group, const char *name, const struct bench_path *path,
                        void (*run)(void *), const struct selected *selected, size_t floor)
{
    const size_t i = group->n++;
    group->selected[i] = *selected;
    group->cases[i] = (struct bench_case){.run = run, .context = &group->selected[i]};
    group->names[i] = name;
    group->paths[i] = path->name;
    group->floors[i] = floor;
    return i;
}

static void group_fill(struct group *group, const struct bench_span *read, const struct selected *base,
                       const float *r, bool all_methods)
{
    struct bench_path paths[BENCH_PATHS];
    const size_t n = bench_paths(paths);
    *group = (struct group){
        .cases = {{.run = bench_read, .context = (void *)(uintptr_t)read}}, .names = {"read"}, .n = 1};
    for (size_t i = 0; i < n; i++) {
        struct selected s = *base;
        s.kernels = paths[i].table;
        (void)group_add(group, "exact", &paths[i], run_select, &s, 0);
        s.a.r = r;
        const size_t pass = group_add(group, "pass", &paths[i], run_pass, &s, 0);
        (void)group_add(group, "exact_difference", &paths[i], run_select, &s, pass);
    }
    for (unsigned m = COMPRESS_THRESHOLD; all_methods && m < COMPRESS_METHODS; m++) {
        struct selected s = *base;
        s.kernels = paths[0].table;
        s.selection.method = (enum compress_method)m;
        (void)group_add(group, method_name(s.selection.method), &paths[0], run_select, &s, 0);
    }
}

static void measure(size_t count, enum bench_data data, double percent, double seconds, bool all_methods)
{
    struct group group;
    struct bench_time times[GROUP];
    float *x = bench_alloc(count * sizeof *x), *r = bench_alloc(count * sizeof *r);
    const struct bench_span read = {.a = x, .bytes = count * sizeof *x};
    struct selected base = {
        .selection = {.method = COMPRESS_EXACT, .k = (size_t)(percent * 0.01 * (double)count)},
        .a = {.x = x, .count = count}};
    bench_fill(data, 1, x, count);
    for (size_t i = 0; i < count; i++) {
        r[i] = 0.25f * x[i]; // so that x - r has the distribution of the data
    }
    base.selection.seed = 1;
    struct bench_path paths[BENCH_PATHS];
    (void)bench_paths(paths);
    base.kernels = paths[0].table;
    if (compress_sparse_create_on(base.kernels, compress_select_room(&base.selection, count),
                                  &base.entries)) {
        abort();
    }
    group_fill(&group, &read, &base, r, all_methods);
    bench_alternate_by(CLOCK_THREAD_CPUTIME_ID, group.cases, group.n, seconds, times);
    for (size_t i = 0; i < group.n; i++) {
        char more[96];
        (void)snprintf(more, sizeof more, "\"data\": \"%s\", \"percent\": %g", bench_data_name(data),
                       percent);
        bench_print(&(struct bench_result){.bench = "compress_select",
                                           .name = group.names[i],
                                           .path = group.paths[i],
                                           .count = count,
                                           .entries = base.selection.k,
                                           .time = times[i],
                                           .floor_ns = times[group.floors[i]].ns,
                                           .more = more});
    }
    compress_sparse_destroy(&base.entries);
    bench_free(r);
    bench_free(x);
}

// The cases of the figures in compress/MEASUREMENTS.md.
static void measure_all(double seconds)
{
    static const double percents[] = {0.1, 1.0, 10.0};
    const size_t large = 31000000, small = 1000000;
    const double each = seconds / (3 + BENCH_DATA);
    for (size_t i = 0; i < 3; i++) {
        measure(large, BENCH_GAUSSIAN, percents[i], each, i == 1);
    }
    for (unsigned data = BENCH_GAUSSIAN + 1; data < BENCH_DATA; data++) {
        measure(large, (enum bench_data)data, 1.0, each, false);
    }
    measure(small, BENCH_GAUSSIAN, 1.0, each, true);
}

int main(int argc, char **argv)
{
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "45"), NULL);
    const double percent = strtod(bench_option(argc, argv, "--percent", "1"), NULL);
    const char *count = bench_option(argc, argv, "--count", NULL),
               *name = bench_option(argc, argv, "--data", NULL);
    if (!count && !name) {
        measure_all(seconds);
        return 0;
    }
    const size_t n = count ? strtoull(count, NULL, 10) : 31000000;
    enum bench_data data = BENCH_GAUSSIAN;
    if (name && strcmp(name, "all") == 0) {
        for (unsigned d = 0; d < BENCH_DATA; d++) {
            measure(n, (enum bench_data)d, percent, seconds / BENCH_DATA,
                    bench_flag(argc, argv, "--all-methods"));
        }
        return 0;
    }
    if (name && !bench_data_parse(name, &data)) {
        (void)fprintf(stderr,
                      "--data '%s' is unknown; expected gaussian, student, sparse99, constant, few, "
                      "sorted or all\n",
                      name);
        return 2;
    }
    measure(n, data, percent, seconds, bench_flag(argc, argv, "--all-methods"));
    return 0;
}
