// Softmax regression and multilayer perceptrons with ReLU; softmax regression has no hidden layers.
#include "train/layers.h"
#include "train/models.h"

#include <stdio.h>

static size_t width(const struct train_model_spec *spec, size_t i)
{
    return i == 0 ? spec->inputs : i <= spec->n_hidden ? spec->hidden[i - 1] : spec->classes;
}

static void describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    static const char *const losses[] = {
        [TRAIN_CROSS_ENTROPY] = "", [TRAIN_MSE] = ", mse", [TRAIN_MAE] = ", mae"};
    const char *lone = spec->loss == TRAIN_CROSS_ENTROPY ? "softmax" : "linear";
    int used = snprintf(text, capacity, "%s ", spec->kind == TRAIN_SOFTMAX ? lone : "mlp");
    for (size_t i = 0; i <= spec->n_hidden + 1 && used >= 0 && (size_t)used < capacity; i++)
        used += snprintf(text + used, capacity - (size_t)used, i == 0 ? "%zu" : "-%zu", width(spec, i));
    if (used >= 0 && (size_t)used < capacity)
        (void)snprintf(text + used, capacity - (size_t)used, "%s", losses[spec->loss]);
}

// Widths are at most 2^30 here, so that sums and products stay within 64 bits.
static enum base_error check_parameters(const struct train_model_spec *spec, struct base_reason *why)
{
    size_t parameters = 0;
    for (size_t layer = 0; layer <= spec->n_hidden; layer++) {
        const size_t in = width(spec, layer), out = width(spec, layer + 1);
        parameters += (in + 1) * out;
        if (parameters > LIMIT_PARAMETERS)
            return base_fail(why, BASE_EINVAL, "the model has over %u parameters at layer %zu (%zu x %zu)",
                             LIMIT_PARAMETERS, layer, in, out);
    }
    return BASE_OK;
}

static enum base_error check_softmax(const struct train_model_spec *spec, struct base_reason *why)
{
    if (spec->n_hidden != 0)
        return base_fail(why, BASE_EINVAL,
                         "softmax regression has no hidden layers, but %zu were given; use kind mlp",
                         spec->n_hidden);
    return check_parameters(spec, why);
}

static enum base_error check_mlp(const struct train_model_spec *spec, struct base_reason *why)
{
    if (spec->n_hidden == 0 || spec->n_hidden > LIMIT_LAYERS)
        return base_fail(why, BASE_EINVAL, "the mlp has %zu hidden layers; expected 1 to %u", spec->n_hidden,
                         LIMIT_LAYERS);
    for (size_t i = 0; i < spec->n_hidden; i++) {
        if (spec->hidden[i] == 0 || spec->hidden[i] > LIMIT_PARAMETERS)
            return base_fail(why, BASE_EINVAL, "hidden layer %zu has %zu units; expected 1 to %u", i,
                             spec->hidden[i], LIMIT_PARAMETERS);
    }
    return check_parameters(spec, why);
}

// Torch's nn.Sequential counts the ReLUs, too; they have the odd numbers.
static void build(const struct train_model_spec *spec, struct train_plan *plan)
{
    plan->in = (struct train_shape){.positions = 1, .height = 1, .width = 1, .channels = spec->inputs};
    for (size_t i = 0; i <= spec->n_hidden; i++) {
        char name[LIMIT_TENSOR_NAME_BYTES / 2], abroad[LIMIT_TENSOR_NAME_BYTES / 2];
        (void)snprintf(name, sizeof name, "layers.%zu", i);
        (void)snprintf(abroad, sizeof abroad, "%zu", 2 * i);
        train_plan_add(plan, train_linear(width(spec, i + 1), i < spec->n_hidden), name, abroad);
    }
}

const struct train_model_type train_model_softmax = {
    .name = "softmax", .check = check_softmax, .build = build, .describe = describe};
const struct train_model_type train_model_mlp = {
    .name = "mlp", .check = check_mlp, .build = build, .describe = describe};
