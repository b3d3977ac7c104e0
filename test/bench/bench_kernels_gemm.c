// Products of training steps on the best path of this processor beside OpenBLAS alone (the floor column), one
// thread, taken in turn. N: C = A B; T: C = A^T B, the gradient of weights; B: C = A B^T. Arguments:
// --seconds S for each product (1).
#include "test/support/bench.h"
#include "test/support/cpu_kernels.h"

#include "kernels/cpu/cpu.h"
#include <stdio.h>
#include <stdlib.h>

struct gemm_run {
    void (*gemm)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                 const float *a, const float *b, float beta, float *c);
    bool ta, tb;
    size_t m, n, k;
    const float *a, *b;
    float *c;
};

static void run(void *context)
{
    const struct gemm_run *g = context;
    g->gemm(g->ta, g->tb, g->m, g->n, g->k, 1.0f, g->a, g->b, 0.0f, g->c);
}

static float *gaussian(uint64_t seed, size_t count)
{
    float *x = bench_alloc(count * sizeof *x);
    bench_fill(BENCH_GAUSSIAN, seed, x, count);
    return x;
}

static void measure(struct gemm_run shape, double seconds)
{
    enum { OPENBLAS, OURS, CASES };
    float *a = gaussian(1, shape.m * shape.k), *b = gaussian(2, shape.k * shape.n);
    float *c = gaussian(3, shape.m * shape.n);
    struct gemm_run runs[CASES] = {shape, shape};
    struct bench_case cases[CASES] = {{run, NULL, &runs[OPENBLAS]}, {run, NULL, &runs[OURS]}};
    struct bench_time times[CASES];
    char name[64];
    for (size_t i = 0; i < CASES; i++) {
        runs[i].a = a;
        runs[i].b = b;
        runs[i].c = c;
        runs[i].gemm = i == OPENBLAS ? kernels_cpu_gemm : cpu_kernels()->gemm;
    }
    bench_alternate_by(CLOCK_THREAD_CPUTIME_ID, cases, CASES, seconds, times);
    snprintf(name, sizeof name, "%s %zux%zux%zu",
             shape.ta   ? "T"
             : shape.tb ? "B"
                        : "N",
             shape.m, shape.n, shape.k);
    bench_print(&(struct bench_result){.bench = "kernels_gemm",
                                       .name = name,
                                       .count = shape.m * shape.n,
                                       .time = times[OURS],
                                       .floor_ns = times[OPENBLAS].ns});
    bench_free(a);
    bench_free(b);
    bench_free(c);
}

int main(int argc, char **argv)
{
    static const struct gemm_run shapes[] = {
        {.m = 64, .n = 10, .k = 784}, // softmax regression
        {.ta = true, .m = 784, .n = 10, .k = 64},
        {.m = 64, .n = 256, .k = 784}, // MLPs, batch 64 and 256
        {.ta = true, .m = 784, .n = 256, .k = 64},
        {.m = 64, .n = 1024, .k = 1024},
        {.tb = true, .m = 64, .n = 1024, .k = 1024},
        {.ta = true, .m = 1024, .n = 1024, .k = 64},
        {.ta = true, .m = 1024, .n = 1024, .k = 32},
        {.m = 256, .n = 512, .k = 784},
        {.tb = true, .m = 256, .n = 512, .k = 512},
        {.ta = true, .m = 784, .n = 512, .k = 256},
        {.m = 64, .n = 5120, .k = 5120},
        {.tb = true, .m = 64, .n = 5120, .k = 5120},
        {.ta = true, .m = 5120, .n = 5120, .k = 16},
        {.ta = true, .m = 5120, .n = 5120, .k = 64},
        {.m = 1024, .n = 384, .k = 128}, // a decoder, 1,024 tokens
        {.m = 1024, .n = 128, .k = 512},
        {.tb = true, .m = 1024, .n = 512, .k = 128},
        {.tb = true, .m = 1024, .n = 128, .k = 384},
        {.ta = true, .m = 128, .n = 512, .k = 1024},
        {.ta = true, .m = 512, .n = 128, .k = 1024},
        {.m = 32, .n = 32, .k = 64}, // its attention
        {.tb = true, .m = 32, .n = 64, .k = 32},
    };
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "1"), NULL);
    kernels_cpu_set_threads(1);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        measure(shapes[i], seconds);
    return 0;
}
