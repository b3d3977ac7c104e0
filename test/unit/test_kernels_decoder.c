// kernels/decoder.h on the CPU's paths, and its CUDA code for bf16 in the emulator.
#include "kernels_cuda_emulator.h"

#include "kernels/cuda/attention.cu"
#include "kernels/cuda/attention_bf16.cu"
#include "kernels/cuda/decoder.c"
#include "kernels/cuda/decoder.cu"
#include "kernels/cuda/select.cu" // the reduction of vectors.cu
#include "kernels/cuda/sequence.cu"
#include "kernels/cuda/train.cu"
#include "kernels/cuda/vectors.cu"

#include "kernels_cuda_products.h"

#include "kernels_checks_decoder.h"

static const struct {
    const char *name;
    CMUnitTestFunction function;
} checks[] = {CHECKS_DECODER};

int main(void)
{
    struct kernels device = kernels_cpu_scalar; // all memory is the host's
    device.decoder = &kernels_cuda_decoder;
    const struct {
        const char *name;
        const struct kernels *table;
    } tables[] = {{"scalar", kernels_cpu_table("scalar")},
                  {"avx2", kernels_cpu_table("avx2")},
                  {"avx512", kernels_cpu_table("avx512")},
                  {"cuda bf16", &device}};
    static char names[COUNT(tables) * COUNT(checks)][64];
    struct CMUnitTest tests[COUNT(tables) * COUNT(checks)];
    size_t count = 0;
    checks_seed();
    kernels_cpu_set_threads(1);
    for (size_t t = 0; t < COUNT(tables); t++) {
        if (!tables[t].table) {
            printf("path %s is not tested: this processor lacks it\n", tables[t].name);
            continue;
        }
        for (size_t c = 0; c < COUNT(checks); c++, count++) {
            (void)snprintf(names[count], sizeof names[0], "%s: %s", tables[t].name, checks[c].name);
            tests[count] = (struct CMUnitTest){names[count], checks[c].function, NULL, NULL,
                                               (void *)(uintptr_t)tables[t].table};
        }
    }
    const int failed = _cmocka_run_group_tests("kernels decoder", tests, count, NULL, NULL);
    emulator_free();
    return failed;
}
