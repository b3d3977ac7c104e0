// What writing and reading values share on the device.
#ifndef KERNELS_CUDA_FORMATS_H
#define KERNELS_CUDA_FORMATS_H

#include "kernels/cuda/elements.h"
#include "kernels/int4.h"
#include "kernels/values.h"

#define BLOCK    KERNELS_VALUES_BLOCK
#define NORMAL   0x00800000u
#define INFINITE 0x7f800000u

DEVICE float half_to(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    const float small = (float)magnitude * (1.0f / 16777216.0f); // exact
    return float_of((magnitude < 0x400u ? bits_of(small) : (magnitude << 13) + (112u << 23)) | sign);
}

DEVICE float int4_level(float low, float high, uint32_t m)
{
    const float place[KERNELS_INT4_LEVELS] = KERNELS_INT4_PLACES;
    return m < KERNELS_INT4_LEVELS - 1 ? low + (high - low) * place[m] : high;
}

static unsigned blocks_of(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 4096 ? blocks : 4096);
}

#endif
