// cuBLAS. Training cannot continue after a call that it refuses: the process stops with the message of
// cuBLAS.
#include "kernels/cuda/blas.h"

#include <cublas_v2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/products.h"

// Created once, before other threads start, and kept until the process ends.
static cublasHandle_t blas, blas_bf16;

static void must_blas(cublasStatus_t status, const char *what)
{
    if (status != CUBLAS_STATUS_SUCCESS) {
        (void)fprintf(stderr, "CUDA: %s failed: %s\n", what, cublasGetStatusString(status));
        abort();
    }
}

static int blas_int(size_t value)
{
    BASE_ASSERT(value <= INT_MAX);
    return (int)value;
}

// cuBLAS is column-major: our row-major C = A B is its C^T = B^T A^T, so the factors change places.
void kernels_cuda_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                       const float *a, const float *b, float beta, float *c)
{
    if (m == 0 || n == 0)
        return;
    const size_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
    must_blas(cublasSgemm(blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(n), blas_int(m), blas_int(k),
                          &alpha, b, blas_int(ldb > 0 ? ldb : 1), a, blas_int(lda > 0 ? lda : 1), &beta, c,
                          blas_int(n)),
              "cublasSgemm");
}

// D = alpha op(A) op(B) + beta D.
static void multiply(const struct kernels_cuda_multiply *p, float alpha, float beta)
{
    const size_t stride_a = p->stride_a > 0 ? p->stride_a : p->transpose_a ? p->m : p->k;
    must_blas(cublasGemmEx(blas_bf16, p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                           p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(p->n), blas_int(p->m),
                           blas_int(p->k), &alpha, p->b, CUDA_R_16BF, blas_int(p->transpose_b ? p->k : p->n),
                           p->a, CUDA_R_16BF, blas_int(stride_a), &beta, p->d,
                           p->narrow ? CUDA_R_16BF : CUDA_R_32F, blas_int(p->n), CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT),
              "cublasGemmEx");
}

void kernels_cuda_multiply_plain(const struct kernels_cuda_multiply *p)
{
    multiply(p, 1.0f, p->add ? 1.0f : 0.0f);
}

// Products of vectors stay fp32: they have few operations, and the trainer computes the norm of the gradient
// as one.
void kernels_cuda_gemm_bf16(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                            const float *a, const float *b, float beta, float *c)
{
    if (m <= 1 || n <= 1 || k == 0) {
        kernels_cuda_gemm(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
        return;
    }
    const size_t of_a = (m * k + 127) / 128 * 128; // both aligned to 256 bytes
    uint16_t *a16 = kernels_cuda_factors_begin((of_a + k * n) * sizeof *a16), *b16 = a16 + of_a;
    kernels_cuda_to_bf16(m * k, a, a16);
    kernels_cuda_to_bf16(k * n, b, b16);
    kernels_cuda_launched("rounding to bf16");
    const struct kernels_cuda_multiply product = {.transpose_a = transpose_a,
                                                  .transpose_b = transpose_b,
                                                  .m = m,
                                                  .n = n,
                                                  .k = k,
                                                  .a = a16,
                                                  .b = b16,
                                                  .d = c};
    multiply(&product, alpha, beta);
    kernels_cuda_factors_end();
}

enum base_error kernels_cuda_blas_start(int *version, struct base_reason *why)
{
    if ((!blas && cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) ||
        (!blas_bf16 && cublasCreate(&blas_bf16) != CUBLAS_STATUS_SUCCESS)) {
        return base_fail(why, BASE_ENOTFOUND,
                         "cuBLAS does not start on CUDA device 0; is its memory in use?");
    }
    // fp32 stays fp32: without this, newer devices may round factors to TF32.
    must_blas(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
    // Tensor cores, but partial sums stay fp32.
    must_blas(cublasSetMathMode(blas_bf16, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
              "cublasSetMathMode");
    must_blas(cublasGetVersion(blas, version), "cublasGetVersion");
    return BASE_OK;
}
