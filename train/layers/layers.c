// Functions that several layer types share.
#include "train/layers.h"

#include "base/hash.h"

#include <math.h>

size_t train_shape_width(const struct train_shape *shape)
{
    return shape->height * shape->width * shape->channels;
}

size_t train_shape_count(const struct train_shape *shape)
{
    return shape->positions * train_shape_width(shape);
}

void train_layer_normal(struct base_rng *rng, double deviation, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(deviation * base_rng_normal(rng));
}

void train_layer_fill(size_t count, float value, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

uint64_t train_layer_stream(const struct train_layer *layer, const struct train_pass *pass, unsigned which)
{
    const uint64_t place[] = {layer->index, which};
    return base_hash_bytes(pass->seed, place, sizeof place);
}

void train_layer_add(const struct kernels *kernels, size_t count, const float *from, float *to)
{
    const struct kernels_sgd step = {.rate = -1.0f}; // to -= -1 * from
    kernels->sgd_step(count, &step, from, NULL, NULL, to);
}

void train_layer_column_sum(const struct train_pass *pass, size_t rows, size_t cols, const float *z,
                            float *scratch, float *gradient)
{
    pass->kernels->column_sum(rows, cols, z, pass->accumulate ? scratch : gradient);
    if (pass->accumulate)
        train_layer_add(pass->kernels, cols, scratch, gradient);
}

void train_layer_he(struct base_rng *rng, size_t fan_in, size_t count, float *weight)
{
    train_layer_normal(rng, sqrt(2.0 / (double)fan_in), count, weight);
}
