// The memory speed of this machine now: one read of a vector, one of two, a copy. All other figures are
// ratios to these. Arguments: --count N (31000000), --seconds S for each size (2).
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const size_t count = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10);
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "2"), NULL);
    float *a = bench_alloc(count * sizeof *a), *b = bench_alloc(count * sizeof *b);
    bench_fill(BENCH_GAUSSIAN, 1, a, count);
    bench_fill(BENCH_GAUSSIAN, 2, b, count);

    struct bench_span span = {.a = a, .b = b, .bytes = count * sizeof *a};
    const struct bench_case cases[] = {{.run = bench_read, .context = &span},
                                       {.run = bench_read_two, .context = &span},
                                       {.run = bench_copy, .context = &span}};
    static const char *const names[] = {"read", "read_two", "copy"};
    static const double vectors[] = {1.0, 2.0, 2.0}; // moved
    struct bench_time times[3];
    bench_alternate(cases, 3, seconds, times);
    for (size_t i = 0; i < 3; i++) {
        char more[64];
        (void)snprintf(more, sizeof more, "\"gb_per_s\": %.2f",
                       vectors[i] * (double)span.bytes / times[i].ns_min);
        bench_print(&(struct bench_result){.bench = "kernels_floor",
                                           .name = names[i],
                                           .count = count,
                                           .time = times[i],
                                           .floor_ns = times[0].ns,
                                           .more = more});
    }
    bench_free(a);
    bench_free(b);
    return 0;
}
