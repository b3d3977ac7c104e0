// cuBLAS of the CUDA backend: one handle, on the device that is current when it starts.
#ifndef KERNELS_CUDA_BLAS_H
#define KERNELS_CUDA_BLAS_H

#include "base/error.h"

// Before the first kernels_cuda_gemm, from one thread; again is fine. *version: what cublasGetVersion says.
BASE_CHECK enum base_error kernels_cuda_blas_start(int *version, struct base_reason *why);

#endif
