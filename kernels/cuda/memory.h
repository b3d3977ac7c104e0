// The device runtime as used by the functions of the table. If the device refuses a call, the process ends
// with the driver's message.
#ifndef KERNELS_CUDA_MEMORY_H
#define KERNELS_CUDA_MEMORY_H

#include <stddef.h>

// Members of the table.
void *kernels_cuda_alloc(size_t bytes); // zeroed; NULL when out of memory
void kernels_cuda_release(void *memory);
void kernels_cuda_wait(void);

// Temporary device memory for one call, 256-byte aligned, with undefined contents; it is kept and grows.
// Between begin and end no other thread has it.
void *kernels_cuda_begin(size_t bytes);
void kernels_cuda_end(void);
// The same for the factors of one product, which may happen within such a call. Between begin and end no
// other thread launches a kernel that reads them.
void *kernels_cuda_factors_begin(size_t bytes);
void kernels_cuda_factors_end(void);
// The most bytes that a call should ask for if it can do its work in parts.
size_t kernels_cuda_temporary_max(void);

// Copies between device memory and the caller's memory. Both functions wait for earlier launches.
void kernels_cuda_upload(void *to_device, const void *from_host, size_t bytes);
void kernels_cuda_download(void *to_host, const void *from_device, size_t bytes);
void kernels_cuda_clear(void *device, size_t bytes);              // to zeros
void kernels_cuda_copy(void *to, const void *from, size_t bytes); // on the device
void kernels_cuda_launched(const char *what);                     // after each launch

// The number of blocks that keep the whole device busy.
unsigned kernels_cuda_blocks(void);

#endif
