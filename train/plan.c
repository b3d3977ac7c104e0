#include "train/plan.h"

#include "base/array.h"
#include "train/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct train_tensor_list {
    struct train_plan *plan;
    const struct train_layer *layer;
};

void train_plan_add(struct train_plan *plan, struct train_layer layer, const char *name, const char *abroad)
{
    struct train_layer *layers =
        plan->full ? NULL : base_array_grow(plan->layers, plan->n_layers, sizeof layer);
    if (!layers) {
        plan->full = true;
        return;
    }
    plan->layers = layers;
    const int named = snprintf(layer.name, sizeof layer.name, "%s", name),
              called = snprintf(layer.abroad, sizeof layer.abroad, "%s", abroad);
    BASE_ASSERT(named >= 0 && (size_t)named < sizeof layer.name && called >= 0 &&
                (size_t)called < sizeof layer.abroad);
    layer.index = plan->n_layers;
    plan->layers[plan->n_layers++] = layer;
}

static void put_name(const char *prefix, const char *name, char *full)
{
    const int bytes = snprintf(full, LIMIT_TENSOR_NAME_BYTES, "%s%s%s", prefix, prefix[0] ? "." : "", name);
    BASE_ASSERT(bytes > 0 && (unsigned)bytes < LIMIT_TENSOR_NAME_BYTES);
}

struct train_tensor *train_tensor_add(struct train_tensor_list *list, const char *name, size_t n_dims,
                                      const size_t *shape)
{
    static struct train_tensor nowhere; // written to when there is no memory; never read
    struct train_plan *plan = list->plan;
    BASE_ASSERT(n_dims >= 1 && n_dims <= TRAIN_DIMS);
    struct train_tensor *tensors =
        plan->full ? NULL : base_array_grow(plan->tensors, plan->n_tensors, sizeof *tensors);
    if (!tensors) {
        plan->full = true;
        return &nowhere;
    }
    plan->tensors = tensors;
    struct train_tensor *tensor = &plan->tensors[plan->n_tensors++];
    *tensor = (struct train_tensor){.n_dims = n_dims, .offset = plan->parameters, .count = 1};
    put_name(list->layer->name, name, tensor->name);
    put_name(list->layer->abroad, name, tensor->abroad.name);
    tensor->abroad.n_dims = tensor->abroad.n_view = n_dims;
    for (size_t i = 0; i < n_dims; i++) {
        tensor->shape[i] = tensor->abroad.view[i] = tensor->abroad.shape[i] = shape[i];
        tensor->abroad.order[i] = i;
        tensor->count *= shape[i];
    }
    plan->parameters += tensor->count;
    return tensor;
}

void train_tensor_permute(struct train_tensor *tensor, const size_t *order)
{
    for (size_t i = 0; i < tensor->n_dims; i++) {
        tensor->abroad.order[i] = order[i];
        tensor->abroad.shape[i] = tensor->shape[order[i]];
    }
}

static enum base_error check_spec(const struct train_model_spec *spec, struct base_reason *why)
{
    const struct train_model_type *type = train_model_type(spec->kind);
    if (!type) {
        return base_fail(why, BASE_EINVAL, "model kind %d is unknown; expected below %d", (int)spec->kind,
                         (int)TRAIN_MODELS);
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
    return type->check ? type->check(spec, why) : BASE_OK;
}

// Marks the hidden matrices. Of a convolution, the matrix is that of its product: windows x outputs.
static void mark_hidden(const struct train_plan *plan, const struct train_layer *layer, size_t first)
{
    if (layer->index == 0 || layer->index + 1 == plan->n_layers)
        return;
    for (size_t i = first; i < plan->n_tensors; i++) {
        struct train_tensor *tensor = &plan->tensors[i];
        if (tensor->n_dims >= 2)
            tensor->hidden_rows = tensor->count / tensor->shape[tensor->n_dims - 1];
    }
}

// Sets the input, output and tensors of a layer.
static enum base_error place(struct train_plan *plan, struct train_layer *layer, struct base_reason *why)
{
    layer->in = layer->index > 0 ? plan->layers[layer->index - 1].out : plan->in;
    enum base_error error = layer->type->check(layer, &layer->in, &layer->out, why);
    if (error)
        return base_fail_context(why, error, "layer '%s' (%s)", layer->name, layer->type->name);
    const size_t first = plan->n_tensors;
    if (layer->type->tensors)
        layer->type->tensors(layer, &(struct train_tensor_list){.plan = plan, .layer = layer});
    layer->n_tensors = plan->n_tensors - first;
    mark_hidden(plan, layer, first);
    if (plan->parameters > LIMIT_PARAMETERS || plan->n_tensors > LIMIT_TENSORS) {
        return base_fail(why, BASE_EINVAL,
                         "the model has over %u parameters or %u tensors at layer '%s' (%s)",
                         LIMIT_PARAMETERS, LIMIT_TENSORS, layer->name, layer->type->name);
    }
    return BASE_OK;
}

enum base_error train_plan_fill(struct train_plan *plan, struct base_reason *why)
{
    for (size_t i = 0; i < plan->n_layers && !plan->full; i++) {
        const enum base_error error = place(plan, &plan->layers[i], why);
        if (error)
            return error;
    }
    if (plan->full)
        return base_fail(why, BASE_ENOMEM, "out of memory for the layers of a model");
    const struct train_tensor *tensors = plan->tensors; // they do not move from here on
    for (size_t i = 0; i < plan->n_layers; i++) {
        plan->layers[i].tensors = tensors;
        plan->layers[i].layers = plan->layers;
        if (plan->layers[i].n_tensors > 0)
            tensors += plan->layers[i].n_tensors;
    }
    plan->out = plan->layers[plan->n_layers - 1].out;
    return BASE_OK;
}

enum base_error train_plan_create(const struct train_model_spec *spec, struct train_plan *plan,
                                  struct base_reason *why)
{
    *plan = (struct train_plan){0};
    enum base_error error = check_spec(spec, why);
    if (error)
        return error;
    train_model_type(spec->kind)->build(spec, plan);
    error = train_plan_fill(plan, why);
    if (error) {
        train_plan_destroy(plan);
        return error;
    }
    BASE_ASSERT(train_shape_count(&plan->in) == spec->inputs);
    BASE_ASSERT(train_shape_width(&plan->out) == spec->classes);
    return BASE_OK;
}

void train_plan_destroy(struct train_plan *plan)
{
    free(plan->layers);
    free(plan->tensors);
    *plan = (struct train_plan){0};
}

void train_abroad_begin(const struct train_tensor *tensor, struct train_abroad_walk *walk)
{
    const struct train_abroad *abroad = &tensor->abroad;
    size_t stride[TRAIN_DIMS], below = 1;
    for (size_t i = abroad->n_view; i-- > 0; below *= abroad->view[i])
        stride[i] = below;
    BASE_ASSERT(below == tensor->count);
    *walk = (struct train_abroad_walk){.n_dims = abroad->n_view};
    for (size_t i = 0; i < abroad->n_view; i++) {
        walk->extent[i] = abroad->view[abroad->order[i]];
        walk->stride[i] = stride[abroad->order[i]];
    }
}

size_t train_abroad_next(struct train_abroad_walk *walk)
{
    const size_t place = walk->place;
    for (size_t i = walk->n_dims; i-- > 0;) {
        walk->place += walk->stride[i];
        if (++walk->at[i] < walk->extent[i])
            break;
        walk->place -= walk->extent[i] * walk->stride[i];
        walk->at[i] = 0;
    }
    return place;
}

enum base_error train_spec_check(const struct train_model_spec *spec, struct base_reason *why)
{
    struct train_plan plan;
    const enum base_error error = train_plan_create(spec, &plan, why);
    train_plan_destroy(&plan);
    return error;
}

enum base_error train_spec_parse(const char *text, struct train_model_spec *spec, struct base_reason *why)
{
    const size_t word = strcspn(text, " ");
    for (int kind = 0; kind < TRAIN_MODELS; kind++) {
        const struct train_model_type *type = train_model_type((enum train_model_kind)kind);
        if (strlen(type->name) != word || strncmp(type->name, text, word) != 0 || !type->parse)
            continue;
        struct train_model_spec parsed = {.kind = (enum train_model_kind)kind};
        if (!type->parse(text + word, &parsed))
            return base_fail(why, BASE_EFORMAT, "'%.100s' is not a model of kind %s", text, type->name);
        const enum base_error error = train_spec_check(&parsed, why);
        *spec = error ? *spec : parsed;
        return error;
    }
    return BASE_ENOTFOUND;
}

void train_spec_describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    train_model_type(spec->kind)->describe(spec, text, capacity);
}

static enum base_error check_name(const struct train_tensor *tensors, size_t at, struct base_reason *why)
{
    const char *name = tensors[at].name;
    if (name[0] == '\0')
        return base_fail(why, BASE_EINVAL, "tensor %zu has no name", at);
    for (size_t i = 0; i < at; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return base_fail(why, BASE_EINVAL, "tensors %zu and %zu are both named '%s'", i, at, name);
    return BASE_OK;
}

// The number of elements; 0 if there are none or too many.
static size_t count_elements(const struct train_tensor *tensor)
{
    size_t count = 1;
    for (size_t dim = 0; dim < tensor->n_dims; dim++) {
        if (tensor->shape[dim] == 0 || tensor->shape[dim] > LIMIT_PARAMETERS / count)
            return 0;
        count *= tensor->shape[dim];
    }
    return count;
}

enum base_error train_plan_lay_out(struct train_plan *plan, struct base_reason *why)
{
    for (size_t i = 0; i < plan->n_tensors; i++) {
        struct train_tensor *tensor = &plan->tensors[i];
        enum base_error error = check_name(plan->tensors, i, why);
        if (error)
            return error;
        BASE_ASSERT(tensor->n_dims <= TRAIN_DIMS);
        tensor->count = count_elements(tensor);
        tensor->offset = plan->parameters;
        plan->parameters += tensor->count;
        if (tensor->count == 0 || plan->parameters > LIMIT_PARAMETERS) {
            return base_fail(why, BASE_EINVAL,
                             "tensor '%s' has a dimension of 0, or with it the model has over %u elements",
                             tensor->name, LIMIT_PARAMETERS);
        }
    }
    return BASE_OK;
}
