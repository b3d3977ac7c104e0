// Operations of a convolutional network besides products. Images lie one behind another, channels last:
// [images, height, width, channels] fp32. A part of the table of kernels; pure but for what is written; any
// thread.
#ifndef KERNELS_IMAGE_H
#define KERNELS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// out = (side + 2 padding - size) / stride + 1, rounded down; padding < size; all sizes >= 1.
struct kernels_conv {
    size_t images, height, width, channels;
    size_t size, stride, padding; // of the square window
    size_t out_height, out_width, outputs;
    bool relu; // y = max(y, 0)
};

// The same without padding; size <= height and width.
struct kernels_pool {
    size_t images, height, width, channels, size_y, size_x, stride;
    size_t out_height, out_width;
};

// Group normalisation (Wu, He 2018, equations 1 to 5): channels is a multiple of groups.
struct kernels_group_norm {
    size_t images, pixels, channels, groups;
    float epsilon;
    bool relu;
};

// Floats of scratch that conv and conv_backward may need, on any path.
size_t kernels_conv_scratch(const struct kernels_conv *c);

struct kernels_image {
    // y [images, out_height, out_width, outputs] = x * weight + bias; weight [size, size, channels, outputs];
    // bias [outputs] or NULL.
    void (*conv)(const struct kernels_conv *c, const float *x, const float *weight, const float *bias,
                 float *scratch, float *y);
    // dy is overwritten where relu (y: the output, read only then). dweight and dbias (NULL for none) are
    // overwritten, or added to with `accumulate`. dx may be NULL.
    void (*conv_backward)(const struct kernels_conv *c, const float *x, const float *weight, const float *y,
                          float *dy, bool accumulate, float *scratch, float *dweight, float *dbias,
                          float *dx);

    // place [as y]: where in its window the largest lies, the first of equals; NaN is the largest.
    void (*max_pool)(const struct kernels_pool *p, const float *x, uint32_t *place, float *y);
    void (*max_pool_backward)(const struct kernels_pool *p, const uint32_t *place, const float *dy,
                              float *dx);
    void (*mean_pool)(const struct kernels_pool *p, const float *x, float *y);
    void (*mean_pool_backward)(const struct kernels_pool *p, const float *dy, float *dx);

    // kept [images, 2, groups]: mean and 1 / deviation. gamma, beta [channels].
    void (*norm)(const struct kernels_group_norm *n, const float *x, const float *gamma, const float *beta,
                 float *kept, float *y);
    // dy is overwritten where relu. scratch [6 channels]. dgamma, dbeta as dweight above; dx may be
    // NULL.
    void (*norm_backward)(const struct kernels_group_norm *n, const float *x, const float *y,
                          const float *gamma, const float *kept, float *dy, bool accumulate, float *scratch,
                          float *dgamma, float *dbeta, float *dx);
};

#endif
