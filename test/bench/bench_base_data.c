// Writes the vector that the benchmarks use as raw floats, for other programs (test/bench/compare).
// --data NAME (gaussian), --count N (31000000), --out FILE.
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *name = bench_option(argc, argv, "--data", "gaussian");
    const char *path = bench_option(argc, argv, "--out", NULL);
    const size_t count = strtoull(bench_option(argc, argv, "--count", "31000000"), NULL, 10);
    enum bench_data data;
    if (!path || !bench_data_parse(name, &data)) {
        (void)fprintf(stderr, "usage: bench_base_data --out FILE [--count N] [--data "
                              "gaussian|student|sparse99|constant|few|sorted]\n");
        return 2;
    }
    float *x = bench_alloc(count * sizeof *x);
    bench_fill(data, 1, x, count);
    FILE *file = fopen(path, "wb");
    const size_t written = !file ? 0 : fwrite(x, sizeof *x, count, file);
    bench_free(x);
    if (!file || fclose(file) != 0 || written != count) {
        perror(path);
        return 1;
    }
    return 0;
}
