// fp32 to bf16, for the factors of products.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

struct narrowing {
    size_t count;
    const float *from;
    uint16_t *to;
};

KERNEL(to_bf16_kernel, struct narrowing, n)
{
    EACH(i, n.count)
    {
        const uint32_t bits = bits_of(n.from[i]);
        const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        const int nan = (bits & MAGNITUDE_BITS) > 0x7f800000u; // a NaN: its upper half may be 0 or overflow
        n.to[i] = (uint16_t)(nan ? bits >> 16 | 0x40u : rounded);
    }
}

void kernels_cuda_to_bf16(size_t count, const float *from, uint16_t *to)
{
    const struct narrowing n = {count, from, to};
    LAUNCH(to_bf16_kernel, grid_for(count), n);
}
