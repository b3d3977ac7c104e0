// The device runtime as used by the functions of the table. A call that the device refuses stops
// the process with the driver's message.
#ifndef KERNELS_CUDA_MEMORY_H
#define KERNELS_CUDA_MEMORY_H

#include <stddef.h>

// Members of the table.
void *kernels_cuda_alloc(size_t bytes); // zeroed; NULL when out of memory
void kernels_cuda_release(void *memory);
void kernels_cuda_wait(void);

// Temporary memory of the device for one call, 256-byte aligned, with any contents: kept and grown. Between
// begin and end no other thread has it.
void *kernels_cuda_begin(size_t bytes);
void kernels_cuda_end(void);
// The same for the factors of one product, which may lie within a call. Between begin and end no other thread
// launches what reads them.
void *kernels_cuda_factors_begin(size_t bytes);
void kernels_cuda_factors_end(void);
// Bytes that a call should not ask for where it can do its work in parts.
size_t kernels_cuda_temporary_max(void);

// The caller's memory on one side. Both wait for what was launched before.
void kernels_cuda_upload(void *to_device, const void *from_host, size_t bytes);
void kernels_cuda_download(void *to_host, const void *from_device, size_t bytes);
void kernels_cuda_clear(void *device, size_t bytes);              // to zeros
void kernels_cuda_copy(void *to, const void *from, size_t bytes); // on the device
void kernels_cuda_launched(const char *what);                     // after each launch

// How many blocks keep the whole device busy.
unsigned kernels_cuda_blocks(void);

#endif
