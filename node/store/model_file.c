#include "node/store/model_file.h"

#include "node/store/safetensors.h"
#include "train/plan.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The tensor as other programs have it. If the order differs, *moved gets a copy in their order, which the
// caller frees.
static enum base_error describe(const struct train_tensor *ours, const float *parameters, float **moved,
                                struct node_tensor *tensor, struct base_reason *why)
{
    const struct train_abroad *abroad = &ours->abroad;
    struct train_abroad_walk walk;
    const float *data = parameters + ours->offset;
    *tensor = (struct node_tensor){
        .type = NODE_TENSOR_F32, .n_dims = abroad->n_dims, .bytes = ours->count * sizeof *data, .data = data};
    snprintf(tensor->name, sizeof tensor->name, "%s", abroad->name);
    memcpy(tensor->shape, abroad->shape, abroad->n_dims * sizeof *abroad->shape);
    bool same = true;
    for (size_t i = 0; i < abroad->n_view; i++)
        same = same && abroad->order[i] == i;
    if (same)
        return BASE_OK;
    tensor->data = *moved = malloc(tensor->bytes);
    if (!*moved)
        return base_fail(why, BASE_ENOMEM, "no memory for the tensor '%s'", tensor->name);
    train_abroad_begin(ours, &walk);
    for (size_t i = 0; i < ours->count; i++)
        (*moved)[i] = data[train_abroad_next(&walk)];
    return BASE_OK;
}

static enum base_error check_finite(const struct node_tensor *tensor, struct base_reason *why)
{
    for (size_t i = 0; i < tensor->bytes / sizeof(float); i++)
        if (!isfinite(((const float *)tensor->data)[i]))
            return base_fail(why, BASE_ESTATE, "its tensor '%s' holds NaN or infinity", tensor->name);
    return BASE_OK;
}

// tensors and moved [plan->n_tensors]; moved[i] are malloc'ed here, the caller frees them.
static enum base_error draft(const struct train_plan *plan, const struct node_model_file *model,
                             float **moved, struct node_tensor *tensors, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < plan->n_tensors && !error; i++) {
        error = describe(&plan->tensors[i], model->parameters, &moved[i], &tensors[i], why);
        if (!error)
            error = check_finite(&tensors[i], why);
    }
    return error;
}

static enum base_error write_plan(const char *path, const struct train_plan *plan,
                                  const struct node_model_file *model, struct base_reason *why)
{
    struct node_tensor *tensors = calloc(plan->n_tensors, sizeof *tensors);
    float **moved = calloc(plan->n_tensors, sizeof *moved);
    struct node_text_pair pairs[4 + NODE_MODEL_ABOUT_PAIRS] = {{.key = "format", .value = "pt"},
                                                               {.key = "p2pml", .value = "model 1"},
                                                               {.key = "model"},
                                                               {.key = "origin"}};
    char *owned = NULL;
    size_t n_pairs = 0;
    train_spec_describe(&model->spec, pairs[2].value, sizeof pairs[2].value);
    snprintf(pairs[3].value, sizeof pairs[3].value, "%s", model->about.origin);
    enum base_error error = tensors && moved ? draft(plan, model, moved, tensors, why)
                                             : base_fail(why, BASE_ENOMEM, "no memory to describe a model");
    if (!error)
        error = node_model_about_pairs(&model->about, &model->spec, pairs + 4, &n_pairs, &owned, why);
    if (!error)
        error = node_safetensors_write(path, tensors, plan->n_tensors, pairs, 4 + n_pairs, why);
    else
        error = base_fail_context(why, error, "cannot write '%s'", path);
    for (size_t i = 0; i < plan->n_tensors && moved; i++)
        free(moved[i]);
    free(moved);
    free(tensors);
    free(owned);
    return error;
}

enum base_error node_model_write(const char *path, const struct node_model_file *model,
                                 struct base_reason *why)
{
    struct train_plan plan;
    enum base_error error = train_plan_create(&model->spec, &plan, why);
    if (!error)
        error = write_plan(path, &plan, model, why);
    train_plan_destroy(&plan);
    return error;
}

void node_model_free(struct node_model_file *model)
{
    free(model->parameters);
    train_meaning_release(model->about.meaning);
    *model = (struct node_model_file){0};
}
