// A residual block of two convolutions (He, Zhang, Ren, Sun 2016, figure 2, for CIFAR section 4.2), with
// group norm instead of batch norm: y = max(norm(conv(max(norm(conv(x)), 0))) + s(x), 0). If the shape
// changes, s takes every `stride`-th pixel and fills new channels with zeros (option A of the paper), so it
// has no parameters.
#include "train/layers.h"

enum { CONV1, NORM1, CONV2, NORM2, PARTS };

static struct train_layer part_of(const struct train_layer *layer, size_t i)
{
    const size_t outputs = layer->d.residual.outputs, groups = layer->d.residual.groups;
    switch (i) {
    case CONV1:
        return train_conv(outputs, 3, layer->d.residual.stride, 1, false, false);
    case NORM1:
        return train_norm(groups, true);
    case CONV2:
        return train_conv(outputs, 3, 1, 1, false, false);
    default:
        return train_norm(groups, false);
    }
}

// The parts with their shapes and tensors. `kept` has, for each part, the numbers that the part keeps, then
// its output.
struct parts {
    struct train_layer at[PARTS];
    size_t kept[PARTS], out[PARTS], size[PARTS]; // kept, out: places in `kept`; size: numbers of an output
    size_t n_kept, scratch;
};

static void divide(const struct train_layer *layer, size_t examples, struct parts *parts)
{
    size_t tensor = 0;
    *parts = (struct parts){0};
    for (size_t i = 0; i < PARTS; i++) {
        struct train_layer *part = &parts->at[i];
        struct train_layer_floats floats = {0};
        struct base_reason why;
        *part = part_of(layer, i);
        part->in = i == 0 ? layer->in : parts->at[i - 1].out;
        const enum base_error error = part->type->check(part, &part->in, &part->out, &why);
        BASE_ASSERT(!error); // the block was checked
        part->tensors = layer->tensors + tensor;
        tensor += i == NORM1 || i == NORM2 ? 2 : 1;
        part->type->floats(part, NULL, examples, &floats); // layers of images need the same with all kernels
        parts->size[i] = examples * train_shape_count(&part->out);
        parts->kept[i] = parts->n_kept;
        parts->out[i] = parts->n_kept + floats.kept;
        parts->n_kept =
            parts->out[i] + (i + 1 < PARTS ? parts->size[i] : 0); // the output of the last part is y
        parts->scratch = floats.scratch > parts->scratch ? floats.scratch : parts->scratch;
    }
}

static bool runs(const struct kernels *kernels)
{
    return kernels->image != NULL;
}

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    struct train_shape at = *in;
    if (layer->d.residual.outputs < in->channels) {
        return base_fail(why, BASE_EINVAL,
                         "it gives %zu channels and gets %zu; expected at least as many as it gets",
                         layer->d.residual.outputs, in->channels);
    }
    for (size_t i = 0; i < PARTS; i++) {
        const struct train_layer part = part_of(layer, i);
        const struct train_shape below = at;
        const enum base_error error = part.type->check(&part, &below, &at, why);
        if (error)
            return error;
    }
    *out = at;
    return BASE_OK;
}

static void add_norm(const struct train_layer *layer, struct train_tensor_list *list, const char *weight,
                     const char *bias)
{
    (void)train_tensor_add(list, weight, 1, &layer->d.residual.outputs);
    (void)train_tensor_add(list, bias, 1, &layer->d.residual.outputs);
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t out = layer->d.residual.outputs, order[] = {3, 2, 0, 1};
    train_tensor_permute(
        train_tensor_add(list, "conv1.weight", 4, (const size_t[]){3, 3, layer->in.channels, out}), order);
    add_norm(layer, list, "norm1.weight", "norm1.bias");
    train_tensor_permute(train_tensor_add(list, "conv2.weight", 4, (const size_t[]){3, 3, out, out}), order);
    add_norm(layer, list, "norm2.weight", "norm2.bias");
}

// Scratch: the scratch of the parts, then two gradients.
static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    struct parts parts;
    (void)kernels;
    divide(layer, examples, &parts);
    floats->kept = parts.n_kept;
    floats->scratch = parts.scratch + 2 * parts.size[CONV1];
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    struct parts parts;
    divide(layer, 1, &parts);
    for (size_t i = 0; i < PARTS; i++)
        parts.at[i].type->initialise(&parts.at[i], rng, parameters);
}

static struct kernels_shortcut shortcut_of(const struct train_layer *layer, size_t examples)
{
    return (struct kernels_shortcut){.images = examples * layer->in.positions,
                                     .height = layer->out.height,
                                     .width = layer->out.width,
                                     .in_height = layer->in.height,
                                     .in_width = layer->in.width,
                                     .stride = layer->d.residual.stride,
                                     .channels = layer->in.channels,
                                     .outputs = layer->out.channels};
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const struct kernels_shortcut s = shortcut_of(layer, pass->examples);
    struct parts parts;
    divide(layer, pass->examples, &parts);
    const void *below = x;
    for (size_t i = 0; i < PARTS; i++) {
        float *out = i + 1 < PARTS ? kept + parts.out[i] : y;
        parts.at[i].type->forward(&parts.at[i], pass, parameters, below, out, kept + parts.kept[i]);
        below = out;
    }
    pass->kernels->image->shortcut(&s, x, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const struct kernels_shortcut s = shortcut_of(layer, pass->examples);
    struct parts parts;
    divide(layer, pass->examples, &parts);
    float *turns[] = {pass->scratch + parts.scratch, pass->scratch + parts.scratch + parts.size[CONV1]};
    pass->kernels->relu_backward(parts.size[NORM2], y, dy);
    float *up = dy; // norm2 has no ReLU of its own, so dy stays for the shortcut
    for (size_t i = PARTS; i-- > 0;) {
        const void *below = i > 0 ? kept + parts.out[i - 1] : x;
        const float *out = i + 1 < PARTS ? kept + parts.out[i] : y;
        float *down = i > 0 ? turns[i % 2] : dx;
        parts.at[i].type->backward(&parts.at[i], pass, parameters, below, out, up, down, kept + parts.kept[i],
                                   gradient);
        up = down;
    }
    if (dx)
        pass->kernels->image->shortcut_backward(&s, dy, dx);
}

static const struct train_layer_type type = {
    .name = "residual block",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_residual(size_t outputs, size_t stride, size_t groups)
{
    return (struct train_layer){.type = &type,
                                .d.residual = {.outputs = outputs, .stride = stride, .groups = groups}};
}
