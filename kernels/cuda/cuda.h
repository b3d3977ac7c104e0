// The CUDA backend inside kernels/: cuBLAS and our own kernels (the .cu files) behind the common table. One
// device, one stream; calls that need temporary memory wait for one another.
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include "kernels/kernels.h"

// The one symbol that registry.c takes from the module. It opens CUDA device 0; BASE_ENOTFOUND, with the
// reason, if it cannot.
typedef enum base_error kernels_cuda_opener(const struct kernels **table, char *description, size_t capacity,
                                            struct base_reason *why);
BASE_CHECK kernels_cuda_opener kernels_cuda_open;

// The tables, without `host` and `coding`, which registry.c adds; and their parts.
extern const struct kernels kernels_cuda_table, kernels_cuda_table_bf16;
typedef void kernels_cuda_product(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                                  float alpha, const float *a, const float *b, float beta, float *c);
kernels_cuda_product kernels_cuda_gemm, kernels_cuda_gemm_bf16;
extern const struct kernels_select kernels_cuda_select;
extern const struct kernels_values kernels_cuda_values;
extern const struct kernels_apply kernels_cuda_apply;
extern const struct kernels_image kernels_cuda_image, kernels_cuda_image_bf16;
extern const struct kernels_sequence kernels_cuda_sequence;
extern const struct kernels_decoder kernels_cuda_decoder; // activations in bf16
extern const struct kernels_vectors kernels_cuda_vectors;

#endif
