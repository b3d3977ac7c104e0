// cuBLAS of the CUDA backend: a handle for fp32 and one for bf16, on the device that is current when they are
// created.
#ifndef KERNELS_CUDA_BLAS_H
#define KERNELS_CUDA_BLAS_H

#include "base/error.h"

// Call this before the first kernels_cuda_gemm, from one thread; further calls create nothing. *version: from
// cublasGetVersion.
BASE_CHECK enum base_error kernels_cuda_blas_start(int *version, struct base_reason *why);

// A product of bf16 factors with nothing after it, and `add` NULL or d.
struct kernels_cuda_multiply;
void kernels_cuda_multiply_plain(const struct kernels_cuda_multiply *product);

#endif
