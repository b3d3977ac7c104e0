// Device functions of softmax and cross entropy: what a thread has seen of its row, and the block's total.
#ifndef KERNELS_CUDA_SOFTMAX_H
#define KERNELS_CUDA_SOFTMAX_H

#include <math.h>

// The largest number and where it is first, and the sum of the exponentials relative to it.
struct row_part {
    float max, sum;
    uint32_t at;
};

DEVICE struct row_part row_part_of_none(void)
{
    struct row_part p;
    p.max = -INFINITY;
    p.sum = 0.0f;
    p.at = UINT32_MAX;
    return p;
}

// Adds four numbers of a row, at `first` and every `step` after it, in ascending order; -INFINITY: none. NaN
// stays.
DEVICE void row_part_add(struct row_part *p, const float z[4], size_t first, size_t step)
{
    float max = p->max;
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        if (z[i] > max) {
            max = z[i];
            p->at = (uint32_t)(first + i * step);
        }
    }
    if (max > p->max) {
        p->sum *= expf(p->max - max);
        p->max = max;
    }
    UNROLL
    for (unsigned i = 0; i < 4; i++)
        p->sum += z[i] == -INFINITY ? 0.0f : expf(z[i] - max);
}

DEVICE float block_max(float value)
{
    SHARED(float, part, WARPS);
    for (unsigned distance = WARP / 2; distance > 0; distance /= 2) {
        const float other = warp_xor_f32(value, distance);
        value = other > value ? other : value;
    }
    if (lane_index() == 0)
        part[warp_index()] = value;
    block_barrier();
    float max = part[0];
    for (unsigned w = 1; w < WARPS; w++)
        max = part[w] > max ? part[w] : max;
    block_barrier();
    return max;
}

DEVICE uint32_t block_least_u32(uint32_t value)
{
    SHARED(uint32_t, part, WARPS);
    const uint32_t of_warp = warp_max_u32(~value);
    if (lane_index() == 0)
        part[warp_index()] = of_warp;
    block_barrier();
    uint32_t most = 0;
    for (unsigned w = 0; w < WARPS; w++)
        most = part[w] > most ? part[w] : most;
    block_barrier();
    return ~most;
}

// The part of the whole row, from those of the threads, in every thread. No thread returns before all have
// called.
DEVICE struct row_part row_part_of_block(const struct row_part *mine)
{
    struct row_part p;
    p.max = block_max(mine->max);
    p.sum = block_sum_f32(mine->max > -INFINITY ? mine->sum * expf(mine->max - p.max) : mine->sum);
    p.at = block_least_u32(mine->max == p.max ? mine->at : UINT32_MAX);
    return p;
}

// By one thread. The lowest index of the largest number counts as the answer.
DEVICE void row_loss(struct kernels_cuda_loss *loss, const struct row_part *row, float of_label, size_t label)
{
    loss->loss_sum = log((double)row->sum) - (double)(of_label - row->max);
    loss->correct = row->at == label;
}

#endif
