// The CPU's products in place of cuBLAS's, for device code in the emulator. Those with bf16 factors round
// them with the device's code. Include it after the emulator.
#ifndef TEST_UNIT_KERNELS_CUDA_PRODUCTS_H
#define TEST_UNIT_KERNELS_CUDA_PRODUCTS_H

#include "kernels/cuda/bf16.cu"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"

void kernels_cuda_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                       const float *a, const float *b, float beta, float *c)
{
    emulator_reach(1);
    kernels_cpu_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    emulator_reach(0);
}

static inline float *emulator_rounded(size_t count, const float *from)
{
    uint16_t *narrow = malloc((count + 1) * sizeof *narrow);
    float *wide = malloc((count + 1) * sizeof *wide);
    if (narrow == NULL || wide == NULL) {
        emulator_stop("no memory for a factor");
    }
    kernels_cuda_to_bf16(count, from, narrow);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)narrow[i] << 16;
        memcpy(wide + i, &bits, sizeof bits);
    }
    free(narrow);
    return wide;
}

void kernels_cuda_gemm_bf16(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                            const float *a, const float *b, float beta, float *c)
{
    if (m <= 1 || n <= 1) { // as kernels/cuda/blas.c
        kernels_cuda_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
        return;
    }
    float *wide_a = emulator_rounded(m * k, a), *wide_b = emulator_rounded(k * n, b);
    kernels_cuda_gemm(transpose_a, transpose_b, m, n, k, alpha, wide_a, wide_b, beta, c);
    free(wide_a);
    free(wide_b);
}

#endif
