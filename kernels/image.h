// Operations of convolutional networks other than matrix products. Images are consecutive, channels last:
// [images, height, width, channels] fp32. Part of the table of kernels. Functions have no effect except on
// their outputs; any thread.
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

// As kernels_conv, without padding; size_y <= height and size_x <= width.
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

// The shortcut around a residual block, without parameters (He, Zhang, Ren, Sun 2016, option A): y [images,
// height, width, outputs] takes every stride-th pixel of x [images, in_height, in_width, channels], and adds
// nothing to its channels from `channels` on. (height - 1) * stride < in_height; channels <= outputs.
struct kernels_shortcut {
    size_t images, height, width, in_height, in_width, stride, channels, outputs;
};

// Floats of scratch that conv and conv_backward may need, on any path.
size_t kernels_conv_scratch(const struct kernels_conv *c);

struct kernels_image {
    // y [images, out_height, out_width, outputs] = x * weight + bias; weight [size, size, channels, outputs];
    // bias [outputs] or NULL.
    void (*conv)(const struct kernels_conv *c, const float *x, const float *weight, const float *bias,
                 float *scratch, float *y);
    // With relu, dy is overwritten and y, the output, is read. dweight and dbias (may be NULL) are
    // overwritten, or with `accumulate` added to. dx may be NULL.
    void (*conv_backward)(const struct kernels_conv *c, const float *x, const float *weight, const float *y,
                          float *dy, bool accumulate, float *scratch, float *dweight, float *dbias,
                          float *dx);

    // place, with the shape of y: the position of the maximum in its window, the first among equals; NaN
    // counts as the largest.
    void (*max_pool)(const struct kernels_pool *p, const float *x, uint32_t *place, float *y);
    void (*max_pool_backward)(const struct kernels_pool *p, const uint32_t *place, const float *dy,
                              float *dx);
    void (*mean_pool)(const struct kernels_pool *p, const float *x, float *y);
    void (*mean_pool_backward)(const struct kernels_pool *p, const float *dy, float *dx);

    // kept [images, 2, groups]: mean and 1 / deviation. gamma, beta [channels].
    void (*norm)(const struct kernels_group_norm *n, const float *x, const float *gamma, const float *beta,
                 float *kept, float *y);
    // With relu, dy is overwritten. scratch [6 channels]. dgamma and dbeta behave as dweight above; dx may be
    // NULL.
    void (*norm_backward)(const struct kernels_group_norm *n, const float *x, const float *y,
                          const float *gamma, const float *kept, float *dy, bool accumulate, float *scratch,
                          float *dgamma, float *dbeta, float *dx);

    void (*shortcut)(const struct kernels_shortcut *s, const float *x, float *y); // y = max(y + s(x), 0)
    // dx += the part of dy that passes through s.
    void (*shortcut_backward)(const struct kernels_shortcut *s, const float *dy, float *dx);
};

#endif
