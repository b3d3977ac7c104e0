// A convolution with a square window over images, channels last, with or without bias and ReLU.
#include "train/layers.h"

static struct kernels_conv shape_of(const struct train_layer *layer, size_t examples)
{
    return (struct kernels_conv){.images = examples * layer->in.positions,
                                 .height = layer->in.height,
                                 .width = layer->in.width,
                                 .channels = layer->in.channels,
                                 .size = layer->d.conv.size,
                                 .stride = layer->d.conv.stride,
                                 .padding = layer->d.conv.padding,
                                 .out_height = layer->out.height,
                                 .out_width = layer->out.width,
                                 .outputs = layer->out.channels,
                                 .relu = layer->d.conv.relu};
}

static bool runs(const struct kernels *kernels)
{
    return kernels->image != NULL;
}

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t size = layer->d.conv.size, padding = layer->d.conv.padding;
    if (in->ids)
        return base_fail(why, BASE_EINVAL, "it takes images, but the layer below gives ids");
    if (size == 0 || size > TRAIN_WINDOW_MAX || padding >= size || layer->d.conv.stride == 0 ||
        layer->d.conv.outputs == 0 || layer->d.conv.outputs > LIMIT_CLASSES || in->channels > LIMIT_CLASSES) {
        return base_fail(
            why, BASE_EINVAL,
            "its window is %zu, its padding %zu, its stride %zu, %zu channels become %zu; expected "
            "a window of 1 to %u, a smaller padding, and 1 to %u channels",
            size, padding, layer->d.conv.stride, in->channels, layer->d.conv.outputs, TRAIN_WINDOW_MAX,
            LIMIT_CLASSES);
    }
    if (in->height + 2 * padding < size || in->width + 2 * padding < size) {
        return base_fail(why, BASE_EINVAL, "images of %zu x %zu are too small for its window of %zu x %zu",
                         in->height, in->width, size, size);
    }
    *out = (struct train_shape){
        .positions = in->positions,
        .height = (in->height + 2 * padding - size) / layer->d.conv.stride + 1,
        .width = (in->width + 2 * padding - size) / layer->d.conv.stride + 1,
        .channels = layer->d.conv.outputs,
    };
    return BASE_OK;
}

// Torch's layout is [out, in, y, x].
static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t size = layer->d.conv.size, outputs = layer->d.conv.outputs;
    train_tensor_permute(
        train_tensor_add(list, "weight", 4, (const size_t[]){size, size, layer->in.channels, outputs}),
        (const size_t[]){3, 2, 0, 1});
    if (layer->d.conv.bias)
        (void)train_tensor_add(list, "bias", 1, &outputs);
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    const struct kernels_conv c = shape_of(layer, examples);
    (void)kernels;
    floats->scratch = kernels_conv_scratch(&c);
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    const struct train_tensor *weight = &layer->tensors[0];
    train_layer_he(rng, weight->shape[0] * weight->shape[1] * weight->shape[2], weight->count,
                   parameters + weight->offset);
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const struct kernels_conv c = shape_of(layer, pass->examples);
    (void)kept;
    pass->kernels->image->conv(&c, x, parameters + layer->tensors[0].offset,
                               layer->d.conv.bias ? parameters + layer->tensors[1].offset : NULL,
                               pass->scratch, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const struct kernels_conv c = shape_of(layer, pass->examples);
    (void)kept;
    pass->kernels->image->conv_backward(&c, x, parameters + layer->tensors[0].offset, y, dy, pass->accumulate,
                                        pass->scratch, gradient + layer->tensors[0].offset,
                                        layer->d.conv.bias ? gradient + layer->tensors[1].offset : NULL, dx);
}

static const struct train_layer_type type = {
    .name = "conv2d",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_conv(size_t outputs, size_t size, size_t stride, size_t padding, bool bias,
                              bool relu)
{
    return (struct train_layer){.type = &type,
                                .d.conv = {.outputs = outputs,
                                           .size = size,
                                           .stride = stride,
                                           .padding = padding,
                                           .bias = bias,
                                           .relu = relu}};
}
