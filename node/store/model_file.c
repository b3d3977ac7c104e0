#include "node/store/model_file.h"

#include "node/store/safetensors.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS (2 * (LIMIT_LAYERS + 1))

int32_t node_model_label(const struct node_model_about *about, size_t class)
{
    if (about->first_label < 0)
        return class ? 1 : -1;
    return about->first_label + (int32_t) class;
}

void node_model_labels_text(const struct node_model_about *about, size_t classes, char text[NODE_MODEL_TEXT])
{
    const int32_t first = node_model_label(about, 0), last = node_model_label(about, classes - 1);
    snprintf(text, NODE_MODEL_TEXT, first < 0 ? "%" PRId32 " %" PRId32 : "%" PRId32 "..%" PRId32, first,
             last);
}

void node_model_divisor_text(const struct node_model_about *about, char text[NODE_MODEL_TEXT])
{
    snprintf(text, NODE_MODEL_TEXT, "%.9g", (double)about->input_divisor);
}

// [in, out] to [out, in].
static float *transposed(const float *from, size_t in, size_t out)
{
    float *to = malloc(in * out * sizeof *to);
    for (size_t i = 0; to && i < in; i++)
        for (size_t o = 0; o < out; o++)
            to[o * in + i] = from[i * out + o];
    return to;
}

static void describe(const char *part, size_t layer, size_t out, size_t in, const float *data,
                     struct node_tensor *tensor)
{
    const size_t count = in ? out * in : out;
    *tensor = (struct node_tensor){.type = NODE_TENSOR_F32,
                                   .shape = {out, in},
                                   .n_dims = in ? 2 : 1,
                                   .bytes = count * sizeof *data,
                                   .data = data};
    snprintf(tensor->name, sizeof tensor->name, "%zu.%s", 2 * layer, part); // the ReLUs have the odd numbers
}

static enum base_error check_finite(const struct node_tensor *tensor, struct base_reason *why)
{
    for (size_t i = 0; i < tensor->bytes / sizeof(float); i++)
        if (!isfinite(((const float *)tensor->data)[i]))
            return base_fail(why, BASE_ESTATE, "its tensor '%s' holds NaN or infinity", tensor->name);
    return BASE_OK;
}

// weights[layers] are malloc'ed here, the caller frees them.
static enum base_error draft(const struct node_model_file *model, float **weights,
                             struct node_tensor *tensors, struct base_reason *why)
{
    const float *at = model->parameters;
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < train_spec_layers(&model->spec) && !error; i++) {
        const size_t in = train_spec_width(&model->spec, i), out = train_spec_width(&model->spec, i + 1);
        weights[i] = transposed(at, in, out);
        if (!weights[i])
            return base_fail(why, BASE_ENOMEM, "no memory for a weight of %zu x %zu", out, in);
        describe("weight", i, out, in, weights[i], &tensors[2 * i]);
        describe("bias", i, out, 0, at + in * out, &tensors[2 * i + 1]);
        error = check_finite(&tensors[2 * i], why);
        if (!error)
            error = check_finite(&tensors[2 * i + 1], why);
        at += (in + 1) * out;
    }
    return error;
}

enum base_error node_model_write(const char *path, const struct node_model_file *model,
                                 struct base_reason *why)
{
    struct node_tensor *tensors = calloc(MOST_TENSORS, sizeof *tensors);
    float *weights[LIMIT_LAYERS + 1] = {0};
    struct node_text_pair pairs[6] = {{"format", "pt"}, {"p2pml", "model 1"},  {"model", ""},
                                      {"labels", ""},   {"input_divisor", ""}, {"origin", ""}};
    train_spec_describe(&model->spec, pairs[2].value, sizeof pairs[2].value);
    node_model_labels_text(&model->about, model->spec.classes, pairs[3].value);
    node_model_divisor_text(&model->about, pairs[4].value);
    snprintf(pairs[5].value, sizeof pairs[5].value, "%s", model->about.origin);
    enum base_error error = tensors ? draft(model, weights, tensors, why)
                                    : base_fail(why, BASE_ENOMEM, "no memory to describe a model");
    if (!error)
        error = node_safetensors_write(path, tensors, 2 * train_spec_layers(&model->spec), pairs,
                                       sizeof pairs / sizeof *pairs, why);
    else
        error = base_fail_context(why, error, "cannot write '%s'", path);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        free(weights[i]);
    free(tensors);
    return error;
}

void node_model_free(struct node_model_file *model)
{
    free(model->parameters);
    *model = (struct node_model_file){0};
}
