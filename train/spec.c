// The shape of a model by itself, before there is a workspace for it.
#include "train/model.h"

#include <stdio.h>

size_t train_spec_layers(const struct train_model_spec *spec)
{
    return spec->n_hidden + 1;
}

size_t train_spec_width(const struct train_model_spec *spec, size_t i)
{
    BASE_ASSERT(i <= spec->n_hidden + 1);
    return i == 0 ? spec->inputs : i <= spec->n_hidden ? spec->hidden[i - 1] : spec->classes;
}

size_t train_spec_parameters(const struct train_model_spec *spec)
{
    size_t parameters = 0;
    for (size_t layer = 0; layer < train_spec_layers(spec); layer++) {
        parameters += (train_spec_width(spec, layer) + 1) * train_spec_width(spec, layer + 1);
    }
    return parameters;
}

void train_spec_describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    static const char *const losses[] = {
        [TRAIN_CROSS_ENTROPY] = "", [TRAIN_MSE] = ", mse", [TRAIN_MAE] = ", mae"};
    const char *lone = spec->loss == TRAIN_CROSS_ENTROPY ? "softmax" : "linear";
    int used = snprintf(text, capacity, "%s ", spec->kind == TRAIN_SOFTMAX ? lone : "mlp");
    for (size_t i = 0; i <= train_spec_layers(spec) && used >= 0 && (size_t)used < capacity; i++) {
        used += snprintf(text + used, capacity - (size_t)used, i == 0 ? "%zu" : "-%zu",
                         train_spec_width(spec, i));
    }
    if (used >= 0 && (size_t)used < capacity) {
        (void)snprintf(text + used, capacity - (size_t)used, "%s", losses[spec->loss]);
    }
}

static enum base_error check_hidden(const struct train_model_spec *spec, struct base_reason *why)
{
    if (spec->kind == TRAIN_SOFTMAX && spec->n_hidden != 0) {
        return base_fail(why, BASE_EINVAL,
                         "softmax regression has no hidden layers, but %zu were given; take kind mlp",
                         spec->n_hidden);
    }
    if (spec->kind == TRAIN_MLP && (spec->n_hidden == 0 || spec->n_hidden > LIMIT_LAYERS)) {
        return base_fail(why, BASE_EINVAL, "the mlp has %zu hidden layers; expected 1 to %u", spec->n_hidden,
                         LIMIT_LAYERS);
    }
    for (size_t i = 0; i < spec->n_hidden; i++) {
        if (spec->hidden[i] == 0 || spec->hidden[i] > LIMIT_PARAMETERS) {
            return base_fail(why, BASE_EINVAL, "hidden layer %zu has %zu units; expected 1 to %u", i,
                             spec->hidden[i], LIMIT_PARAMETERS);
        }
    }
    return BASE_OK;
}

// Widths are at most 2^30 here, so that sums and products stay within 64 bits.
static enum base_error check_parameters(const struct train_model_spec *spec, struct base_reason *why)
{
    size_t parameters = 0;
    for (size_t layer = 0; layer < train_spec_layers(spec); layer++) {
        size_t in = train_spec_width(spec, layer), out = train_spec_width(spec, layer + 1);
        parameters += (in + 1) * out;
        if (parameters > LIMIT_PARAMETERS) {
            return base_fail(why, BASE_EINVAL, "the model has over %u parameters at layer %zu (%zu x %zu)",
                             LIMIT_PARAMETERS, layer, in, out);
        }
    }
    return BASE_OK;
}

enum base_error train_spec_check(const struct train_model_spec *spec, struct base_reason *why)
{
    if (spec->kind != TRAIN_SOFTMAX && spec->kind != TRAIN_MLP) {
        return base_fail(why, BASE_EINVAL, "model kind %d is unknown; expected softmax or mlp",
                         (int)spec->kind);
    }
    if (spec->inputs == 0 || spec->inputs > LIMIT_PARAMETERS) {
        return base_fail(why, BASE_EINVAL, "the model has %zu inputs; expected 1 to %u", spec->inputs,
                         LIMIT_PARAMETERS);
    }
    const size_t least = spec->loss == TRAIN_CROSS_ENTROPY ? 2 : 1;
    if (spec->classes < least || spec->classes > LIMIT_CLASSES) {
        return base_fail(why, BASE_EINVAL, "the model has %zu %s; expected %zu to %u", spec->classes,
                         least == 2 ? "classes" : "outputs", least, LIMIT_CLASSES);
    }
    enum base_error error = check_hidden(spec, why);
    return error == BASE_OK ? check_parameters(spec, why) : error;
}
