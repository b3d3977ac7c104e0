// A decoder's operations between its products, with activations in bf16: LayerNorm, sums of columns, and what
// follows a product if cuBLAS has no kernel that includes it. Sums are fp32, in a fixed order.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"

#include <math.h>

#define LAYERNORM_EPSILON 1e-5f

// A thread keeps up to KEPT groups of 4 columns of its row: 4 lane + 128 group and the following ones. Wider
// rows, and rows that are not made of aligned fours, take the loops of layernorm.cu's kind.
#define KEPT 8u
#define WIDE (4u * WARP) // columns of a group

struct four {
    float at[4];
};

DEVICE struct four load_four(const float *x)
{
    const float4 v = *(const float4 *)x;
    struct four f;
    f.at[0] = v.x;
    f.at[1] = v.y;
    f.at[2] = v.z;
    f.at[3] = v.w;
    return f;
}

DEVICE void store_four(float *to, const struct four *f)
{
    float4 v;
    v.x = f->at[0];
    v.y = f->at[1];
    v.z = f->at[2];
    v.w = f->at[3];
    *(float4 *)to = v;
}

DEVICE struct four load_four_bf16(const uint16_t *x)
{
    const uint64_t bits = *(const uint64_t *)x;
    struct four f;
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        f.at[i] = from_bf16((uint16_t)(bits >> 16 * i));
    }
    return f;
}

DEVICE void store_four_bf16(uint16_t *to, const struct four *f)
{
    uint64_t bits = 0;
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        bits |= (uint64_t)bf16_of(f->at[i]) << 16 * i;
    }
    *(uint64_t *)to = bits;
}

// --- LayerNorm ---

struct norm_rows {
    size_t rows, cols;
    const float *x, *gain, *bias;
    uint16_t *out;
    float *mean, *inverse;
};

KERNEL(norm_fours_kernel, struct norm_rows, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index(), at = r * n.cols;
    struct four x[KEPT];
    float sum = 0.0f, squares = 0.0f;
    if (r >= n.rows) {
        return; // the whole warp
    }
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            x[g] = load_four(n.x + at + c);
            sum += x[g].at[0] + x[g].at[1] + (x[g].at[2] + x[g].at[3]);
        }
    }
    const float mean = warp_sum_f32(sum) / (float)n.cols;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        if (g * WIDE + 4 * lane_index() < n.cols) {
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                squares += (x[g].at[i] - mean) * (x[g].at[i] - mean);
            }
        }
    }
    const float inverse = 1.0f / sqrtf(warp_sum_f32(squares) / (float)n.cols + LAYERNORM_EPSILON);
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                x[g].at[i] = (x[g].at[i] - mean) * inverse * n.gain[c + i] + n.bias[c + i];
            }
            store_four_bf16(n.out + at + c, &x[g]);
        }
    }
    if (lane_index() == 0) {
        n.mean[r] = mean;
        n.inverse[r] = inverse;
    }
}

KERNEL(norm_kernel, struct norm_rows, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index();
    if (r >= n.rows) {
        return; // the whole warp
    }
    const float *x = n.x + r * n.cols;
    float sum = 0.0f, squares = 0.0f;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        sum += x[c];
    }
    const float mean = warp_sum_f32(sum) / (float)n.cols;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        squares += (x[c] - mean) * (x[c] - mean);
    }
    const float inverse = 1.0f / sqrtf(warp_sum_f32(squares) / (float)n.cols + LAYERNORM_EPSILON);
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        n.out[r * n.cols + c] = bf16_of((x[c] - mean) * inverse * n.gain[c] + n.bias[c]);
    }
    if (lane_index() == 0) {
        n.mean[r] = mean;
        n.inverse[r] = inverse;
    }
}

struct norm_gradient {
    size_t rows, cols;
    const uint16_t *grad;
    const float *x, *gain, *mean, *inverse;
    const float *skip; // may be grad_x, or NULL
    float *grad_x;
    float *parts; // [slabs][2][cols]
};

// What a thread adds over the rows of its warp: the gradients of gain and bias.
struct norm_sums {
    struct four gain[KEPT], bias[KEPT];
};

// One row: writes the gradient of x.
DEVICE void norm_row_backward(const struct norm_gradient *n, size_t r, struct norm_sums *sums)
{
    const float mean = n->mean[r], inverse = n->inverse[r];
    struct four normal[KEPT], grad[KEPT]; // grad: times gain
    float sum = 0.0f, sum_x = 0.0f;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n->cols) {
            normal[g] = load_four(n->x + r * n->cols + c);
            grad[g] = load_four_bf16(n->grad + r * n->cols + c);
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                normal[g].at[i] = (normal[g].at[i] - mean) * inverse;
                sums->gain[g].at[i] += grad[g].at[i] * normal[g].at[i];
                sums->bias[g].at[i] += grad[g].at[i];
                grad[g].at[i] *= n->gain[c + i];
                sum += grad[g].at[i];
                sum_x += grad[g].at[i] * normal[g].at[i];
            }
        }
    }
    const float level = warp_sum_f32(sum) / (float)n->cols, slope = warp_sum_f32(sum_x) / (float)n->cols;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n->cols) {
            struct four to = {{0.0f, 0.0f, 0.0f, 0.0f}};
            if (n->skip != NULL) {
                to = load_four(n->skip + r * n->cols + c);
            }
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                to.at[i] += inverse * (grad[g].at[i] - level - normal[g].at[i] * slope);
            }
            store_four(n->grad_x + r * n->cols + c, &to);
        }
    }
}

// parts[at] becomes the sum over the warps of their numbers for each column.
DEVICE void add_warps(const struct norm_gradient *n, const struct four mine[KEPT], float *of_warps, size_t at)
{
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n->cols) {
            store_four(of_warps + warp_index() * (KEPT * WIDE) + c, &mine[g]);
        }
    }
    block_barrier();
    for (size_t c = thread_index(); c < n->cols; c += THREADS) {
        float sum = 0.0f;
        for (unsigned w = 0; w < WARPS; w++) {
            sum += of_warps[w * (KEPT * WIDE) + c];
        }
        n->parts[at * n->cols + c] = sum;
    }
    block_barrier();
}

// A block has a slab of rows; its warps take them in turn.
KERNEL(norm_backward_fours_kernel, struct norm_gradient, n)
{
    SHARED(float4, of_warps, WARPS * KEPT * WIDE / 4);
    const size_t first = (size_t)block_index() * KERNELS_CUDA_SLAB;
    const size_t end = first + KERNELS_CUDA_SLAB < n.rows ? first + KERNELS_CUDA_SLAB : n.rows;
    struct norm_sums sums;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            sums.gain[g].at[i] = 0.0f;
            sums.bias[g].at[i] = 0.0f;
        }
    }
    for (size_t r = first + warp_index(); r < end; r += WARPS) {
        norm_row_backward(&n, r, &sums);
    }
    add_warps(&n, sums.gain, (float *)of_warps, 2 * (size_t)block_index());
    add_warps(&n, sums.bias, (float *)of_warps, 2 * (size_t)block_index() + 1);
}

KERNEL(norm_backward_kernel, struct norm_gradient, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index(), at = r * n.cols;
    if (r >= n.rows) {
        return; // the whole warp
    }
    const float *x = n.x + at, mean = n.mean[r], inverse = n.inverse[r];
    float sum = 0.0f, sum_x = 0.0f;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float g = from_bf16(n.grad[at + c]) * n.gain[c];
        sum += g;
        sum_x += g * ((x[c] - mean) * inverse);
    }
    const float level = warp_sum_f32(sum) / (float)n.cols, slope = warp_sum_f32(sum_x) / (float)n.cols;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float normal = (x[c] - mean) * inverse, base = n.skip != NULL ? n.skip[at + c] : 0.0f;
        n.grad_x[at + c] = base + inverse * (from_bf16(n.grad[at + c]) * n.gain[c] - level - normal * slope);
    }
}

KERNEL(norm_parts_kernel, struct norm_gradient, n)
{
    const size_t first = (size_t)block_index() * KERNELS_CUDA_SLAB;
    const size_t end = first + KERNELS_CUDA_SLAB < n.rows ? first + KERNELS_CUDA_SLAB : n.rows;
    for (size_t c = thread_index(); c < n.cols; c += THREADS) {
        float gain = 0.0f, bias = 0.0f;
        for (size_t r = first; r < end; r++) {
            const float g = from_bf16(n.grad[r * n.cols + c]);
            gain += g * ((n.x[r * n.cols + c] - n.mean[r]) * n.inverse[r]);
            bias += g;
        }
        n.parts[2 * (size_t)block_index() * n.cols + c] = gain;
        n.parts[(2 * (size_t)block_index() + 1) * n.cols + c] = bias;
    }
}

// --- sums of columns ---

struct bf16_columns {
    size_t rows, cols, tiles; // tiles of columns
    const uint16_t *z;
    float *sum; // [slabs][cols]
};

DEVICE void add_two(const struct bf16_columns *s, size_t r, size_t c, float sum[2])
{
    if (s->cols % 2 == 0) { // rows begin at a multiple of 4 bytes
        const uint32_t both = *(const uint32_t *)(s->z + r * s->cols + c);
        sum[0] += from_bf16((uint16_t)both);
        sum[1] += from_bf16((uint16_t)(both >> 16));
        return;
    }
    sum[0] += from_bf16(s->z[r * s->cols + c]);
    sum[1] += c + 1 < s->cols ? from_bf16(s->z[r * s->cols + c + 1]) : 0.0f;
}

// As column_sum_kernel in train.cu, with two columns a thread.
KERNEL(bf16_column_sum_kernel, struct bf16_columns, s)
{
    SHARED(float, part, 2 * THREADS);
    const size_t slab = block_index() / s.tiles;
    const size_t c = block_index() % s.tiles * (2 * WARP) + 2 * lane_index(),
                 first = slab * KERNELS_CUDA_SLAB;
    const size_t end = first + KERNELS_CUDA_SLAB < s.rows ? first + KERNELS_CUDA_SLAB : s.rows;
    float sum[2] = {0.0f, 0.0f};
    for (size_t r = first + warp_index(); r < end && c < s.cols; r += WARPS) {
        add_two(&s, r, c, sum);
    }
    part[2 * thread_index()] = sum[0];
    part[2 * thread_index() + 1] = sum[1];
    block_barrier();
    for (unsigned i = 0; i < 2 && warp_index() == 0 && c + i < s.cols; i++) {
        for (unsigned w = 1; w < WARPS; w++) {
            sum[i] += part[2 * (w * WARP + lane_index()) + i];
        }
        s.sum[slab * s.cols + c + i] = sum[i];
    }
}

// --- after a product ---

struct after_product {
    size_t count;
    uint32_t cols;
    const float *bias;
    uint16_t *z, *out;
};

KERNEL(bf16_bias_kernel, struct after_product, a)
{
    EACH(i, a.count)
    {
        a.z[i] = bf16_of(from_bf16(a.z[i]) + a.bias[(uint32_t)i % a.cols]);
    }
}

#define BF16_GELU_LINEAR 1.59576912f // as in sequence.cu
#define BF16_GELU_CUBIC  0.0713548163f

DEVICE float gelu_share(float z)
{
    const float t = z * (BF16_GELU_LINEAR + BF16_GELU_CUBIC * (z * z)), e = expf(-fabsf(t));
    return (t < 0.0f ? e : 1.0f) / (1.0f + e);
}

KERNEL(bf16_bias_gelu_kernel, struct after_product, a)
{
    EACH(i, a.count)
    {
        const float z = from_bf16(a.z[i]) + a.bias[(uint32_t)i % a.cols];
        a.z[i] = bf16_of(z);
        a.out[i] = bf16_of(z * gelu_share(z));
    }
}

// z: what the GELU took; out: the gradient.
KERNEL(bf16_gelu_backward_kernel, struct after_product, a)
{
    EACH(i, a.count)
    {
        const float z = from_bf16(a.z[i]), share = gelu_share(z);
        const float slope =
            share + z * (share * (1.0f - share)) * (BF16_GELU_LINEAR + 3.0f * BF16_GELU_CUBIC * (z * z));
        a.out[i] = bf16_of(from_bf16(a.out[i]) * slope);
    }
}

// --- launches ---

static int fours(size_t cols, const void *a, const void *b, const void *c)
{
    return cols % 4 == 0 && cols <= KEPT * WIDE && (uintptr_t)a % 16 == 0 && (uintptr_t)b % 16 == 0 &&
           (uintptr_t)c % 16 == 0;
}

void kernels_cuda_layernorm_bf16(size_t rows, size_t cols, const float *x, const float *gain,
                                 const float *bias, uint16_t *out, float *mean, float *inverse)
{
    const struct norm_rows n = {rows, cols, x, gain, bias, out, mean, inverse};
    const unsigned blocks = (unsigned)((rows + WARPS - 1) / WARPS);
    if (fours(cols, x, out, NULL)) {
        LAUNCH(norm_fours_kernel, blocks, n);
    } else {
        LAUNCH(norm_kernel, blocks, n);
    }
}

void kernels_cuda_layernorm_backward_bf16(size_t rows, size_t cols, const uint16_t *grad, const float *x,
                                          const float *gain, const float *mean, const float *inverse,
                                          const float *skip, float *grad_x, float *parts)
{
    const struct norm_gradient n = {rows, cols, grad, x, gain, mean, inverse, skip, grad_x, parts};
    const unsigned slabs = (unsigned)((rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB);
    if (fours(cols, x, skip, grad_x) && (uintptr_t)grad % 8 == 0) {
        LAUNCH(norm_backward_fours_kernel, slabs, n);
    } else {
        LAUNCH(norm_parts_kernel, slabs, n);
        LAUNCH(norm_backward_kernel, (unsigned)((rows + WARPS - 1) / WARPS), n);
    }
}

void kernels_cuda_column_sum_bf16(size_t rows, size_t cols, const uint16_t *z, float *parts, float *sum)
{
    const size_t slabs = (rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB;
    const size_t tiles = (cols + 2 * WARP - 1) / (2 * WARP);
    const struct bf16_columns s = {rows, cols, tiles, z, slabs > 1 ? parts : sum};
    LAUNCH(bf16_column_sum_kernel, (unsigned)(tiles * slabs), s);
    if (slabs > 1) {
        kernels_cuda_column_sum(slabs, cols, parts, parts + slabs * cols, sum);
    }
}

void kernels_cuda_bias_bf16(size_t rows, size_t cols, const float *bias, uint16_t *z)
{
    const struct after_product a = {rows * cols, (uint32_t)cols, bias, z, NULL};
    LAUNCH(bf16_bias_kernel, grid_for(a.count), a);
}

void kernels_cuda_bias_gelu_bf16(size_t rows, size_t cols, const float *bias, uint16_t *z, uint16_t *out)
{
    const struct after_product a = {rows * cols, (uint32_t)cols, bias, z, out};
    LAUNCH(bf16_bias_gelu_kernel, grid_for(a.count), a);
}

void kernels_cuda_gelu_backward_bf16(size_t count, const uint16_t *z, uint16_t *grad)
{
    const struct after_product a = {count, 1, NULL, (uint16_t *)z, grad};
    LAUNCH(bf16_gelu_backward_kernel, grid_for(count), a);
}
