// Conversions between fp32 and bf16, for the factors of products and for activations.
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
        n.to[i] = bf16_of(n.from[i]);
    }
}

DEVICE uint64_t four_bf16(float a, float b, float c, float d)
{
    return (uint64_t)bf16_of(a) | (uint64_t)bf16_of(b) << 16 | (uint64_t)bf16_of(c) << 32 |
           (uint64_t)bf16_of(d) << 48;
}

// `count`: groups of four.
KERNEL(fours_to_bf16_kernel, struct narrowing, n)
{
    EACH(i, n.count)
    {
        const float4 x = ((const float4 *)n.from)[i];
        ((uint64_t *)n.to)[i] = four_bf16(x.x, x.y, x.z, x.w);
    }
}

struct widening {
    size_t count;
    const uint16_t *from;
    float *to;
};

KERNEL(to_fp32_kernel, struct widening, w)
{
    EACH(i, w.count)
    {
        w.to[i] = from_bf16(w.from[i]);
    }
}

struct unpadding {
    size_t rows, stride;
    uint32_t cols;
    const uint16_t *from;
    float *to;
};

KERNEL(rows_to_fp32_kernel, struct unpadding, u)
{
    EACH(i, u.rows * u.cols)
    {
        u.to[i] = from_bf16(u.from[i / u.cols * u.stride + i % u.cols]);
    }
}

void kernels_cuda_to_bf16(size_t count, const float *from, uint16_t *to)
{
    if (count % 4 == 0 && (uintptr_t)from % sizeof(float4) == 0 && (uintptr_t)to % sizeof(uint64_t) == 0) {
        const struct narrowing fours = {count / 4, from, to};
        LAUNCH(fours_to_bf16_kernel, grid_for(fours.count), fours);
    } else {
        const struct narrowing n = {count, from, to};
        LAUNCH(to_bf16_kernel, grid_for(count), n);
    }
}

void kernels_cuda_to_fp32(size_t count, const uint16_t *from, float *to)
{
    const struct widening w = {count, from, to};
    LAUNCH(to_fp32_kernel, grid_for(count), w);
}

void kernels_cuda_rows_to_fp32(size_t rows, size_t cols, size_t stride, const uint16_t *from, float *to)
{
    const struct unpadding u = {rows, stride, (uint32_t)cols, from, to};
    LAUNCH(rows_to_fp32_kernel, grid_for(rows * cols), u);
}
