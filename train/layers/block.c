// A block of GPT-2 (Radford, Wu, Child, Luan, Amodei, Sutskever 2019): x2 = x + proj(attention(ln_1(x))), y =
// x2 + proj(gelu(fc(ln_2(x2)))). Weights are [inputs, outputs], as in GPT-2.
#include "train/layers.h"

#include <math.h>
#include <stdio.h>

enum { LN_1, LN_1_BIAS, ATTN, ATTN_BIAS, OUT, OUT_BIAS, LN_2, LN_2_BIAS, FC, FC_BIAS, PROJ, PROJ_BIAS };
enum { DROP_ATTENTION, DROP_MLP }; // streams of dropout

static enum base_error check(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why)
{
    const size_t heads = layer->d.decoder.heads, width = train_shape_width(in);
    if (in->ids)
        return base_fail(why, BASE_EINVAL, "it takes numbers, but the layer below gives ids");
    if (heads == 0 || width % heads != 0) {
        return base_fail(why, BASE_EINVAL, "width %zu and %zu heads; expected heads that divide the width",
                         width, heads);
    }
    if (width > LIMIT_PARAMETERS / 4 / width) {
        return base_fail(why, BASE_EINVAL, "width %zu; expected 4 width^2 to be at most %u", width,
                         LIMIT_PARAMETERS);
    }
    *out = *in;
    return BASE_OK;
}

static void tensors(const struct train_layer *layer, struct train_tensor_list *list)
{
    const size_t c = train_shape_width(&layer->in);
    const struct {
        const char *name;
        size_t inputs, outputs;
    } all[] = {{"ln_1", 0, c}, {"attn.c_attn", c, 3 * c}, {"attn.c_proj", c, c},
               {"ln_2", 0, c}, {"mlp.c_fc", c, 4 * c},    {"mlp.c_proj", 4 * c, c}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[LIMIT_TENSOR_NAME_BYTES / 2];
        (void)snprintf(name, sizeof name, "%s.weight", all[i].name);
        if (all[i].inputs > 0)
            (void)train_tensor_add(list, name, 2, (const size_t[]){all[i].inputs, all[i].outputs});
        else
            (void)train_tensor_add(list, name, 1, &all[i].outputs);
        (void)snprintf(name, sizeof name, "%s.bias", all[i].name);
        (void)train_tensor_add(list, name, 1, &all[i].outputs);
    }
}

static bool runs(const struct kernels *kernels)
{
    return kernels->decoder != NULL;
}

static size_t rows_of(const struct train_layer *layer, size_t examples)
{
    return examples * layer->in.positions;
}

static struct kernels_attention shape_of(const struct train_layer *layer, size_t examples)
{
    const size_t heads = layer->d.decoder.heads;
    return (struct kernels_attention){.sequences = examples,
                                      .tokens = layer->in.positions,
                                      .heads = heads,
                                      .width = train_shape_width(&layer->in) / heads};
}

// The results of forward that backward needs. The first six are activations of 1, 3, 1, 1, 4 and 4 widths per
// row; `gelu` is for the gradient of the GELU.
struct kept {
    void *normal_1, *qkv, *mixed, *normal_2, *gelu, *bent;
    float *x2;                                      // 1 width per row
    float *mean_1, *inverse_1, *mean_2, *inverse_2; // [rows]
    float *log_sum;                                 // [examples, heads, tokens]
};

// Takes `floats` floats of the memory at `at`, of which *used are taken already; `at` NULL: only counts them.
static float *take(float *at, size_t floats, size_t *used)
{
    float *const place = at ? at + *used : NULL;
    *used += floats;
    return place;
}

// Divides the memory at `at` and returns the number of floats; `at` NULL: only returns it.
static size_t divide(const struct train_layer *layer, const struct kernels_decoder *d, size_t examples,
                     float *at, struct kept *kept)
{
    const size_t rows = rows_of(layer, examples), c = rows * train_shape_width(&layer->in);
    size_t used = 0;
    kept->normal_1 = take(at, kernels_activation_floats(d, c), &used);
    kept->qkv = take(at, kernels_activation_floats(d, 3 * c), &used);
    kept->mixed = take(at, kernels_activation_floats(d, c), &used);
    kept->normal_2 = take(at, kernels_activation_floats(d, c), &used);
    kept->gelu = take(at, kernels_activation_floats(d, 4 * c), &used);
    kept->bent = take(at, kernels_activation_floats(d, 4 * c), &used);
    kept->x2 = take(at, c, &used);
    kept->mean_1 = take(at, rows, &used);
    kept->inverse_1 = take(at, rows, &used);
    kept->mean_2 = take(at, rows, &used);
    kept->inverse_2 = take(at, rows, &used);
    kept->log_sum = take(at, rows * layer->d.decoder.heads, &used);
    return used;
}

// Workspace of backward. wide, narrow: gradients of 4 widths and of 1. branch: the gradient that reaches a
// branch, as an activation, if activations are narrower than fp32. dropped: the same in fp32, with dropout.
// rest: the workspace of attention or of a column sum.
struct scratch {
    void *wide, *narrow, *branch;
    float *dropped, *rest;
};

static bool has_dropout(const struct train_layer *layer)
{
    return layer->d.decoder.dropout > 0.0f;
}

static size_t divide_scratch(const struct train_layer *layer, const struct kernels_decoder *d,
                             size_t examples, float *at, struct scratch *s)
{
    const size_t c = rows_of(layer, examples) * train_shape_width(&layer->in);
    size_t used = 0;
    s->wide = take(at, kernels_activation_floats(d, 4 * c), &used);
    s->narrow = take(at, kernels_activation_floats(d, c), &used);
    s->branch = take(at, d->activation_bytes < sizeof(float) ? kernels_activation_floats(d, c) : 0, &used);
    s->dropped = take(at, has_dropout(layer) ? c : 0, &used);
    s->rest = take(at, 0, &used);
    return used;
}

static void floats(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats)
{
    const struct kernels_attention shape = shape_of(layer, examples);
    const size_t attention = kernels_attention_scratch(&shape), sums = 4 * train_shape_width(&layer->in);
    struct kept kept;
    struct scratch scratch;
    floats->kept = divide(layer, kernels->decoder, examples, NULL, &kept);
    floats->scratch = divide_scratch(layer, kernels->decoder, examples, NULL, &scratch) +
                      (attention > sums ? attention : sums);
}

// The standard deviation is 0.02, divided by sqrt(2 layers) for projections into the residual stream (Radford
// et al. 2019, 2.3).
static void initialise(const struct train_layer *layer, struct base_rng *rng, float *parameters)
{
    const double branch = 0.02 / sqrt(2.0 * (double)layer->d.decoder.layers);
    const struct train_tensor *t = layer->tensors;
    train_layer_fill(t[LN_1].count, 1.0f, parameters + t[LN_1].offset);
    train_layer_fill(t[LN_2].count, 1.0f, parameters + t[LN_2].offset);
    train_layer_normal(rng, 0.02, t[ATTN].count, parameters + t[ATTN].offset);
    train_layer_normal(rng, branch, t[OUT].count, parameters + t[OUT].offset);
    train_layer_normal(rng, 0.02, t[FC].count, parameters + t[FC].offset);
    train_layer_normal(rng, branch, t[PROJ].count, parameters + t[PROJ].offset);
}

// What is constant during a call. width: numbers per position.
struct call {
    const struct train_layer *layer;
    const struct train_pass *pass;
    const struct kernels *k;
    const struct kernels_decoder *d;
    const float *parameters;
    float *gradient;
    size_t rows, width;
};

static struct call call_of(const struct train_layer *layer, const struct train_pass *pass,
                           const float *parameters, float *gradient)
{
    return (struct call){.layer = layer,
                         .pass = pass,
                         .k = pass->kernels,
                         .d = pass->kernels->decoder,
                         .parameters = parameters,
                         .gradient = gradient,
                         .rows = rows_of(layer, pass->examples),
                         .width = train_shape_width(&layer->in)};
}

static const float *weight(const struct call *call, size_t tensor)
{
    return call->parameters + call->layer->tensors[tensor].offset;
}

static float *slope(const struct call *call, size_t tensor)
{
    return call->gradient + call->layer->tensors[tensor].offset;
}

static struct kernels_linear linear(const struct call *call, size_t inputs, size_t outputs)
{
    return (struct kernels_linear){call->rows, inputs * call->width, outputs * call->width,
                                   call->pass->accumulate};
}

static bool drops(const struct call *call)
{
    return call->pass->training && has_dropout(call->layer);
}

static void drop(const struct call *call, unsigned which, const float *x, float *out)
{
    call->k->sequence->dropout(call->rows * call->width, train_layer_stream(call->layer, call->pass, which),
                               call->layer->d.decoder.dropout, x, out);
}

// out = x + dropout(branch W + b); W is tensor number `tensor`, b the next one; `inputs` in widths.
static void add_branch(const struct call *call, size_t tensor, unsigned which, size_t inputs, const float *x,
                       const void *branch, float *out)
{
    const struct kernels_linear l = linear(call, inputs, 1);
    call->d->linear_add(call->k, &l, branch, weight(call, tensor), weight(call, tensor + 1),
                        drops(call) ? NULL : x, out);
    if (drops(call)) {
        drop(call, which, out, out);
        train_layer_add(call->k, call->rows * call->width, x, out);
    }
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *memory)
{
    const struct kernels *k = pass->kernels;
    const struct kernels_attention shape = shape_of(layer, pass->examples);
    const struct call call = call_of(layer, pass, parameters, NULL);
    const struct kernels_linear to_qkv = linear(&call, 1, 3), to_wide = linear(&call, 1, 4);
    struct kept kept;
    (void)divide(layer, call.d, pass->examples, memory, &kept);
    call.d->layernorm(k, call.rows, call.width, x, weight(&call, LN_1), weight(&call, LN_1_BIAS),
                      kept.normal_1, kept.mean_1, kept.inverse_1);
    call.d->linear(k, &to_qkv, kept.normal_1, weight(&call, ATTN), weight(&call, ATTN_BIAS), kept.qkv);
    call.d->attention(k, &shape, kept.qkv, pass->scratch, kept.mixed, kept.log_sum);
    add_branch(&call, OUT, DROP_ATTENTION, 1, x, kept.mixed, kept.x2);
    call.d->layernorm(k, call.rows, call.width, kept.x2, weight(&call, LN_2), weight(&call, LN_2_BIAS),
                      kept.normal_2, kept.mean_2, kept.inverse_2);
    call.d->linear_gelu(k, &to_wide, kept.normal_2, weight(&call, FC), weight(&call, FC_BIAS), kept.gelu,
                        kept.bent);
    add_branch(&call, PROJ, DROP_MLP, 4, kept.x2, kept.bent, y);
}

// The gradients of the linear map whose W is tensor number `tensor`, and that of its x; sizes in widths.
static void linear_backward(const struct call *call, size_t tensor, size_t inputs, size_t outputs,
                            const void *x, const void *grad, const void *gelu, float *sums, void *grad_x)
{
    const struct kernels_linear l = linear(call, inputs, outputs);
    call->d->linear_backward(call->k, &l, x, weight(call, tensor), grad, gelu, sums, slope(call, tensor),
                             slope(call, tensor + 1), grad_x);
}

// The gradient that reaches a branch of the residual stream, as an activation.
static const void *branch_of(const struct call *call, unsigned which, const float *dy,
                             const struct scratch *s)
{
    if (drops(call)) {
        drop(call, which, dy, s->dropped);
        dy = s->dropped;
    }
    return call->d->activation(call->k, call->rows * call->width, dy, s->branch);
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *memory, float *gradient)
{
    const struct kernels *k = pass->kernels;
    const struct kernels_attention shape = shape_of(layer, pass->examples);
    const struct call call = call_of(layer, pass, parameters, gradient);
    const struct kernels_norm norm = {call.rows, call.width, pass->accumulate};
    struct scratch s;
    struct kept kept;
    (void)y;
    (void)divide(layer, call.d, pass->examples, memory, &kept);
    (void)divide_scratch(layer, call.d, pass->examples, pass->scratch, &s);
    const void *branch = branch_of(&call, DROP_MLP, dy, &s);
    linear_backward(&call, PROJ, 4, 1, kept.bent, branch, kept.gelu, s.rest, s.wide);
    linear_backward(&call, FC, 1, 4, kept.normal_2, s.wide, NULL, s.rest, s.narrow);
    call.d->layernorm_backward(k, &norm, s.narrow, kept.x2, weight(&call, LN_2), kept.mean_2, kept.inverse_2,
                               dy, dy, slope(&call, LN_2), slope(&call, LN_2_BIAS));
    branch = branch_of(&call, DROP_ATTENTION, dy, &s);
    linear_backward(&call, OUT, 1, 1, kept.mixed, branch, NULL, s.rest, s.narrow);
    call.d->attention_backward(k, &shape, kept.qkv, kept.mixed, kept.log_sum, s.narrow, s.rest, s.wide);
    linear_backward(&call, ATTN, 1, 3, kept.normal_1, s.wide, NULL, s.rest, s.narrow);
    call.d->layernorm_backward(k, &norm, s.narrow, x, weight(&call, LN_1), kept.mean_1, kept.inverse_1, dy,
                               dx ? dx : dy, slope(&call, LN_1), slope(&call, LN_1_BIAS));
}

static const struct train_layer_type type = {
    .name = "block",
    .check = check,
    .tensors = tensors,
    .runs = runs,
    .floats = floats,
    .initialise = initialise,
    .forward = forward,
    .backward = backward,
};

struct train_layer train_block(size_t heads, size_t layers, float dropout)
{
    return (struct train_layer){.type = &type,
                                .d.decoder = {.heads = heads, .layers = layers, .dropout = dropout}};
}
