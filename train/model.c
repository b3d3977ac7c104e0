// A model calls its layers (train/layer.h) from the input to the loss and, for the gradient, back again.
#include "train/model.h"

#include "base/hash.h"
#include "train/dataset.h"
#include "train/plan.h"
#include "train/regress.h"
#include "train/rows.h"
#include "train/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct layer_memory {
    float *y;    // [max_batch, count of out]; for the last layer: logits, then their gradient
    float *kept; // NULL: nothing
};

struct train_model {
    struct train_model_spec spec;
    struct train_plan plan;
    const struct kernels *kernels;
    size_t max_batch;
    struct train_pass pass;
    // Workspace, in the kernels' memory.
    struct layer_memory *memory; // [n_layers], the array itself in the host's memory
    float *delta[2];             // [max_batch, widest hidden output]: gradients of hidden layers,
                                 // alternating
    float *scratch;
    float *input;     // [max_batch, inputs], only if the kernels do not share host memory
    uint32_t *labels; // [max_batch, positions], likewise
    float *outputs;   // [max_batch, classes] in host memory, for a regression only
    uint32_t *window,
        *next; // [max_batch, inputs] in host memory, for text only: ids for evaluation, and labels
};

static void *get(const struct train_model *model, size_t count, bool *complete)
{
    void *memory = model->kernels->alloc(count * sizeof(float));
    *complete = *complete && memory;
    return memory;
}

static bool alloc_layers(struct train_model *model)
{
    const struct train_plan *plan = &model->plan;
    const size_t batch = model->max_batch;
    size_t widest = 0, scratch = 0;
    bool complete = true;
    model->memory = calloc(plan->n_layers, sizeof *model->memory);
    for (size_t i = 0; i < plan->n_layers && model->memory; i++) {
        const struct train_layer *layer = &plan->layers[i];
        const size_t count = train_shape_count(&layer->out);
        struct train_layer_floats floats = {0};
        if (layer->type->floats)
            layer->type->floats(layer, model->kernels, batch, &floats);
        widest = i + 1 < plan->n_layers && count > widest ? count : widest;
        scratch = floats.scratch > scratch ? floats.scratch : scratch;
        model->memory[i].y = get(model, floats.y > 0 ? floats.y : batch * count, &complete);
        model->memory[i].kept = floats.kept > 0 ? get(model, floats.kept, &complete) : NULL;
    }
    for (size_t i = 0; i < 2 && i + 1 < plan->n_layers; i++)
        model->delta[i] = get(model, batch * widest, &complete);
    model->scratch = get(model, scratch, &complete);
    return complete && model->memory;
}

static bool alloc_workspace(struct train_model *model)
{
    const struct train_shape *out = &model->plan.out;
    bool complete = alloc_layers(model);
    if (!model->kernels->shares_host) {
        model->input = get(model, model->max_batch * model->spec.inputs, &complete);
        model->labels = get(model, model->max_batch * out->positions, &complete);
    }
    if (model->spec.loss != TRAIN_CROSS_ENTROPY) {
        model->outputs = malloc(model->max_batch * train_shape_count(out) * sizeof *model->outputs);
        complete = complete && model->outputs;
    }
    if (model->plan.in.ids) {
        model->window = malloc(2 * model->max_batch * model->spec.inputs * sizeof *model->window);
        model->next = model->window ? model->window + model->max_batch * model->spec.inputs : NULL;
        complete = complete && model->window;
    }
    return complete;
}

static enum base_error check_kernels(const struct train_plan *plan, const struct kernels *kernels,
                                     struct base_reason *why)
{
    for (size_t i = 0; i < plan->n_layers; i++) {
        const struct train_layer *layer = &plan->layers[i];
        if (layer->type->runs && !layer->type->runs(kernels)) {
            return base_fail(why, BASE_EINVAL, "layer '%s' (%s) does not run on '%s'; set device.kind to cpu",
                             layer->name, layer->type->name, kernels->name);
        }
    }
    return BASE_OK;
}

enum base_error train_model_create(const struct train_model_spec *spec, const struct kernels *kernels,
                                   size_t max_batch, struct train_model **out, struct base_reason *why)
{
    struct train_plan plan;
    enum base_error error = train_plan_create(spec, &plan, why);
    if (!error && (max_batch == 0 || max_batch > LIMIT_BATCH)) {
        error =
            base_fail(why, BASE_EINVAL, "a batch of %zu examples; expected 1 to %u", max_batch, LIMIT_BATCH);
    }
    if (!error)
        error = check_kernels(&plan, kernels, why);
    struct train_model *model = error ? NULL : calloc(1, sizeof *model);
    if (!model) {
        train_plan_destroy(&plan);
        return error ? error : base_fail(why, BASE_ENOMEM, "out of memory for a model");
    }
    model->spec = *spec;
    model->plan = plan;
    model->kernels = kernels;
    model->max_batch = max_batch;
    if (!alloc_workspace(model)) {
        train_model_destroy(model);
        return base_fail(why, BASE_ENOMEM,
                         "out of memory for the activations of a batch of %zu; use a smaller batch",
                         max_batch);
    }
    model->pass = (struct train_pass){.kernels = kernels, .scratch = model->scratch};
    *out = model;
    return BASE_OK;
}

enum base_error train_model_create_tensors(const struct train_tensor *tensors, size_t count,
                                           const struct kernels *kernels, struct train_model **out,
                                           struct base_reason *why)
{
    if (count == 0 || count > LIMIT_TENSORS) {
        return base_fail(why, BASE_EINVAL, "the model has %zu tensors; expected 1 to %u", count,
                         LIMIT_TENSORS);
    }
    struct train_model *model = calloc(1, sizeof *model);
    if (model)
        model->plan.tensors = calloc(count, sizeof *tensors);
    if (!model || !model->plan.tensors) {
        free(model);
        return base_fail(why, BASE_ENOMEM, "out of memory for a model of %zu tensors", count);
    }
    model->spec.kind = TRAIN_TENSORS;
    model->kernels = kernels;
    model->plan.n_tensors = count;
    memcpy(model->plan.tensors, tensors, count * sizeof *tensors);
    enum base_error error = train_plan_lay_out(&model->plan, why);
    if (error) {
        train_model_destroy(model);
        return error;
    }
    *out = model;
    return BASE_OK;
}

void train_model_destroy(struct train_model *model)
{
    if (!model)
        return;
    const struct kernels *k = model->kernels;
    for (size_t i = 0; i < model->plan.n_layers && model->memory; i++) {
        k->release(model->memory[i].y);
        k->release(model->memory[i].kept);
    }
    k->release(model->delta[0]);
    k->release(model->delta[1]);
    k->release(model->scratch);
    k->release(model->input);
    k->release(model->labels);
    free(model->memory);
    free(model->outputs);
    free(model->window);
    train_plan_destroy(&model->plan);
    free(model);
}

const struct train_model_spec *train_model_spec(const struct train_model *model)
{
    return &model->spec;
}

const struct kernels *train_model_kernels(const struct train_model *model)
{
    return model->kernels;
}

size_t train_model_parameters(const struct train_model *model)
{
    return model->plan.parameters;
}

bool train_model_takes_rows(const struct train_model *model)
{
    return model->plan.in.rows;
}

size_t train_model_max_batch(const struct train_model *model)
{
    return model->max_batch;
}

bool train_model_takes_ids(const struct train_model *model)
{
    return model->plan.in.ids;
}

const struct train_tensor *train_model_tensors(const struct train_model *model, size_t *count)
{
    *count = model->plan.n_tensors;
    return model->plan.tensors;
}

static uint64_t chain(uint64_t hash, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return base_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t train_model_schema(const struct train_model *model)
{
    uint64_t hash = chain(0, (uint64_t)model->spec.kind);
    for (size_t i = 0; i < model->plan.n_tensors; i++) {
        const struct train_tensor *tensor = &model->plan.tensors[i];
        hash = base_hash_bytes(hash, tensor->name, strlen(tensor->name));
        for (size_t d = 0; d < tensor->n_dims || d < 2; d++)
            hash = chain(hash, tensor->shape[d]);
        hash = chain(hash, tensor->offset);
    }
    if (model->spec.kind > TRAIN_MLP) { // properties that tensors do not show, such as the number of heads
        char described[LIMIT_MODEL_TEXT_BYTES];
        train_model_describe(model, described, sizeof described);
        hash = base_hash_bytes(hash, described, strlen(described));
    }
    // A regression and a classifier of the same shape differ; the fingerprint of the classifier is older than
    // regressions and does not change.
    return model->spec.loss == TRAIN_CROSS_ENTROPY ? hash : chain(hash, (uint64_t)model->spec.loss);
}

void train_model_describe(const struct train_model *model, char *text, size_t capacity)
{
    if (model->spec.kind == TRAIN_TENSORS) {
        (void)snprintf(text, capacity, "%zu tensors, %zu parameters", model->plan.n_tensors,
                       model->plan.parameters);
    } else {
        train_spec_describe(&model->spec, text, capacity);
    }
}

void train_model_initialise(const struct train_model *model, uint64_t seed, float *parameters)
{
    memset(parameters, 0, model->plan.parameters * sizeof *parameters);
    for (size_t i = 0; i < model->plan.n_layers; i++) {
        const struct train_layer *layer = &model->plan.layers[i];
        struct base_rng rng;
        base_rng_seed_stream(&rng, seed, i);
        if (layer->type->initialise)
            layer->type->initialise(layer, &rng, parameters);
    }
}

// The output of the last layer: logits.
static float *top(const struct train_model *model)
{
    return model->memory[model->plan.n_layers - 1].y;
}

static size_t rows_of(const struct train_model *model, size_t examples)
{
    return examples * model->plan.out.positions;
}

// The loss of the last forward pass; the output becomes its gradient.
static void cross_entropy(const struct train_model *model, const uint32_t *labels, float scale,
                          struct kernels_loss *loss)
{
    const struct train_layer *last = &model->plan.layers[model->plan.n_layers - 1];
    if (last->type->loss) {
        last->type->loss(last, &model->pass, top(model), labels, scale, loss);
    } else {
        model->kernels->softmax_cross_entropy(rows_of(model, model->pass.examples), model->spec.classes,
                                              top(model), labels, scale, loss);
    }
}

static void forward(struct train_model *model, const float *parameters, const void *x, size_t examples,
                    bool training)
{
    const void *below = x;
    model->pass.examples = examples;
    model->pass.training = training;
    for (size_t i = 0; i < model->plan.n_layers; i++) {
        const struct train_layer *layer = &model->plan.layers[i];
        const struct layer_memory *memory = &model->memory[i];
        layer->type->forward(layer, &model->pass, parameters, below, memory->y, memory->kept);
        below = memory->y;
    }
}

// The last y holds the gradient of the logits. The gradient of x is not needed.
static void backward(struct train_model *model, const float *parameters, const void *x, float *gradient)
{
    float *dy = top(model);
    for (size_t i = model->plan.n_layers; i-- > 0;) {
        const struct train_layer *layer = &model->plan.layers[i];
        const struct layer_memory *memory = &model->memory[i];
        float *dx = i > 0 ? model->delta[(i - 1) % 2] : NULL;
        layer->type->backward(layer, &model->pass, parameters, i > 0 ? model->memory[i - 1].y : x, memory->y,
                              dy, dx, memory->kept, gradient);
        dy = dx;
    }
}

void train_model_prepare(struct train_model *model, uint64_t seed, bool accumulate)
{
    model->pass.seed = seed;
    model->pass.accumulate = accumulate;
}

void train_model_give(struct train_model *model, const struct kernels_taker *taker)
{
    model->pass.taker = taker;
}

bool train_model_gives(const struct train_model *model, size_t rows)
{
    for (size_t i = 0; i < model->plan.n_layers; i++) {
        const struct train_layer *layer = &model->plan.layers[i];
        if (layer->n_tensors > 0 && (!layer->type->gives || !layer->type->gives(layer, model->kernels, rows)))
            return false;
    }
    return true;
}

void train_model_restrict(struct train_model *model, size_t from, size_t to)
{
    BASE_ASSERT(to == 0 || (model->plan.in.rows && from < to && to <= model->spec.inputs));
    model->pass.from = from;
    model->pass.to = to;
}

void train_model_gradient(struct train_model *model, const float *parameters, const void *x,
                          const uint32_t *labels, size_t rows, float weight, float *gradient,
                          struct kernels_loss *loss)
{
    BASE_ASSERT(rows > 0 && rows <= model->max_batch);
    const size_t labelled = rows_of(model, rows);
    forward(model, parameters, x, rows, true);
    cross_entropy(model, labels, weight / (float)labelled, loss);
    backward(model, parameters, x, gradient);
}

void train_model_logits(struct train_model *model, const float *parameters, const void *x, size_t rows,
                        float *logits)
{
    const struct kernels *k = model->kernels;
    BASE_ASSERT(rows > 0 && rows <= model->max_batch);
    if (!k->shares_host) {
        k->upload(model->input, x, rows * model->spec.inputs * sizeof *model->input);
        x = model->input;
    }
    const struct train_rows dense = {.x = x, .features = model->spec.inputs};
    forward(model, parameters, model->plan.in.rows ? &dense : x, rows, false);
    const struct train_layer *last = &model->plan.layers[model->plan.n_layers - 1];
    if (last->type->download)
        last->type->download(last, &model->pass, top(model), logits);
    else
        k->download(logits, top(model), rows_of(model, rows) * model->spec.classes * sizeof *logits);
}

void train_model_gradient_regression(struct train_model *model, const float *parameters, const float *x,
                                     const float *targets, size_t rows, float weight, float *gradient,
                                     struct kernels_loss *loss)
{
    const struct kernels *k = model->kernels;
    float *device = top(model);
    const size_t bytes = rows * model->spec.classes * sizeof *device;
    BASE_ASSERT(rows > 0 && rows <= model->max_batch && model->outputs);
    forward(model, parameters, x, rows, true);
    k->download(model->outputs, device, bytes);
    train_regress_loss(model->spec.loss, rows, model->spec.classes, model->outputs, targets,
                       weight / (float)rows, loss);
    k->upload(device, model->outputs, bytes);
    backward(model, parameters, x, gradient);
}

// The output of the last layer, in the kernels' memory, for the rows from `first` on.
static float *answer(struct train_model *model, const float *parameters, const struct train_dataset *data,
                     size_t first, size_t rows)
{
    const struct kernels *k = model->kernels;
    const struct train_rows some = {
        .csr = data->csr, .x = data->x, .features = data->features, .first = first};
    const void *x = data->tokens          ? (const void *)model->window
                    : model->plan.in.rows ? (const void *)&some
                                          : data->x + first * data->features;
    if (!k->shares_host) {
        k->upload(model->input, x, rows * data->features * sizeof *model->input);
        x = model->input;
    }
    forward(model, parameters, x, rows, false);
    return top(model);
}

// Labels of the rows from `first` on, in host memory; for text, also writes the ids to the window.
static const uint32_t *labels_of(struct train_model *model, const struct train_dataset *data, size_t first,
                                 size_t rows)
{
    if (!data->tokens)
        return data->labels + rows_of(model, first);
    for (size_t i = 0; i < rows; i++) {
        train_tokens_window(data, first + i, 0, model->window + i * data->features,
                            model->next + i * data->features);
    }
    return model->next;
}

static void evaluate_classes(struct train_model *model, const float *parameters,
                             const struct train_dataset *data, size_t first, size_t rows,
                             struct kernels_loss *loss)
{
    const struct kernels *k = model->kernels;
    const size_t labelled = rows_of(model, rows);
    const uint32_t *labels = labels_of(model, data, first, rows);
    if (!k->shares_host) {
        k->upload(model->labels, labels, labelled * sizeof *labels);
        labels = model->labels;
    }
    (void)answer(model, parameters, data, first, rows);
    cross_entropy(model, labels, 1.0f, loss);
    k->wait();
}

static void evaluate_targets(struct train_model *model, const float *parameters,
                             const struct train_dataset *data, size_t first, size_t rows,
                             struct train_regress_sums *sums, struct kernels_loss *loss)
{
    const float *targets = data->targets + first * data->outputs;
    const float *device = answer(model, parameters, data, first, rows);
    model->kernels->wait();
    model->kernels->download(model->outputs, device, rows * data->outputs * sizeof *device);
    train_regress_add(sums, rows, model->outputs, targets);
    train_regress_loss(model->spec.loss, rows, data->outputs, model->outputs, targets, 1.0f, loss);
}

void train_model_evaluate(struct train_model *model, const float *parameters,
                          const struct train_dataset *data, struct train_score *score)
{
    const bool regression = model->spec.loss != TRAIN_CROSS_ENTROPY;
    struct train_regress_sums sums = {0};
    double loss_sum = 0.0;
    size_t correct = 0;
    BASE_ASSERT(data->features == model->spec.inputs && data->classes <= model->spec.classes);
    BASE_ASSERT(!regression || data->outputs == model->spec.classes);
    BASE_ASSERT(model->plan.in.ids == (data->tokens != NULL));
    BASE_ASSERT(model->plan.in.rows || !data->csr);
    *score = (struct train_score){NAN, NAN, NAN};
    if (regression && !train_regress_begin(data->outputs, &sums))
        return; // out of memory: not measured
    for (size_t first = 0; first < data->examples; first += model->max_batch) {
        const size_t left = data->examples - first, rows = left < model->max_batch ? left : model->max_batch;
        struct kernels_loss batch;
        if (regression)
            evaluate_targets(model, parameters, data, first, rows, &sums, &batch);
        else
            evaluate_classes(model, parameters, data, first, rows, &batch);
        loss_sum += batch.loss_sum;
        correct += batch.correct;
    }
    const double labelled = data->examples > 0 ? (double)rows_of(model, data->examples) : 1.0;
    score->loss = loss_sum / labelled;
    score->accuracy = (double)correct / labelled;
    if (regression)
        train_regress_end(&sums, data, &score->accuracy, &score->rmse);
}
