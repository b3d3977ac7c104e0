// The head of a decoder: LayerNorm, then logits by the embedding of the first layer, transposed (Press, Wolf
// 2017). It writes that tensor's gradient; the embedding adds to it.
#include "train/layers.h"

enum { GAIN, BIAS };

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    if (in->ids)
        return base_fail(why, BASE_EINVAL, "it takes numbers, but the layer below gives ids");
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
    return kernels->decoder != NULL;
}

static size_t rows_of(const struct train_layer *layer, size_t examples)
{
    return examples * layer->in.positions;
}

// The results of forward that backward needs; normal: activations of one width per row.
struct kept {
    void *normal;
    float *mean, *inverse; // [rows]
};

static struct kept divide(const struct train_layer *layer, const struct kernels_decoder *d, size_t examples,
                          float *at)
{
    const size_t rows = rows_of(layer, examples);
    float *mean = at + kernels_activation_floats(d, rows * train_shape_width(&layer->in));
    return (struct kept){at, mean, mean + rows};
}

// Scratch: the gradient of the normalised rows.
static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    const size_t rows = rows_of(layer, examples);
    floats->scratch = kernels_activation_floats(kernels->decoder, rows * train_shape_width(&layer->in));
    floats->kept = floats->scratch + 2 * rows;
    floats->y = kernels_activation_floats(
        kernels->decoder, rows * kernels_logits_stride(kernels->decoder, layer->d.decoder.vocabulary));
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

static struct kernels_linear linear(const struct train_layer *layer, const struct train_pass *pass)
{
    return (struct kernels_linear){rows_of(layer, pass->examples), train_shape_width(&layer->in),
                                   layer->d.decoder.vocabulary, pass->accumulate};
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *memory)
{
    const struct kernels_decoder *d = pass->kernels->decoder;
    const struct kernels_linear l = linear(layer, pass);
    const struct kept kept = divide(layer, d, pass->examples, memory);
    d->layernorm(pass->kernels, l.rows, l.inputs, x, parameters + layer->tensors[GAIN].offset,
                 parameters + layer->tensors[BIAS].offset, kept.normal, kept.mean, kept.inverse);
    d->logits(pass->kernels, &l, kept.normal, parameters + tied(layer), y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *memory, float *gradient)
{
    const struct kernels_decoder *d = pass->kernels->decoder;
    const struct kernels_linear l = linear(layer, pass);
    const struct kernels_norm norm = {l.rows, l.inputs, pass->accumulate};
    const struct kept kept = divide(layer, d, pass->examples, memory);
    (void)y;
    BASE_ASSERT(dx != NULL);
    d->logits_backward(pass->kernels, &l, kept.normal, parameters + tied(layer), dy, gradient + tied(layer),
                       pass->scratch);
    d->layernorm_backward(pass->kernels, &norm, pass->scratch, x, parameters + layer->tensors[GAIN].offset,
                          kept.mean, kept.inverse, NULL, dx, gradient + layer->tensors[GAIN].offset,
                          gradient + layer->tensors[BIAS].offset);
}

static void loss(const struct train_layer *layer, const struct train_pass *pass, float *y,
                 const uint32_t *labels, float scale, struct kernels_loss *loss)
{
    const struct kernels_linear l = linear(layer, pass);
    pass->kernels->decoder->cross_entropy(pass->kernels, &l, y, labels, scale, loss);
}

static void download(const struct train_layer *layer, const struct train_pass *pass, const float *y,
                     float *to_host)
{
    const struct kernels_linear l = linear(layer, pass);
    pass->kernels->decoder->download_logits(pass->kernels, &l, y, to_host);
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
    .loss = loss,
    .download = download,
};

struct train_layer train_tied_head(size_t vocabulary)
{
    return (struct train_layer){.type = &type, .d.decoder = {.vocabulary = vocabulary}};
}
