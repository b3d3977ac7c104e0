// The CPU's products in place of cuBLAS's, for device code in the emulator. Those with bf16 factors round
// them with the device's code. Include it after the emulator.
#ifndef TEST_UNIT_KERNELS_CUDA_PRODUCTS_H
#define TEST_UNIT_KERNELS_CUDA_PRODUCTS_H

#include "kernels/cuda/bf16.cu"

#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/products.h"

#include <math.h>

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
    if (!narrow || !wide) {
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

static void *emulator_factors;

static inline float emulator_wide(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double emulator_sum(const struct kernels_cuda_multiply *p, size_t row, size_t column)
{
    const size_t stride = p->stride_a > 0 ? p->stride_a : p->transpose_a ? p->m : p->k;
    double sum = p->add ? (double)p->add[row * p->n + column] : 0.0;
    for (size_t i = 0; i < p->k; i++) {
        const float a = emulator_wide(p->a[p->transpose_a ? i * stride + row : row * stride + i]);
        const float b = emulator_wide(p->b[p->transpose_b ? column * p->k + i : i * p->n + column]);
        sum += (double)a * (double)b;
    }
    return sum;
}

// What cuBLASLt does with one sum; `at`: the place in D.
static inline float emulator_after(const struct kernels_cuda_multiply *p, size_t at, double sum)
{
    const size_t column = at % p->n;
    const double cubic = 0.044715, linear = sqrt(2.0 / acos(-1.0));
    if (p->after == KERNELS_CUDA_GELU_BACKWARD) {
        const double z = (double)emulator_wide(p->kept[at]), t = tanh(linear * (z + cubic * z * z * z));
        return (float)(sum * 0.5 * (1.0 + t + z * (1.0 - t * t) * linear * (1.0 + 3.0 * cubic * z * z)));
    }
    if (p->after != KERNELS_CUDA_NOTHING) {
        sum += (double)(p->narrow ? emulator_wide(((const uint16_t *)p->bias)[column])
                                  : ((const float *)p->bias)[column]);
    }
    if (p->after == KERNELS_CUDA_BIAS_GELU) {
        p->kept[at] = bf16_of((float)sum);
        sum *= 0.5 * (1.0 + tanh(linear * (sum + cubic * sum * sum * sum)));
    }
    return (float)sum;
}

// Products with something after them are refused for odd widths, so that both ways are tested.
bool kernels_cuda_multiply(const struct kernels_cuda_multiply *p)
{
    const bool more = p->after != KERNELS_CUDA_NOTHING || (p->add && p->add != p->d);
    if (more && p->n % 8 != 0) {
        return false;
    }
    emulator_reach(1);
    for (size_t at = 0; at < p->m * p->n; at++) {
        const float value = emulator_after(p, at, emulator_sum(p, at / p->n, at % p->n));
        if (p->narrow) {
            ((uint16_t *)p->d)[at] = bf16_of(value);
        } else {
            ((float *)p->d)[at] = value;
        }
    }
    emulator_reach(0);
    return true;
}

void *kernels_cuda_factors_begin(size_t bytes)
{
    emulator_factors = !emulator_factors ? malloc(bytes) : NULL;
    if (!emulator_factors) {
        emulator_stop("no memory for factors, or two products at a time");
    }
    memset(emulator_factors, 0xff, bytes); // NaN
    return emulator_factors;
}

void kernels_cuda_factors_end(void)
{
    free(emulator_factors);
    emulator_factors = NULL;
}

#endif
