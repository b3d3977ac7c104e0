// Constructors of the layer types. They return a layer without a place in a model, for train_plan_add.
// Private to train/.
#ifndef TRAIN_LAYERS_H
#define TRAIN_LAYERS_H

#include "train/layer.h"

// y = x W + b, then max(y, 0) if `relu`. Tensors: weight [inputs, outputs], bias [outputs]. He-normal.
struct train_layer train_linear(size_t outputs, bool relu);

// y = x W + b for rows (train/rows.h), CPU only; outputs 1 means two classes with y = [0, x w + b]. Tensors:
// weight [inputs, outputs], bias [outputs]. All zero initially.
struct train_layer train_rows_linear(size_t outputs);

// A decoder's layers (train/layers/embedding.c, block.c, tied_head.c). They need kernels->sequence. The
// embedding takes ids; the head is tied to the first layer's first tensor.
struct train_layer train_embedding(size_t width, float dropout);
struct train_layer train_block(size_t heads, size_t layers, float dropout);
struct train_layer train_tied_head(size_t vocabulary);

// Fills with normal numbers of this deviation; fills with `count` times `value`.
void train_layer_normal(struct base_rng *rng, double deviation, size_t count, float *values);
void train_layer_fill(size_t count, float value, float *values);
// The random stream of dropout number `which` of a layer in this pass.
uint64_t train_layer_stream(const struct train_layer *layer, const struct train_pass *pass, unsigned which);

// Convolution with a square window, at most TRAIN_WINDOW_MAX wide. Tensors: weight [size, size, channels,
// outputs], bias [outputs] if `bias`. He-normal.
#define TRAIN_WINDOW_MAX 64u
struct train_layer train_conv(size_t outputs, size_t size, size_t stride, size_t padding, bool bias,
                              bool relu);
// The maximum or the mean of windows that do not overlap; incomplete windows at the lower and right edge are
// ignored. size 0: one window over the whole image.
struct train_layer train_max_pool(size_t size);
struct train_layer train_mean_pool(size_t size);
// Group normalisation. Tensors: weight (initially 1), bias [channels].
struct train_layer train_norm(size_t groups, bool relu);
// Two convolutions of 3 x 3, each with a norm, and a shortcut around them. Tensors: conv1.weight,
// norm1.weight, norm1.bias, conv2.weight, norm2.weight, norm2.bias.
struct train_layer train_residual(size_t outputs, size_t stride, size_t groups);

// to += from, on any backend. For accumulated gradients.
void train_layer_add(const struct kernels *kernels, size_t count, const float *from, float *to);
// Writes the sum over rows to gradient[cols], or adds it; scratch: [cols].
void train_layer_column_sum(const struct train_pass *pass, size_t rows, size_t cols, const float *z,
                            float *scratch, float *gradient);
// Fills with normal numbers of deviation sqrt(2 / fan_in) (He, Zhang, Ren, Sun 2015, equation 10).
void train_layer_he(struct base_rng *rng, size_t fan_in, size_t count, float *weight);

#endif
