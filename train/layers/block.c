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
    if (in->ids) {
        return base_fail(why, BASE_EINVAL, "it takes numbers, but the layer below gives ids");
    }
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
        if (all[i].inputs > 0) {
            (void)train_tensor_add(list, name, 2, (const size_t[]){all[i].inputs, all[i].outputs});
        } else {
            (void)train_tensor_add(list, name, 1, &all[i].outputs);
        }
        (void)snprintf(name, sizeof name, "%s.bias", all[i].name);
        (void)train_tensor_add(list, name, 1, &all[i].outputs);
    }
}

static bool runs(const struct kernels *kernels)
{
    return kernels->sequence != NULL;
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

// The results of forward that backward needs. z: the slopes of GELU.
struct kept {
    float *normal_1, *qkv, *mixed, *x2, *normal_2, *z,
        *bent;                                      // rows of 1, 3, 1, 1, 1, 4, 4 widths; z: GELU's slope
    float *mean_1, *inverse_1, *mean_2, *inverse_2; // [rows]
    float *log_sum;                                 // [examples, heads, tokens]
};

// Divides the memory at `at` and returns the number of floats; `at` NULL: only returns it.
static size_t divide(const struct train_layer *layer, size_t examples, float *at, struct kept *kept)
{
    const size_t rows = rows_of(layer, examples), c = rows * train_shape_width(&layer->in);
    float **const parts[] = {&kept->normal_1,  &kept->qkv,    &kept->mixed,     &kept->x2,
                             &kept->normal_2,  &kept->z,      &kept->bent,      &kept->mean_1,
                             &kept->inverse_1, &kept->mean_2, &kept->inverse_2, &kept->log_sum};
    const size_t sizes[] = {c,     3 * c, c,    c,    c,    4 * c,
                            4 * c, rows,  rows, rows, rows, rows * layer->d.decoder.heads};
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i] = at != NULL ? at + used : NULL;
        used += sizes[i];
    }
    return used;
}

// Workspace of backward: gradients of 4 widths and of 1, with dropout a copy of the latter; then that of
// attention or of a column sum.
struct scratch {
    float *wide, *narrow, *dropped, *rest;
};

static struct scratch divide_scratch(const struct train_layer *layer, const struct train_pass *pass)
{
    const size_t c = rows_of(layer, pass->examples) * train_shape_width(&layer->in);
    const bool drops = layer->d.decoder.dropout > 0.0f;
    return (struct scratch){.wide = pass->scratch,
                            .narrow = pass->scratch + 4 * c,
                            .dropped = pass->scratch + 5 * c,
                            .rest = pass->scratch + (drops ? 6 : 5) * c};
}

static void floats(const struct train_layer *layer, size_t examples, struct train_layer_floats *floats)
{
    const struct kernels_attention shape = shape_of(layer, examples);
    const size_t width = train_shape_width(&layer->in), c = rows_of(layer, examples) * width;
    const size_t attention = kernels_attention_scratch(&shape), sums = 4 * width;
    struct kept kept;
    floats->kept = divide(layer, examples, NULL, &kept);
    floats->scratch = (layer->d.decoder.dropout > 0.0f ? 6 : 5) * c + (attention > sums ? attention : sums);
}

// Deviation 0.02, divided by sqrt(2 layers) for projections into the residual stream (Radford et al. 2019,
// 2.3).
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

// The constants of a call; `width` is the numbers per position.
struct call {
    const struct train_layer *layer;
    const struct train_pass *pass;
    const struct kernels *k;
    const float *parameters;
    float *gradient;
    size_t rows, width;
};

static const float *weight(const struct call *call, size_t tensor)
{
    return call->parameters + call->layer->tensors[tensor].offset;
}

static float *slope(const struct call *call, size_t tensor)
{
    return call->gradient + call->layer->tensors[tensor].offset;
}

static bool drops(const struct call *call)
{
    return call->pass->training && call->layer->d.decoder.dropout > 0.0f;
}

static void drop(const struct call *call, unsigned which, const float *x, float *out)
{
    call->k->sequence->dropout(call->rows * call->width, train_layer_stream(call->layer, call->pass, which),
                               call->layer->d.decoder.dropout, x, out);
}

// out = x + dropout(branch W + b); W is tensor number `tensor`, b the next one.
static void add_branch(const struct call *call, size_t tensor, unsigned which, size_t inputs, const float *x,
                       const float *branch, float *out)
{
    const float *w = weight(call, tensor), *bias = weight(call, tensor + 1);
    if (!drops(call)) {
        call->k->sequence->residual(call->rows, call->width, bias, x, out);
        call->k->gemm(false, false, call->rows, call->width, inputs, 1.0f, branch, w, 1.0f, out);
        return;
    }
    call->k->gemm(false, false, call->rows, call->width, inputs, 1.0f, branch, w, 0.0f, out);
    call->k->bias_add(call->rows, call->width, bias, out);
    drop(call, which, out, out);
    train_layer_add(call->k, call->rows * call->width, x, out);
}

static void forward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *memory)
{
    const struct kernels *k = pass->kernels;
    const struct kernels_attention shape = shape_of(layer, pass->examples);
    const size_t rows = rows_of(layer, pass->examples), c = train_shape_width(&layer->in);
    const struct call call = {layer, pass, k, parameters, NULL, rows, c};
    struct kept kept;
    (void)divide(layer, pass->examples, memory, &kept);
    k->sequence->layernorm(rows, c, x, weight(&call, LN_1), weight(&call, LN_1_BIAS), kept.normal_1,
                           kept.mean_1, kept.inverse_1);
    k->gemm(false, false, rows, 3 * c, c, 1.0f, kept.normal_1, weight(&call, ATTN), 0.0f, kept.qkv);
    k->bias_add(rows, 3 * c, weight(&call, ATTN_BIAS), kept.qkv);
    k->sequence->attention(&shape, kept.qkv, pass->scratch, kept.mixed, kept.log_sum);
    add_branch(&call, OUT, DROP_ATTENTION, c, x, kept.mixed, kept.x2);
    k->sequence->layernorm(rows, c, kept.x2, weight(&call, LN_2), weight(&call, LN_2_BIAS), kept.normal_2,
                           kept.mean_2, kept.inverse_2);
    k->gemm(false, false, rows, 4 * c, c, 1.0f, kept.normal_2, weight(&call, FC), 0.0f, kept.z);
    k->sequence->bias_gelu(rows, 4 * c, weight(&call, FC_BIAS), kept.z, kept.bent);
    add_branch(&call, PROJ, DROP_MLP, 4 * c, kept.x2, kept.bent, y);
}

// For y = x W + b: the gradients of W and b, and that of x, which is written to dx.
static void linear_backward(const struct call *call, size_t tensor, size_t inputs, size_t outputs,
                            const float *x, const float *dy, float *sums, float *dx)
{
    call->k->gemm(true, false, inputs, outputs, call->rows, 1.0f, x, dy, call->pass->accumulate ? 1.0f : 0.0f,
                  slope(call, tensor));
    train_layer_column_sum(call->pass, call->rows, outputs, dy, sums, slope(call, tensor + 1));
    call->k->gemm(false, true, call->rows, inputs, outputs, 1.0f, dy, weight(call, tensor), 0.0f, dx);
}

// The gradient that reaches a branch of the residual stream.
static const float *branch_of(const struct call *call, unsigned which, const float *dy, float *dropped)
{
    if (!drops(call)) {
        return dy;
    }
    drop(call, which, dy, dropped);
    return dropped;
}

static void backward(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *memory, float *gradient)
{
    const struct kernels *k = pass->kernels;
    const struct kernels_attention shape = shape_of(layer, pass->examples);
    const size_t rows = rows_of(layer, pass->examples), c = train_shape_width(&layer->in);
    const struct call call = {layer, pass, k, parameters, gradient, rows, c};
    const struct kernels_norm norm = {rows, c, pass->accumulate};
    const struct scratch s = divide_scratch(layer, pass);
    struct kept kept;
    (void)y;
    (void)divide(layer, pass->examples, memory, &kept);
    const float *branch = branch_of(&call, DROP_MLP, dy, s.dropped);
    linear_backward(&call, PROJ, 4 * c, c, kept.bent, branch, s.rest, s.wide);
    k->sequence->gelu_backward(rows * 4 * c, kept.z, s.wide);
    linear_backward(&call, FC, c, 4 * c, kept.normal_2, s.wide, s.rest, s.narrow);
    k->sequence->layernorm_backward(&norm, s.narrow, kept.x2, weight(&call, LN_2), kept.mean_2,
                                    kept.inverse_2, dy, dy, slope(&call, LN_2), slope(&call, LN_2_BIAS));
    branch = branch_of(&call, DROP_ATTENTION, dy, s.dropped);
    linear_backward(&call, OUT, c, c, kept.mixed, branch, s.rest, s.narrow);
    k->sequence->attention_backward(&shape, kept.qkv, kept.mixed, kept.log_sum, s.narrow, s.rest, s.wide);
    linear_backward(&call, ATTN, c, 3 * c, kept.normal_1, s.wide, s.rest, s.narrow);
    k->sequence->layernorm_backward(&norm, s.narrow, x, weight(&call, LN_1), kept.mean_1, kept.inverse_1, dy,
                                    dx != NULL ? dx : dy, slope(&call, LN_1), slope(&call, LN_1_BIAS));
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
