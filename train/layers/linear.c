// A fully connected layer: y = x W + b, with or without ReLU, whose mask follows from y.
#include "train/layers.h"

#include <math.h>

static size_t rows_of(const struct train_layer *layer, size_t examples)
{
    return examples * layer->in.positions;
}

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t outputs = layer->d.linear.outputs, inputs = train_shape_width(in);
    if (in->ids)
        return base_fail(why, BASE_EINVAL, "it takes numbers, but the layer below gives ids");
    if (outputs == 0 || outputs > LIMIT_PARAMETERS || inputs > LIMIT_PARAMETERS / outputs) {
        return base_fail(why, BASE_EINVAL, "its weight has %zu x %zu elements; expected 1 to %u in all",
                         inputs, outputs, LIMIT_PARAMETERS);
    }
    *out = (struct train_shape){.positions = in->positions, .height = 1, .width = 1, .channels = outputs};
    return BASE_OK;
}

// Torch's layout is [out, in], and channels first for images.
static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const struct train_shape *in = &layer->in;
    const size_t inputs = train_shape_width(in), outputs = layer->d.linear.outputs;
    struct train_tensor *weight = train_tensor_add(list, "weight", 2, (const size_t[]){inputs, outputs});
    weight->abroad.n_view = 4;
    const size_t view[] = {in->height, in->width, in->channels, outputs}, order[] = {3, 2, 0, 1};
    for (size_t i = 0; i < 4; i++) {
        weight->abroad.view[i] = view[i];
        weight->abroad.order[i] = order[i];
    }
    weight->abroad.shape[0] = outputs;
    weight->abroad.shape[1] = inputs;
    (void)train_tensor_add(list, "bias", 1, &outputs);
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    (void)kernels;
    (void)examples;
    floats->scratch = layer->d.linear.outputs; // for the gradient of the bias, accumulated or passed on
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    train_layer_he(rng, train_shape_width(&layer->in), layer->tensors[0].count,
                   parameters + layer->tensors[0].offset);
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const struct kernels *k = pass->kernels;
    const size_t rows = rows_of(layer, pass->examples), outputs = layer->d.linear.outputs;
    const float *weight = parameters + layer->tensors[0].offset,
                *bias = parameters + layer->tensors[1].offset;
    (void)kept;
    k->gemm(false, false, rows, outputs, train_shape_width(&layer->in), 1.0f, x, weight, 0.0f, y);
    (layer->d.linear.relu ? k->bias_add_relu : k->bias_add)(rows, outputs, bias, y);
}

static bool gives(const struct train_layer *layer, const struct kernels *kernels, size_t examples)
{
    return kernels->in_pieces && kernels->in_pieces(train_shape_width(&layer->in), layer->d.linear.outputs,
                                                    rows_of(layer, examples));
}

struct part { // of the vector of all parameters
    const struct kernels_taker *taker;
    size_t offset;
};

static void take_part(void *owner, size_t first, size_t count, float *values)
{
    const struct part *part = owner;
    part->taker->take(part->taker->owner, part->offset + first, count, values);
}

static void give_gradient(const struct train_layer *layer, const struct train_pass *pass, const float *x,
                          const float *dy)
{
    const struct kernels *k = pass->kernels;
    const size_t rows = rows_of(layer, pass->examples), outputs = layer->d.linear.outputs;
    struct part weight = {pass->taker, layer->tensors[0].offset};
    struct kernels_taker taker = {.take = take_part, .owner = &weight};
    for (size_t i = 0; i < KERNELS_BESIDE && pass->taker->beside[i]; i++)
        taker.beside[i] = pass->taker->beside[i] + weight.offset;
    k->gemm_pieces(train_shape_width(&layer->in), outputs, rows, x, dy, &taker);
    k->column_sum(rows, outputs, dy, pass->scratch);
    pass->taker->take(pass->taker->owner, layer->tensors[1].offset, outputs, pass->scratch);
}

static void write_gradient(const struct train_layer *layer, const struct train_pass *pass, const float *x,
                           const float *dy, float *gradient)
{
    const size_t rows = rows_of(layer, pass->examples), outputs = layer->d.linear.outputs;
    pass->kernels->gemm(true, false, train_shape_width(&layer->in), outputs, rows, 1.0f, x, dy,
                        pass->accumulate ? 1.0f : 0.0f, gradient + layer->tensors[0].offset);
    train_layer_column_sum(pass, rows, outputs, dy, pass->scratch, gradient + layer->tensors[1].offset);
}

// The weight is read before its gradient is passed on, because the taker may change the weight.
static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const struct kernels *k = pass->kernels;
    const size_t rows = rows_of(layer, pass->examples), inputs = train_shape_width(&layer->in),
                 outputs = layer->d.linear.outputs;
    (void)kept;
    if (layer->d.linear.relu)
        k->relu_backward(rows * outputs, y, dy);
    if (dx) {
        k->gemm(false, true, rows, inputs, outputs, 1.0f, dy, parameters + layer->tensors[0].offset, 0.0f,
                dx);
    }
    if (pass->taker)
        give_gradient(layer, pass, x, dy);
    else
        write_gradient(layer, pass, x, dy, gradient);
}

static const struct train_layer_type type = {
    .name = "linear",
    .check = check,
    .tensors = tensors,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
    .gives = gives,
};

struct train_layer train_linear(size_t outputs, bool relu)
{
    return (struct train_layer){.type = &type, .d.linear = {.outputs = outputs, .relu = relu}};
}
