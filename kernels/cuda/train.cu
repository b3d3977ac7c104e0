// Device kernels of training. Elementwise ones visit the vector in strides of the grid; reductions add in a
// fixed order, so that a run can be repeated bit for bit.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/softmax.h"

// --- layers ---

struct bias {
    size_t count;
    uint32_t cols;
    const float *bias; // NULL: 0
    float *z;
    int relu;
};

KERNEL(bias_kernel, struct bias, b)
{
    EACH(i, b.count)
    {
        // 32 bits: a long division costs more than the rest
        const float value = b.z[i] + (b.bias ? b.bias[(uint32_t)i % b.cols] : 0.0f);
        b.z[i] = b.relu && 0.0f > value ? 0.0f : value; // NaN stays NaN
    }
}

struct relu_backward {
    size_t count;
    const float *activation;
    float *grad;
};

KERNEL(relu_backward_kernel, struct relu_backward, r)
{
    EACH(i, r.count)
    {
        r.grad[i] = r.activation[i] > 0.0f ? r.grad[i] : 0.0f;
    }
}

// A block adds one slab of rows for as many columns as a warp has threads: each warp adds every eighth row,
// so that loads are coalesced, and the sums of the warps are added in their order. The sums of slabs are the
// rows of the next step.
struct column_sum {
    size_t rows, cols, tiles; // tiles of columns
    const float *z;
    float *sum; // [slabs][cols]
};

KERNEL(column_sum_kernel, struct column_sum, s)
{
    SHARED(float, part, THREADS);
    const size_t slab = block_index() / s.tiles, column = block_index() % s.tiles * WARP + lane_index();
    const size_t first = slab * KERNELS_CUDA_SLAB;
    const size_t end = first + KERNELS_CUDA_SLAB < s.rows ? first + KERNELS_CUDA_SLAB : s.rows;
    float sum = 0.0f;
    for (size_t r = first + warp_index(); r < end && column < s.cols; r += WARPS)
        sum += s.z[r * s.cols + column];
    part[thread_index()] = sum;
    block_barrier();
    if (warp_index() == 0 && column < s.cols) {
        for (unsigned w = 1; w < WARPS; w++)
            sum += part[w * WARP + lane_index()];
        s.sum[slab * s.cols + column] = sum;
    }
}

// --- softmax and cross entropy ---

struct softmax {
    size_t rows, cols;
    float *logits;
    const uint32_t *labels;
    float scale;
    struct kernels_cuda_loss *row_losses, *total;
};

DEVICE struct row_part softmax_part(const float *z, size_t cols)
{
    struct row_part p = row_part_of_none();
    for (size_t first = thread_index(); first < cols; first += 4 * THREADS) {
        float x[4]; // all are read before the first is used
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            x[i] = first + i * THREADS < cols ? z[first + i * THREADS] : -INFINITY;
        row_part_add(&p, x, first, THREADS);
    }
    return p;
}

// One block a row: one pass for its largest number and the sum, one for the gradient.
KERNEL(softmax_kernel, struct softmax, s)
{
    float *z = s.logits + (size_t)block_index() * s.cols;
    const size_t label = s.labels[block_index()];
    const float of_label = z[label];
    const struct row_part mine = softmax_part(z, s.cols), row = row_part_of_block(&mine);
    const float factor = s.scale / row.sum;
    for (size_t c = thread_index(); c < s.cols; c += THREADS)
        z[c] = expf(z[c] - row.max) * factor - (c == label ? s.scale : 0.0f);
    if (thread_index() == 0)
        row_loss(&s.row_losses[block_index()], &row, of_label, label);
}

// One block.
KERNEL(loss_kernel, struct softmax, s)
{
    SHARED(double, part, WARPS);
    double sum = 0.0;
    uint64_t correct = 0;
    for (size_t r = thread_index(); r < s.rows; r += THREADS) {
        sum += s.row_losses[r].loss_sum;
        correct += s.row_losses[r].correct;
    }
    sum = warp_sum_f64(sum);
    if (lane_index() == 0)
        part[warp_index()] = sum;
    correct = block_sum_u64(correct); // and a barrier
    if (thread_index() == 0) {
        for (unsigned w = 1; w < WARPS; w++)
            sum += part[w];
        s.total->loss_sum = sum;
        s.total->correct = correct;
    }
}

// --- optimisers ---

struct sgd {
    struct kernels_cuda_sgd o;
    size_t count;
    const float *grad, *correction;
    float *m, *x;
};

KERNEL(sgd_kernel, struct sgd, s)
{
    EACH(i, s.count)
    {
        float direction = s.grad[i] + s.o.weight_decay * s.x[i];
        if (s.m) {
            direction = s.o.momentum * s.m[i] + direction;
            s.m[i] = direction;
        }
        s.x[i] -= s.o.rate * (s.correction ? direction - s.correction[i] : direction);
    }
}

struct adamw {
    struct kernels_cuda_adamw o;
    size_t count;
    const float *grad, *correction;
    float *m, *v, *x;
};

KERNEL(adamw_kernel, struct adamw, a)
{
    EACH(i, a.count)
    {
        const float g = a.grad[i], x = a.x[i];
        const float m = a.o.beta1 * a.m[i] + a.o.rest1 * g;
        const float v = a.o.beta2 * a.v[i] + a.o.rest2 * (g * g);
        const float direction =
            m * a.o.unbias1 / (sqrtf(v * a.o.unbias2) + a.o.epsilon) + a.o.weight_decay * x;
        a.m[i] = m;
        a.v[i] = v;
        a.x[i] = x - a.o.rate * (a.correction ? direction - a.correction[i] : direction);
    }
}

struct lion {
    struct kernels_cuda_lion o;
    size_t count;
    const float *grad, *correction;
    float *m, *x;
};

KERNEL(lion_kernel, struct lion, l)
{
    EACH(i, l.count)
    {
        const float g = l.grad[i], x = l.x[i], m = l.m[i];
        const float mean = l.o.beta1 * m + l.o.rest1 * g;
        const float sign = mean > 0.0f ? 1.0f : mean < 0.0f ? -1.0f : mean; // NaN stays NaN
        const float direction = sign + l.o.weight_decay * x;
        l.m[i] = l.o.beta2 * m + l.o.rest2 * g;
        l.x[i] = x - l.o.rate * (l.correction ? direction - l.correction[i] : direction);
    }
}

// --- gradients that add up ---

struct pair {
    size_t count;
    int accumulate;
    const float *sums; // [2][count]
    float *first, *second;
};

KERNEL(pair_kernel, struct pair, p)
{
    EACH(i, 2 * p.count)
    {
        float *to = i < p.count ? p.first + i : p.second + (i - p.count);
        *to = p.accumulate ? *to + p.sums[i] : p.sums[i];
    }
}

// --- launches ---

void kernels_cuda_bias(size_t rows, size_t cols, const float *bias, float *z, int relu)
{
    const struct bias b = {rows * cols, (uint32_t)cols, bias, z, relu};
    LAUNCH(bias_kernel, grid_for(b.count), b);
}

void kernels_cuda_relu_backward(size_t count, const float *activation, float *grad)
{
    const struct relu_backward r = {count, activation, grad};
    LAUNCH(relu_backward_kernel, grid_for(count), r);
}

void kernels_cuda_column_sum(size_t rows, size_t cols, const float *z, float *parts, float *sum)
{
    const size_t slabs = (rows + KERNELS_CUDA_SLAB - 1) / KERNELS_CUDA_SLAB, tiles = (cols + WARP - 1) / WARP;
    if (slabs <= 1) {
        const struct column_sum one = {rows, cols, tiles, z, sum};
        LAUNCH(column_sum_kernel, (unsigned)tiles, one);
        return;
    }
    const struct column_sum first = {rows, cols, tiles, z, parts};
    LAUNCH(column_sum_kernel, (unsigned)(tiles * slabs), first);
    kernels_cuda_column_sum(slabs, cols, parts, parts + slabs * cols, sum);
}

void kernels_cuda_softmax(size_t rows, size_t cols, float *logits, const uint32_t *labels, float scale,
                          struct kernels_cuda_loss *row_losses, struct kernels_cuda_loss *total)
{
    const struct softmax s = {rows, cols, logits, labels, scale, row_losses, total};
    LAUNCH(softmax_kernel, (unsigned)rows, s);
    LAUNCH(loss_kernel, 1, s);
}

void kernels_cuda_loss_total(size_t rows, struct kernels_cuda_loss *row_losses,
                             struct kernels_cuda_loss *total)
{
    const struct softmax s = {rows, 0, NULL, NULL, 0.0f, row_losses, total};
    LAUNCH(loss_kernel, 1, s);
}

void kernels_cuda_sgd(size_t count, struct kernels_cuda_sgd options, const float *grad,
                      const float *correction, float *m, float *x)
{
    const struct sgd s = {options, count, grad, correction, m, x};
    LAUNCH(sgd_kernel, grid_for(count), s);
}

void kernels_cuda_adamw(size_t count, struct kernels_cuda_adamw options, const float *grad,
                        const float *correction, float *m, float *v, float *x)
{
    const struct adamw a = {options, count, grad, correction, m, v, x};
    LAUNCH(adamw_kernel, grid_for(count), a);
}

void kernels_cuda_lion(size_t count, struct kernels_cuda_lion options, const float *grad,
                       const float *correction, float *m, float *x)
{
    const struct lion l = {options, count, grad, correction, m, x};
    LAUNCH(lion_kernel, grid_for(count), l);
}

void kernels_cuda_pair(size_t count, int accumulate, const float *sums, float *first, float *second)
{
    const struct pair p = {count, accumulate, sums, first, second};
    LAUNCH(pair_kernel, grid_for(2 * count), p);
}
