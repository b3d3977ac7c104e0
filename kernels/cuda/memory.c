// Temporary memory, copies, and errors of the device.
#include "kernels/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// One thread at a time has it; it is kept and grows.
struct temporary {
    pthread_mutex_t lock;
    void *memory;
    size_t bytes;
};
static struct temporary of_call = {.lock = PTHREAD_MUTEX_INITIALIZER},
                        of_product = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void must(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        (void)fprintf(stderr, "CUDA: %s failed: %s\n", what, cudaGetErrorString(status));
        abort();
    }
}

static void *begin(struct temporary *t, size_t bytes)
{
    if (pthread_mutex_lock(&t->lock) != 0)
        abort();
    if (bytes > t->bytes) {
        must(cudaFree(t->memory), "releasing temporary memory");
        must(cudaMalloc(&t->memory, bytes), "allocating temporary memory");
        t->bytes = bytes;
    }
    return t->memory;
}

static void end(struct temporary *t)
{
    if (pthread_mutex_unlock(&t->lock) != 0)
        abort();
}

void *kernels_cuda_begin(size_t bytes)
{
    return begin(&of_call, bytes);
}

void kernels_cuda_end(void)
{
    end(&of_call);
}

void *kernels_cuda_factors_begin(size_t bytes)
{
    return begin(&of_product, bytes);
}

void kernels_cuda_factors_end(void)
{
    end(&of_product);
}

size_t kernels_cuda_temporary_max(void)
{
    return (size_t)64 << 20;
}

void *kernels_cuda_alloc(size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) {
        (void)cudaGetLastError(); // out of memory is not sticky; the caller handles it
        return NULL;
    }
    must(cudaMemset(memory, 0, bytes), "clearing memory");
    return memory;
}

void kernels_cuda_release(void *memory)
{
    must(cudaFree(memory), "releasing memory");
}

void kernels_cuda_upload(void *to_device, const void *from_host, size_t bytes)
{
    must(cudaMemcpy(to_device, from_host, bytes, cudaMemcpyHostToDevice), "upload");
}

void kernels_cuda_download(void *to_host, const void *from_device, size_t bytes)
{
    must(cudaMemcpy(to_host, from_device, bytes, cudaMemcpyDeviceToHost), "download");
}

void kernels_cuda_clear(void *device, size_t bytes)
{
    must(cudaMemsetAsync(device, 0, bytes, NULL), "clearing memory");
}

void kernels_cuda_copy(void *to, const void *from, size_t bytes)
{
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL), "copying on the device");
}

void kernels_cuda_wait(void)
{
    must(cudaDeviceSynchronize(), "a kernel");
}

void kernels_cuda_launched(const char *what)
{
    must(cudaGetLastError(), what);
}

// 8 blocks of 256 threads fill a multiprocessor of any device so far.
unsigned kernels_cuda_blocks(void)
{
    int processors = 0, device = 0;
    must(cudaGetDevice(&device), "asking for the device");
    must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
         "counting its processors");
    return 8 * (unsigned)processors;
}
