// The CUDA backend inside kernels/: cuBLAS and our own kernels (kernels.cu) behind the common table. One
// device, one stream, one thread at a time.
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include "kernels/kernels.h"

// The one symbol that registry.c takes from the module. It opens the first device that answers;
// BASE_ENOTFOUND with the reason where none does.
typedef enum base_error kernels_cuda_opener(const struct kernels **table, char *description, size_t capacity,
                                            struct base_reason *why);
BASE_CHECK kernels_cuda_opener kernels_cuda_open;

#endif
