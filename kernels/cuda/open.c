// The device and cuBLAS. A call that cuBLAS refuses is not an error that training could go on from: the
// process stops with the message of cuBLAS.
#include "kernels/cuda/cuda.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

// Made by kernels_cuda_open, before other threads start, and kept for the life of the process.
static cublasHandle_t blas;

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

// cuBLAS counts columns first: our row-major C = A B is its C^T = B^T A^T, so the factors change places.
void kernels_cuda_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                       const float *a, const float *b, float beta, float *c)
{
    if (m == 0 || n == 0) {
        return;
    }
    const size_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
    must_blas(cublasSgemm(blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(n), blas_int(m), blas_int(k),
                          &alpha, b, blas_int(ldb > 0 ? ldb : 1), a, blas_int(lda > 0 ? lda : 1), &beta, c,
                          blas_int(n)),
              "cublasSgemm");
}

static enum base_error open_device(struct base_reason *why)
{
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0) {
        return base_fail(why, BASE_ENOTFOUND,
                         "no CUDA device answers (%s); install the driver or take device 'cpu'",
                         status != cudaSuccess ? cudaGetErrorString(status) : "none found");
    }
    status = cudaSetDevice(0);
    if (status == cudaSuccess && blas == NULL && cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) {
        return base_fail(why, BASE_ENOTFOUND, "cuBLAS does not start on CUDA device 0; is its memory taken?");
    }
    if (status != cudaSuccess) {
        return base_fail(why, BASE_ENOTFOUND, "CUDA device 0 can't be used (%s); is its memory taken?",
                         cudaGetErrorString(status));
    }
    // fp32 stays fp32: without this, newer devices may round factors to TF32.
    must_blas(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
    return BASE_OK;
}

enum base_error kernels_cuda_open(const struct kernels **table, char *description, size_t capacity,
                                  struct base_reason *why)
{
    enum base_error error = open_device(why);
    if (error != BASE_OK) {
        return error;
    }
    struct cudaDeviceProp device;
    int version = 0;
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
        return base_fail(why, BASE_ENOTFOUND, "CUDA device 0 does not say what it is; take device 'cpu'");
    }
    must_blas(cublasGetVersion(blas, &version), "cublasGetVersion");
    (void)snprintf(description, capacity, "cuda: %s, sm_%d%d, cuBLAS %d.%d.%d", device.name, device.major,
                   device.minor, version / 10000, version / 100 % 100, version % 100);
    *table = &kernels_cuda_table;
    return BASE_OK;
}
