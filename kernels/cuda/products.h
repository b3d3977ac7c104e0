// Products of bf16 factors, with what follows them in the same kernel of cuBLAS.
#ifndef KERNELS_CUDA_PRODUCTS_H
#define KERNELS_CUDA_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kernels_cuda_after {
    KERNELS_CUDA_NOTHING,
    KERNELS_CUDA_BIAS,
    KERNELS_CUDA_BIAS_GELU,     // writes what the GELU takes to `kept`
    KERNELS_CUDA_GELU_BACKWARD, // times the derivative of GELU at `kept`
};

// D [m, n] = after(op(A) [m, k] op(B) [k, n] + add + bias). A is stored as [m, k] or, transposed, as [k, m].
struct kernels_cuda_multiply {
    bool transpose_a, transpose_b;
    size_t m, n, k;
    size_t stride_a; // numbers from row to row of A as it is stored; 0: no gaps
    const uint16_t *a, *b;
    const float *add; // [m, n]; may be d; NULL: zeros. Only for fp32 d
    void *d;
    bool narrow; // d is bf16, else fp32
    enum kernels_cuda_after after;
    const void *bias; // [n], of the type of d
    uint16_t *kept;   // [m, n]
};

// Sums are fp32. Everything is aligned to 16 bytes, except b, d and add of a product with nothing after it.
// False: cuBLAS has no kernel that includes what follows. With nothing after the product, and `add` NULL or
// d, it is always true.
bool kernels_cuda_multiply(const struct kernels_cuda_multiply *product);

#endif
