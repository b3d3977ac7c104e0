// The maximum or the mean of square windows without padding, or of a whole image.
#include "train/layers.h"

static struct kernels_pool shape_of(const struct train_layer *layer, size_t examples)
{
    const size_t size = layer->d.pool.size;
    return (struct kernels_pool){.images = examples * layer->in.positions,
                                 .height = layer->in.height,
                                 .width = layer->in.width,
                                 .channels = layer->in.channels,
                                 .size_y = size > 0 ? size : layer->in.height,
                                 .size_x = size > 0 ? size : layer->in.width,
                                 .stride = size > 0 ? size : 1,
                                 .out_height = layer->out.height,
                                 .out_width = layer->out.width};
}

static bool runs(const struct kernels *kernels)
{
    return kernels->image != NULL;
}

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t size = layer->d.pool.size;
    if (in->ids || in->height < size || in->width < size) {
        return base_fail(why, BASE_EINVAL, "its window is %zu x %zu, but it gets %s of %zu x %zu", size, size,
                         in->ids ? "ids" : "images", in->height, in->width);
    }
    *out = (struct train_shape){.positions = in->positions,
                                .height = size > 0 ? in->height / size : 1,
                                .width = size > 0 ? in->width / size : 1,
                                .channels = in->channels};
    return BASE_OK;
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    (void)kernels;
    floats->kept = layer->d.pool.mean ? 0 : examples * train_shape_count(&layer->out);
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const struct kernels_pool p = shape_of(layer, pass->examples);
    (void)parameters;
    if (layer->d.pool.mean)
        pass->kernels->image->mean_pool(&p, x, y);
    else
        pass->kernels->image->max_pool(&p, x, (uint32_t *)(void *)kept, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const struct kernels_pool p = shape_of(layer, pass->examples);
    (void)parameters, (void)x, (void)y, (void)gradient;
    if (!dx)
        return;
    if (layer->d.pool.mean)
        pass->kernels->image->mean_pool_backward(&p, dy, dx);
    else
        pass->kernels->image->max_pool_backward(&p, (const uint32_t *)(const void *)kept, dy, dx);
}

static const struct train_layer_type type = {
    .name = "pool",
    .check = check,
    .runs = runs,
    .floats = floats,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_max_pool(size_t size)
{
    return (struct train_layer){.type = &type, .d.pool = {.size = size}};
}

struct train_layer train_mean_pool(size_t size)
{
    return (struct train_layer){.type = &type, .d.pool = {.size = size, .mean = true}};
}
