// A decoder's operations between its products, with activations in bf16: LayerNorm, sums of columns, and what
// follows a product if cuBLAS has no kernel that includes it. Sums are fp32, in a fixed order.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/gelu.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/softmax.h"

// A thread keeps up to KEPT groups of 4 columns of its row: 4 lane + 128 group and the following ones. Wider
// rows, and rows that do not consist of aligned fours, are handled by loops like those of layernorm.cu.
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
    for (unsigned i = 0; i < 4; i++)
        f.at[i] = from_bf16((uint16_t)(bits >> 16 * i));
    return f;
}

DEVICE void store_four_bf16(uint16_t *to, const struct four *f)
{
    uint64_t bits = 0;
    UNROLL
    for (unsigned i = 0; i < 4; i++)
        bits |= (uint64_t)bf16_of(f->at[i]) << 16 * i;
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
    if (r >= n.rows)
        return; // the whole warp
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
            for (unsigned i = 0; i < 4; i++)
                squares += (x[g].at[i] - mean) * (x[g].at[i] - mean);
        }
    }
    const float inverse = 1.0f / sqrtf(warp_sum_f32(squares) / (float)n.cols + LAYERNORM_EPSILON);
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            UNROLL
            for (unsigned i = 0; i < 4; i++)
                x[g].at[i] = (x[g].at[i] - mean) * inverse * n.gain[c + i] + n.bias[c + i];
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
    if (r >= n.rows)
        return; // the whole warp
    const float *x = n.x + r * n.cols;
    const struct row_level level = row_level_of(x, n.cols);
    for (size_t c = lane_index(); c < n.cols; c += WARP)
        n.out[r * n.cols + c] = bf16_of((x[c] - level.mean) * level.inverse * n.gain[c] + n.bias[c]);
    if (lane_index() == 0) {
        n.mean[r] = level.mean;
        n.inverse[r] = level.inverse;
    }
}

struct norm_gradient {
    size_t rows, cols, tiles; // tiles of columns
    const uint16_t *grad;
    const float *x, *gain, *mean, *inverse;
    const float *skip; // may be grad_x, or NULL
    float *grad_x;
    float *parts; // [slabs][2][cols]
};

KERNEL(norm_backward_fours_kernel, struct norm_gradient, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index(), at = r * n.cols;
    if (r >= n.rows)
        return; // the whole warp
    const float mean = n.mean[r], inverse = n.inverse[r];
    struct four normal[KEPT], grad[KEPT], to[KEPT]; // grad: times gain
    float sum = 0.0f, sum_x = 0.0f;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) { // everything is read before the sums are waited for
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            normal[g] = load_four(n.x + at + c);
            grad[g] = load_four_bf16(n.grad + at + c);
            if (n.skip)
                to[g] = load_four(n.skip + at + c);
        }
    }
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                normal[g].at[i] = (normal[g].at[i] - mean) * inverse;
                grad[g].at[i] *= n.gain[c + i];
                sum += grad[g].at[i];
                sum_x += grad[g].at[i] * normal[g].at[i];
            }
        }
    }
    const float level = warp_sum_f32(sum) / (float)n.cols, slope = warp_sum_f32(sum_x) / (float)n.cols;
    UNROLL
    for (unsigned g = 0; g < KEPT; g++) {
        const size_t c = g * WIDE + 4 * lane_index();
        if (c < n.cols) {
            UNROLL
            for (unsigned i = 0; i < 4; i++) {
                const float base = n.skip ? to[g].at[i] : 0.0f;
                to[g].at[i] = base + inverse * (grad[g].at[i] - level - normal[g].at[i] * slope);
            }
            store_four(n.grad_x + at + c, &to[g]);
        }
    }
}

KERNEL(norm_backward_kernel, struct norm_gradient, n)
{
    const size_t r = (size_t)block_index() * WARPS + warp_index(), at = r * n.cols;
    if (r >= n.rows)
        return; // the whole warp
    const float *x = n.x + at, mean = n.mean[r], inverse = n.inverse[r];
    float sum = 0.0f, sum_x = 0.0f;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float g = from_bf16(n.grad[at + c]) * n.gain[c];
        sum += g;
        sum_x += g * ((x[c] - mean) * inverse);
    }
    const float level = warp_sum_f32(sum) / (float)n.cols, slope = warp_sum_f32(sum_x) / (float)n.cols;
    for (size_t c = lane_index(); c < n.cols; c += WARP) {
        const float normal = (x[c] - mean) * inverse, base = n.skip ? n.skip[at + c] : 0.0f;
        n.grad_x[at + c] = base + inverse * (from_bf16(n.grad[at + c]) * n.gain[c] - level - normal * slope);
    }
}

// --- sums of columns ---

// A block has a slab of rows and two columns for each lane; its warps take the rows in turn.
struct slab_place {
    size_t slab, column, first, end; // rows first .. end - 1
};

DEVICE struct slab_place slab_place_of(size_t tiles, size_t rows)
{
    struct slab_place p;
    p.slab = block_index() / tiles;
    p.column = block_index() % tiles * (2 * WARP) + 2 * lane_index();
    p.first = p.slab * KERNELS_CUDA_SLAB;
    p.end = p.first + KERNELS_CUDA_SLAB < rows ? p.first + KERNELS_CUDA_SLAB : rows;
    return p;
}

DEVICE void load_two_bf16(const uint16_t *row, size_t column, size_t cols, float to[2])
{
    if (cols % 2 == 0) { // rows begin at a multiple of 4 bytes
        const uint32_t both = *(const uint32_t *)(row + column);
        to[0] = from_bf16((uint16_t)both);
        to[1] = from_bf16((uint16_t)(both >> 16));
        return;
    }
    to[0] = from_bf16(row[column]);
    to[1] = column + 1 < cols ? from_bf16(row[column + 1]) : 0.0f;
}

// to[column ..] becomes the sums over the warps.
DEVICE void store_two_sums(const float sum[2], float *part, size_t column, size_t cols, float *to)
{
    part[2 * thread_index()] = sum[0];
    part[2 * thread_index() + 1] = sum[1];
    block_barrier();
    for (unsigned i = 0; i < 2 && warp_index() == 0 && column + i < cols; i++) {
        float all = sum[i];
        for (unsigned w = 1; w < WARPS; w++)
            all += part[2 * (w * WARP + lane_index()) + i];
        to[column + i] = all;
    }
    block_barrier();
}

KERNEL(norm_parts_kernel, struct norm_gradient, n)
{
    SHARED(float, part, 2 * THREADS);
    const struct slab_place p = slab_place_of(n.tiles, n.rows);
    float gain[2] = {0.0f, 0.0f}, bias[2] = {0.0f, 0.0f};
    for (size_t r = p.first + warp_index(); r < p.end && p.column < n.cols; r += WARPS) {
        const float *x = n.x + r * n.cols + p.column, mean = n.mean[r], inverse = n.inverse[r];
        float grad[2];
        load_two_bf16(n.grad + r * n.cols, p.column, n.cols, grad);
        UNROLL
        for (unsigned i = 0; i < 2; i++) {
            if (p.column + i < n.cols) {
                gain[i] += grad[i] * ((x[i] - mean) * inverse);
                bias[i] += grad[i];
            }
        }
    }
    store_two_sums(gain, part, p.column, n.cols, n.parts + 2 * p.slab * n.cols);
    store_two_sums(bias, part, p.column, n.cols, n.parts + (2 * p.slab + 1) * n.cols);
}

struct bf16_columns {
    size_t rows, cols, tiles; // tiles of columns
    const uint16_t *z;
    float *sum; // [slabs][cols]
};

KERNEL(bf16_column_sum_kernel, struct bf16_columns, s)
{
    SHARED(float, part, 2 * THREADS);
    const struct slab_place p = slab_place_of(s.tiles, s.rows);
    float sum[2] = {0.0f, 0.0f};
    for (size_t r = p.first + warp_index(); r < p.end && p.column < s.cols; r += WARPS) {
        float z[2];
        load_two_bf16(s.z + r * s.cols, p.column, s.cols, z);
        sum[0] += z[0];
        sum[1] += z[1];
    }
    store_two_sums(sum, part, p.column, s.cols, s.sum + p.slab * s.cols);
}

// --- softmax and cross entropy ---

struct bf16_softmax {
    size_t cols, stride;
    uint16_t *logits;
    const uint32_t *labels;
    float scale;
    struct kernels_cuda_loss *row_losses;
};

DEVICE struct row_part bf16_row_part(const uint16_t *z, size_t cols)
{
    struct row_part p = row_part_of_none();
    for (size_t c = 4 * thread_index(); c < cols; c += 4 * THREADS) {
        struct four x = load_four_bf16(z + c);
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            x.at[i] = c + i < cols ? x.at[i] : -INFINITY;
        row_part_add(&p, x.at, c, 1);
    }
    return p;
}

// One block a row, as softmax_kernel in train.cu.
KERNEL(bf16_softmax_kernel, struct bf16_softmax, s)
{
    uint16_t *z = s.logits + (size_t)block_index() * s.stride;
    const size_t label = s.labels[block_index()];
    const float of_label = from_bf16(z[label]);
    const struct row_part mine = bf16_row_part(z, s.cols), row = row_part_of_block(&mine);
    const float factor = s.scale / row.sum;
    for (size_t c = 4 * thread_index(); c < s.stride; c += 4 * THREADS) {
        struct four x = load_four_bf16(z + c);
        UNROLL
        for (unsigned i = 0; i < 4; i++) {
            const float grad = expf(x.at[i] - row.max) * factor - (c + i == label ? s.scale : 0.0f);
            x.at[i] = c + i < s.cols ? grad : 0.0f;
        }
        store_four_bf16(z + c, &x);
    }
    if (thread_index() == 0)
        row_loss(&s.row_losses[block_index()], &row, of_label, label);
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
        a.out[i] = bf16_of(from_bf16(a.out[i]) * gelu_slope(z, share));
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
    if (fours(cols, x, out, NULL))
        LAUNCH(norm_fours_kernel, blocks, n);
    else
        LAUNCH(norm_kernel, blocks, n);
}

void kernels_cuda_layernorm_backward_bf16(size_t rows, size_t cols, const uint16_t *grad, const float *x,
                                          const float *gain, const float *mean, const float *inverse,
                                          const float *skip, float *grad_x, float *parts)
{
    const size_t tiles = (cols + 2 * WARP - 1) / (2 * WARP),
                 slabs = (rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB;
    const struct norm_gradient n = {rows, cols, tiles, grad, x, gain, mean, inverse, skip, grad_x, parts};
    const unsigned blocks = (unsigned)((rows + WARPS - 1) / WARPS);
    LAUNCH(norm_parts_kernel, (unsigned)(tiles * slabs), n);
    if (fours(cols, x, skip, grad_x) && (uintptr_t)grad % 8 == 0)
        LAUNCH(norm_backward_fours_kernel, blocks, n);
    else
        LAUNCH(norm_backward_kernel, blocks, n);
}

void kernels_cuda_column_sum_bf16(size_t rows, size_t cols, const uint16_t *z, float *parts, float *sum)
{
    const size_t slabs = (rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB;
    const size_t tiles = (cols + 2 * WARP - 1) / (2 * WARP);
    const struct bf16_columns s = {rows, cols, tiles, z, slabs > 1 ? parts : sum};
    LAUNCH(bf16_column_sum_kernel, (unsigned)(tiles * slabs), s);
    if (slabs > 1)
        kernels_cuda_column_sum(slabs, cols, parts, parts + slabs * cols, sum);
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

void kernels_cuda_softmax_bf16(size_t rows, size_t cols, size_t stride, uint16_t *logits,
                               const uint32_t *labels, float scale, struct kernels_cuda_loss *row_losses)
{
    const struct bf16_softmax s = {cols, stride, logits, labels, scale, row_losses};
    LAUNCH(bf16_softmax_kernel, (unsigned)rows, s);
}
