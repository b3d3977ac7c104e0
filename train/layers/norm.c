// Group normalisation (Wu, He 2018): mean and deviation over the pixels and channels of each group of an
// image, so there are no batch statistics, which would differ between nodes with different data.
#include "train/layers.h"

#define EPSILON 1e-5f // as in torch

static struct kernels_group_norm shape_of(const struct train_layer *layer, size_t examples)
{
    return (struct kernels_group_norm){.images = examples * layer->in.positions,
                                       .pixels = layer->in.height * layer->in.width,
                                       .channels = layer->in.channels,
                                       .groups = layer->d.norm.groups,
                                       .epsilon = EPSILON,
                                       .relu = layer->d.norm.relu};
}

static bool runs(const struct kernels *kernels)
{
    return kernels->image != NULL;
}

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    if (in->ids || layer->d.norm.groups == 0 || in->channels % layer->d.norm.groups != 0) {
        return base_fail(why, BASE_EINVAL, "it has %zu groups of %zu channels; expected groups of equal size",
                         layer->d.norm.groups, in->channels);
    }
    *out = *in;
    return BASE_OK;
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    (void)train_tensor_add(list, "weight", 1, &layer->in.channels);
    (void)train_tensor_add(list, "bias", 1, &layer->in.channels);
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    (void)kernels;
    floats->kept = examples * layer->in.positions * 2 * layer->d.norm.groups;
    floats->scratch = 6 * layer->in.channels;
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    (void)rng;
    for (size_t i = 0; i < layer->tensors[0].count; i++)
        parameters[layer->tensors[0].offset + i] = 1.0f;
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const struct kernels_group_norm n = shape_of(layer, pass->examples);
    pass->kernels->image->norm(&n, x, parameters + layer->tensors[0].offset,
                               parameters + layer->tensors[1].offset, kept, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const struct kernels_group_norm n = shape_of(layer, pass->examples);
    pass->kernels->image->norm_backward(&n, x, y, parameters + layer->tensors[0].offset, kept, dy,
                                        pass->accumulate, pass->scratch, gradient + layer->tensors[0].offset,
                                        gradient + layer->tensors[1].offset, dx);
}

static const struct train_layer_type type = {
    .name = "group norm",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_norm(size_t groups, bool relu)
{
    return (struct train_layer){.type = &type, .d.norm = {.groups = groups, .relu = relu}};
}
