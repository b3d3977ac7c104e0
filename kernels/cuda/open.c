// The device: CUDA device 0, with cuBLAS on it.
#include "kernels/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "kernels/cuda/blas.h"

static enum base_error open_device(struct base_reason *why)
{
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0) {
        return base_fail(why, BASE_ENOTFOUND,
                         "no CUDA device answers (%s); install the driver or use device 'cpu'",
                         status != cudaSuccess ? cudaGetErrorString(status) : "none found");
    }
    status = cudaSetDevice(0);
    if (status != cudaSuccess) {
        return base_fail(why, BASE_ENOTFOUND, "CUDA device 0 cannot be used (%s); is its memory in use?",
                         cudaGetErrorString(status));
    }
    return BASE_OK;
}

enum base_error kernels_cuda_open(const struct kernels **table, char *description, size_t capacity,
                                  struct base_reason *why)
{
    int version = 0;
    enum base_error error = open_device(why);
    if (!error)
        error = kernels_cuda_blas_start(&version, why);
    if (error)
        return error;
    struct cudaDeviceProp device;
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess)
        return base_fail(why, BASE_ENOTFOUND, "CUDA device 0 cannot be queried; use device 'cpu'");
    (void)snprintf(description, capacity, "cuda: %s, sm_%d%d, cuBLAS %d.%d.%d", device.name, device.major,
                   device.minor, version / 10000, version / 100 % 100, version % 100);
    static struct kernels opened;
    opened = kernels_cuda_table;
    opened.bf16 = device.major >= 8 ? opened.bf16 : NULL; // older devices do not multiply bf16
    *table = &opened;
    return BASE_OK;
}
