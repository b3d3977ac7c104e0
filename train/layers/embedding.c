// Token and position embedding: y[t] = wte[id[t]] + wpe[t], with dropout. A head above may be tied to wte:
// the head then writes the gradient of wte, and this layer adds to it (train/layer.h).
#include "train/layers.h"

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t width = layer->d.decoder.width;
    if (!in->ids)
        return base_fail(why, BASE_EINVAL, "it takes ids of tokens, but the layer below gives numbers");
    if (width == 0 || width > LIMIT_PARAMETERS || in->vocabulary > LIMIT_PARAMETERS / width ||
        in->positions > LIMIT_PARAMETERS / width) {
        return base_fail(
            why, BASE_EINVAL,
            "vocabulary %zu and context %zu of width %zu; expected each 1 or more, and at most %u elements",
            in->vocabulary, in->positions, width, LIMIT_PARAMETERS);
    }
    *out = (struct train_shape){.positions = in->positions, .height = 1, .width = 1, .channels = width};
    return BASE_OK;
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t width = layer->d.decoder.width;
    (void)train_tensor_add(list, "wte.weight", 2, (const size_t[]){layer->in.vocabulary, width});
    (void)train_tensor_add(list, "wpe.weight", 2, (const size_t[]){layer->in.positions, width});
}

static bool runs(const struct kernels *kernels)
{
    return kernels->sequence != NULL;
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    (void)kernels;
    (void)examples;
    floats->scratch = train_shape_count(&layer->out); // for the gradient of wpe, if it is accumulated
}

static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    for (size_t i = 0; i < layer->n_tensors; i++)
        train_layer_normal(rng, 0.02, layer->tensors[i].count, parameters + layer->tensors[i].offset);
}

static void drop(const struct train_layer *layer, const struct train_pass *pass, float *y)
{
    if (pass->training && layer->d.decoder.dropout > 0.0f) {
        pass->kernels->sequence->dropout(pass->examples * train_shape_count(&layer->out),
                                         train_layer_stream(layer, pass, 0), layer->d.decoder.dropout, y, y);
    }
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept)
{
    const size_t tokens = layer->in.positions;
    (void)kept;
    pass->kernels->sequence->embed(pass->examples * tokens, tokens, layer->d.decoder.width, x,
                                   parameters + layer->tensors[0].offset,
                                   parameters + layer->tensors[1].offset, y);
    drop(layer, pass, y);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient)
{
    const size_t tokens = layer->in.positions, width = layer->d.decoder.width;
    (void)parameters;
    (void)y;
    (void)kept;
    BASE_ASSERT(!dx);
    drop(layer, pass, dy);
    pass->kernels->sequence->embed_backward(pass->examples * tokens, width, x, dy,
                                            gradient + layer->tensors[0].offset);
    train_layer_column_sum(pass, pass->examples, tokens * width, dy, pass->scratch,
                           gradient + layer->tensors[1].offset);
}

static const struct train_layer_type type = {
    .name = "embedding",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_embedding(size_t width, float dropout)
{
    return (struct train_layer){.type = &type, .d.decoder = {.width = width, .dropout = dropout}};
}
