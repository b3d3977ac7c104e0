// What LayerNorm with fp32 and with bf16 results shares: mean and inverse deviation of a row, by one warp.
#ifndef KERNELS_CUDA_NORM_H
#define KERNELS_CUDA_NORM_H

#include <math.h>

#define LAYERNORM_EPSILON 1e-5f

struct row_level {
    float mean, inverse;
};

DEVICE struct row_level row_level_of(const float *x, size_t cols)
{
    struct row_level level;
    float sum = 0.0f, squares = 0.0f;
    for (size_t c = lane_index(); c < cols; c += WARP)
        sum += x[c];
    level.mean = warp_sum_f32(sum) / (float)cols;
    for (size_t c = lane_index(); c < cols; c += WARP)
        squares += (x[c] - level.mean) * (x[c] - level.mean);
    level.inverse = 1.0f / sqrtf(warp_sum_f32(squares) / (float)cols + LAYERNORM_EPSILON);
    return level;
}

#endif
