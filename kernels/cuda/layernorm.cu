// LayerNorm: a warp has a row, forward and for the gradient of x; the gradients of gain and bias are sums
// over slabs of rows, as in column_sum (train.cu).
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm.h"

struct layernorm_rows {
    size_t rows, cols;
    const float *x, *gain, *bias;
    float *out, *mean, *inverse;
};

KERNEL(layernorm_kernel, struct layernorm_rows, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index();
    if (r >= n.rows)
        return; // the whole warp
    const float *x = n.x + r * n.cols;
    const struct row_level level = row_level_of(x, n.cols);
    for (size_t c = lane_index(); c < n.cols; c += WARP)
        n.out[r * n.cols + c] = (x[c] - level.mean) * level.inverse * n.gain[c] + n.bias[c];
    if (lane_index() == 0) {
        n.mean[r] = level.mean;
        n.inverse[r] = level.inverse;
    }
}

struct layernorm_gradient {
    size_t rows, cols, tiles; // tiles of columns
    const float *grad, *x, *gain, *mean, *inverse;
    const float *skip; // may be `to`, or NULL
    float *to;         // the gradient of x, or the parts
};

KERNEL(layernorm_backward_kernel, struct layernorm_gradient, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index(), at = r * n.cols;
    if (r >= n.rows)
        return; // the whole warp
    const float *x = n.x + at, *grad = n.grad + at, mean = n.mean[r], inverse = n.inverse[r];
    float sum = 0.0f, sum_x = 0.0f;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float g = grad[c] * n.gain[c];
        sum += g;
        sum_x += g * ((x[c] - mean) * inverse);
    }
    const float level = warp_sum_f32(sum) / (float)n.cols, slope = warp_sum_f32(sum_x) / (float)n.cols;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float normal = (x[c] - mean) * inverse, base = n.skip ? n.skip[at + c] : 0.0f;
        n.to[at + c] = base + inverse * (grad[c] * n.gain[c] - level - normal * slope);
    }
}

// A block adds one slab of rows for as many columns as a warp has threads.
KERNEL(layernorm_parts_kernel, struct layernorm_gradient, n)
{
    SHARED(float, of_gain, THREADS);
    SHARED(float, of_bias, THREADS);
    const size_t slab = block_index() / n.tiles, c = block_index() % n.tiles * WARP + lane_index();
    const size_t first = slab * KERNELS_CUDA_SLAB;
    const size_t end = first + KERNELS_CUDA_SLAB < n.rows ? first + KERNELS_CUDA_SLAB : n.rows;
    float gain = 0.0f, bias = 0.0f;
    for (size_t r = first + warp_index(); r < end && c < n.cols; r += WARPS) {
        const float g = n.grad[r * n.cols + c];
        gain += g * ((n.x[r * n.cols + c] - n.mean[r]) * n.inverse[r]);
        bias += g;
    }
    of_gain[thread_index()] = gain;
    of_bias[thread_index()] = bias;
    block_barrier();
    if (warp_index() == 0 && c < n.cols) {
        for (unsigned w = 1; w < WARPS; w++) {
            gain += of_gain[w * WARP + lane_index()];
            bias += of_bias[w * WARP + lane_index()];
        }
        n.to[2 * slab * n.cols + c] = gain;
        n.to[(2 * slab + 1) * n.cols + c] = bias;
    }
}

void kernels_cuda_layernorm(size_t rows, size_t cols, const float *x, const float *gain, const float *bias,
                            float *out, float *mean, float *inverse)
{
    const struct layernorm_rows n = {rows, cols, x, gain, bias, out, mean, inverse};
    LAUNCH(layernorm_kernel, (unsigned)((rows + WARPS - 1) / WARPS), n);
}

void kernels_cuda_layernorm_backward(size_t rows, size_t cols, const float *grad, const float *x,
                                     const float *gain, const float *mean, const float *inverse,
                                     const float *skip, float *grad_x)
{
    const struct layernorm_gradient n = {rows, cols, 0, grad, x, gain, mean, inverse, skip, grad_x};
    LAUNCH(layernorm_backward_kernel, (unsigned)((rows + WARPS - 1) / WARPS), n);
}

void kernels_cuda_layernorm_parts(size_t rows, size_t cols, const float *grad, const float *x,
                                  const float *mean, const float *inverse, float *parts)
{
    const size_t tiles = (cols + WARP - 1) / WARP, slabs = (rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB;
    const struct layernorm_gradient n = {rows, cols, tiles, grad, x, NULL, mean, inverse, NULL, parts};
    LAUNCH(layernorm_parts_kernel, (unsigned)(tiles * slabs), n);
}
