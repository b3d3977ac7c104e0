// The head of a decoder: LayerNorm, then logits by the embedding of the first layer, transposed (Press, Wolf
// 2017). It writes that tensor's gradient; the embedding adds to it.
#include "train/layers.h"

enum { GAIN, BIAS };

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    if (in->ids) {
        return base_fail(why, BASE_EINVAL, "it takes numbers, but the layer below gives ids");
    }
    *out = (struct train_shape){
        .positions = in->positions, .height = 1, .width = 1, .channels = layer->d.decoder.vocabulary};
    return BASE_OK;
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t width = train_shape_width(&layer->in);
    (void)train_tensor_add(list, "weight", 1, &width);
    (void)train_tensor_add(list, "bias", 1, &width);
}

static bool runs(const struct kernels *kernels)
{
    return kernels->sequence != NULL;
}

static size_t rows_of(const struct train_layer *layer, size_t examples)
{
    return examples * layer->in.positions;
}

// Kept: the normalised rows, mean and inverse. Scratch: the gradient of the normalised rows.
static void floats(const struct train_layer *layer, size_t examples, struct train_layer_floats *floats)
{
    const size_t rows = rows_of(layer, examples), width = train_shape_width(&layer->in);
    floats->kept = rows * (width + 2);
    floats->scratch = rows * width;
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    (void)rng;
    train_layer_fill(layer->tensors[GAIN].count, 1.0f, parameters + layer->tensors[GAIN].offset);
}

static size_t tied(const struct train_layer *layer)
{
    return layer->layers[0].tensors[0].offset;
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const size_t rows = rows_of(layer, pass->examples), width = train_shape_width(&layer->in);
    float *mean = kept + rows * width, *inverse = mean + rows;
    pass->kernels->sequence->layernorm(rows, width, x, parameters + layer->tensors[GAIN].offset,
                                       parameters + layer->tensors[BIAS].offset, kept, mean, inverse);
    pass->kernels->gemm(false, true, rows, layer->d.decoder.vocabulary, width, 1.0f, kept,
                        parameters + tied(layer), 0.0f, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const size_t rows = rows_of(layer, pass->examples), width = train_shape_width(&layer->in);
    const size_t words = layer->d.decoder.vocabulary;
    const float *mean = kept + rows * width, *inverse = mean + rows;
    const struct kernels_norm norm = {rows, width, pass->accumulate};
    (void)y;
    BASE_ASSERT(dx != NULL);
    pass->kernels->gemm(true, false, words, width, rows, 1.0f, dy, kept, pass->accumulate ? 1.0f : 0.0f,
                        gradient + tied(layer));
    pass->kernels->gemm(false, false, rows, width, words, 1.0f, dy, parameters + tied(layer), 0.0f,
                        pass->scratch);
    pass->kernels->sequence->layernorm_backward(
        &norm, pass->scratch, x, parameters + layer->tensors[GAIN].offset, mean, inverse, NULL, dx,
        gradient + layer->tensors[GAIN].offset, gradient + layer->tensors[BIAS].offset);
}

static const struct train_layer_type type = {
    .name = "tied head",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_tied_head(size_t vocabulary)
{
    return (struct train_layer){.type = &type, .d.decoder = {.vocabulary = vocabulary}};
}
