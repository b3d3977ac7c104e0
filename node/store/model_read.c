// First works out what the file must hold, from the expected model or from the shapes of its weights. Then
// checks every name, shape, type and number against that. Returns a model only if everything fits.
#include "node/store/model_private.h"

#include "train/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_FILE ((size_t)1 << 40)

static void name_of_tensor(struct node_model_naming naming, const struct train_tensor *tensor, char *name,
                           size_t capacity)
{
    snprintf(name, capacity, "%s%s", naming.prefix, naming.ours ? tensor->name : tensor->abroad.name);
}

// Names of tensors of softmax and MLPs, to find out which model it is.
static void name_of(struct node_model_naming naming, size_t layer, const char *part, char *name,
                    size_t capacity)
{
    if (naming.ours)
        snprintf(name, capacity, "model.layers.%zu.%s", layer, part);
    else
        snprintf(name, capacity, "%zu.%s", 2 * layer, part);
}

static struct node_model_naming naming_of(const struct node_safetensors *file)
{
    struct node_model_naming naming = {.prefix = ""};
    for (size_t i = 0; i < node_safetensors_count(file); i++) {
        const char *name = node_safetensors_at(file, i)->name;
        if (!strncmp(name, "model.", 6))
            return (struct node_model_naming){.ours = true, .prefix = "model."};
        if (!strncmp(name, "transformer.", 12))
            naming.prefix = "transformer.";
    }
    return naming;
}

static const struct node_tensor *find(const struct node_safetensors *file, struct node_model_naming naming,
                                      size_t layer, const char *part)
{
    char name[64];
    name_of(naming, layer, part, name, sizeof name);
    return node_safetensors_find(file, name);
}

// The first tensors that are there, for a message.
static void list_found(const struct node_safetensors *file, char *text, size_t capacity)
{
    const size_t count = node_safetensors_count(file), most = 4;
    size_t used = (size_t)snprintf(text, capacity, "%s", count ? "" : "no tensor at all");
    for (size_t i = 0; i < count && i < most && used < capacity; i++) {
        char shape[NODE_SHAPE_TEXT];
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        node_tensor_shape(tensor->shape, tensor->n_dims, shape);
        used += (size_t)snprintf(text + used, capacity - used, "%s'%.40s' %s", i ? ", " : "", tensor->name,
                                 shape);
    }
    if (count > most && used < capacity)
        snprintf(text + used, capacity - used, " and %zu more", count - most);
}

static enum base_error is_missing(const struct node_safetensors *file, const char *name, const char *shape,
                                  struct base_reason *why)
{
    char found[300];
    list_found(file, found, sizeof found);
    return base_fail(why, BASE_EMISMATCH, "there is no tensor '%s'%s%s in it, but %s", name,
                     shape[0] ? " " : "", shape, found);
}

// "mlp 10-16-1, mse" is a regression; without such a word it is a classifier.
static enum train_loss loss_of(const char *description)
{
    const char *word = description ? strrchr(description, ' ') : NULL;
    return word && strcmp(word, " mse") == 0   ? TRAIN_MSE
           : word && strcmp(word, " mae") == 0 ? TRAIN_MAE
                                               : TRAIN_CROSS_ENTROPY;
}

// The model that the shapes of the weights make; kind and classes follow from them.
static enum base_error infer_mlp(const struct node_safetensors *file, struct node_model_naming naming,
                                 struct train_model_spec *spec, struct base_reason *why)
{
    size_t layers = 0, last = 0;
    for (const struct node_tensor *weight; (weight = find(file, naming, layers, "weight")); layers++) {
        if (weight->n_dims != 2)
            return base_fail(why, BASE_EMISMATCH, "its tensor '%s' has %zu dimensions, expected 2",
                             weight->name, weight->n_dims);
        if (layers > LIMIT_LAYERS)
            return base_fail(why, BASE_ELIMIT, "it has over %u layers", LIMIT_LAYERS + 1);
        if (layers == 0)
            spec->inputs = weight->shape[naming.ours ? 0 : 1];
        else
            spec->hidden[layers - 1] = last; // if the two differ, the output of the layer below counts
        last = weight->shape[naming.ours ? 1 : 0];
    }
    if (!layers)
        return is_missing(file, naming.ours ? "model.layers.0.weight" : "0.weight", "", why);
    spec->classes = last;
    spec->n_hidden = layers - 1;
    spec->kind = layers > 1 ? TRAIN_MLP : TRAIN_SOFTMAX;
    spec->loss = loss_of(node_safetensors_metadata(file, "model"));
    return train_spec_check(spec, why);
}

static enum base_error infer(const struct node_safetensors *file, struct node_model_naming naming,
                             struct train_model_spec *spec, struct base_reason *why)
{
    const char *description = node_safetensors_metadata(file, "model");
    const enum base_error error = description ? train_spec_parse(description, spec, why) : BASE_ENOTFOUND;
    if (error != BASE_ENOTFOUND)
        return error;
    return node_model_gpt2_there(file, naming) ? node_model_gpt2_infer(file, naming, spec, why)
                                               : infer_mlp(file, naming, spec, why);
}

static bool is_float(enum node_tensor_type type)
{
    return type == NODE_TENSOR_F32 || type == NODE_TENSOR_F64 || type == NODE_TENSOR_F16 ||
           type == NODE_TENSOR_BF16;
}

static enum base_error check_tensor(const struct node_safetensors *file, struct node_model_naming naming,
                                    const struct train_tensor *ours, struct base_reason *why)
{
    char name[LIMIT_TENSOR_NAME_BYTES + 16], expected[NODE_SHAPE_TEXT], found[NODE_SHAPE_TEXT];
    const size_t *shape = naming.ours ? ours->shape : ours->abroad.shape,
                 n_dims = naming.ours ? ours->n_dims : ours->abroad.n_dims;
    name_of_tensor(naming, ours, name, sizeof name);
    const struct node_tensor *tensor = node_safetensors_find(file, name);
    node_tensor_shape(shape, n_dims, expected);
    if (!tensor)
        return is_missing(file, name, expected, why);
    node_tensor_shape(tensor->shape, tensor->n_dims, found);
    if (!is_float(tensor->type) || tensor->n_dims != n_dims ||
        memcmp(tensor->shape, shape, n_dims * sizeof *shape) != 0)
        return base_fail(why, BASE_EMISMATCH, "its tensor '%s' is %s %s, expected F32 %s", name,
                         node_tensor_type_name(tensor->type), found, expected);
    return BASE_OK;
}

// Is this the name of one of our tensors?
static bool is_wanted(struct node_model_naming naming, const struct train_plan *plan, const char *name)
{
    char wanted[LIMIT_TENSOR_NAME_BYTES + 16];
    for (size_t i = 0; i < plan->n_tensors; i++) {
        name_of_tensor(naming, &plan->tensors[i], wanted, sizeof wanted);
        if (!strcmp(name, wanted))
            return true;
    }
    return false;
}

static enum base_error check_fit(const struct node_safetensors *file, struct node_model_naming naming,
                                 const struct train_plan *plan, bool gpt2, struct base_reason *why)
{
    for (size_t i = 0; i < plan->n_tensors; i++) {
        enum base_error error = check_tensor(file, naming, &plan->tensors[i], why);
        if (error)
            return error;
    }
    for (size_t i = 0; i < node_safetensors_count(file); i++) {
        char found[NODE_SHAPE_TEXT];
        const struct node_tensor *tensor = node_safetensors_at(file, i);
        const bool beside = naming.ours && strncmp(tensor->name, "model.", 6) != 0; // of a checkpoint
        if (beside || is_wanted(naming, plan, tensor->name) ||
            (gpt2 && node_model_gpt2_beside(naming, tensor->name)))
            continue;
        node_tensor_shape(tensor->shape, tensor->n_dims, found);
        return base_fail(why, BASE_EMISMATCH, "it has the tensor '%s' %s, for which the model has no place",
                         tensor->name, found);
    }
    return BASE_OK;
}

static enum base_error copy_tensor(const struct node_safetensors *file, struct node_model_naming naming,
                                   const struct train_tensor *ours, float *to, struct base_reason *why)
{
    char name[LIMIT_TENSOR_NAME_BYTES + 16];
    struct train_abroad_walk walk;
    name_of_tensor(naming, ours, name, sizeof name);
    const struct node_tensor *tensor = node_safetensors_find(file, name);
    train_abroad_begin(ours, &walk);
    for (size_t i = 0; i < ours->count; i++) {
        const float value = (float)node_tensor_value(tensor, i);
        if (!isfinite(value))
            return base_fail(why, BASE_EFORMAT, "its tensor '%s' holds NaN or infinity", tensor->name);
        to[ours->offset + (naming.ours ? i : train_abroad_next(&walk))] = value;
    }
    return BASE_OK;
}

static enum base_error copy_all(const struct node_safetensors *file, struct node_model_naming naming,
                                const struct train_plan *plan, float *to, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < plan->n_tensors && !error; i++)
        error = copy_tensor(file, naming, &plan->tensors[i], to, why);
    return error;
}

static enum base_error take_plan(const struct node_safetensors *file, struct node_model_naming naming,
                                 const struct train_plan *plan, struct node_model_file *made,
                                 struct base_reason *why)
{
    char described[LIMIT_MODEL_TEXT_BYTES];
    const bool gpt2 = made->spec.kind == TRAIN_GPT2;
    enum base_error error = check_fit(file, naming, plan, gpt2, why);
    if (!error && gpt2)
        error = node_model_gpt2_check(file, naming, &made->spec, why);
    train_spec_describe(&made->spec, described, sizeof described);
    if (error)
        return base_fail_context(why, error, "it does not fit the model '%.120s'", described);
    error = node_model_read_about(file, &made->spec, &made->about, why);
    if (error)
        return error;
    made->parameters = malloc(plan->parameters * sizeof *made->parameters);
    if (!made->parameters)
        return base_fail(why, BASE_ENOMEM, "no memory for the model '%.120s'", described);
    return copy_all(file, naming, plan, made->parameters, why);
}

static enum base_error take(const struct node_safetensors *file, const struct train_model_spec *expected,
                            struct node_model_file *model, struct base_reason *why)
{
    const struct node_model_naming naming = naming_of(file);
    struct node_model_file made = {0};
    struct train_plan plan = {0};
    enum base_error error = BASE_OK;
    if (expected)
        made.spec = *expected;
    else
        error = infer(file, naming, &made.spec, why);
    if (!error)
        error = train_plan_create(&made.spec, &plan, why);
    if (!error)
        error = take_plan(file, naming, &plan, &made, why);
    train_plan_destroy(&plan);
    if (error) {
        node_model_free(&made);
        return error;
    }
    *model = made;
    return BASE_OK;
}

enum base_error node_model_take(const struct node_safetensors *file, const struct train_model_spec *expected,
                                struct node_model_file *model, struct base_reason *why)
{
    enum base_error error = take(file, expected, model, why);
    if (error)
        base_reason_tame(why);
    return error;
}

enum base_error node_model_read(const char *path, const struct train_model_spec *expected,
                                struct node_model_file *model, struct base_reason *why)
{
    struct node_safetensors *file;
    enum base_error error = node_safetensors_read(path, LARGEST_FILE, 0, &file, why);
    if (error)
        return error;
    error = node_model_take(file, expected, model, why);
    node_safetensors_free(file);
    return error ? base_fail_context(why, error, "'%s'", path) : BASE_OK;
}
