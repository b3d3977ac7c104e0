// The multilayer perceptron: z_l = a_(l-1) W_l + b_l, a_l = max(z_l, 0), cross entropy over the last z.
// Softmax regression is the case of one layer; a regression has its error in the place of the cross entropy.
// Tensors lie in the flat vector in the order W_0, b_0, W_1, b_1, ...
#include "train/model.h"

#include "base/hash.h"
#include "base/rng.h"
#include "train/dataset.h"
#include "train/regress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS (LIMIT_LAYERS + 1u)

_Static_assert(2 * MAX_LAYERS <= LIMIT_TENSORS, "every layer has a weight and a bias");

struct train_model {
    struct train_model_spec spec;
    const struct kernels *kernels;
    size_t max_batch, parameters, n_layers;
    size_t width[MAX_LAYERS + 1]; // inputs, hidden ..., classes
    struct train_tensor tensors[2 * MAX_LAYERS];
    // Workspace, in the kernels' memory.
    float
        *activation[MAX_LAYERS]; // [max_batch, width[l + 1]]; the last one holds logits, then their gradient
    float *delta[2];             // [max_batch, widest hidden layer]: gradients of hidden layers, in turns
    float *input;                // [max_batch, inputs], only where the kernels' memory is not the host's
    uint32_t *labels;            // [max_batch], likewise
    float *outputs;              // [max_batch, classes] in host memory, of a regression only
};

static void add_tensor(struct train_model *model, size_t layer, const char *what, size_t rows, size_t cols)
{
    const bool weight = rows > 0;
    struct train_tensor *tensor = &model->tensors[2 * layer + (weight ? 0 : 1)];
    (void)snprintf(tensor->name, sizeof tensor->name, "layers.%zu.%s", layer, what);
    tensor->n_dims = weight ? 2 : 1;
    tensor->shape[0] = weight ? rows : cols;
    tensor->shape[1] = weight ? cols : 0;
    tensor->count = weight ? rows * cols : cols;
    tensor->offset = model->parameters;
    model->parameters += tensor->count;
}

// The spec has been checked: at most LIMIT_PARAMETERS in all.
static void lay_out(struct train_model *model)
{
    model->n_layers = train_spec_layers(&model->spec);
    for (size_t i = 0; i <= model->n_layers; i++) {
        model->width[i] = train_spec_width(&model->spec, i);
    }
    for (size_t layer = 0; layer < model->n_layers; layer++) {
        add_tensor(model, layer, "weight", model->width[layer], model->width[layer + 1]);
        add_tensor(model, layer, "bias", 0, model->width[layer + 1]);
    }
}

static bool alloc_workspace(struct train_model *model)
{
    const struct kernels *k = model->kernels;
    size_t widest = 0;
    bool complete = true;
    for (size_t layer = 0; layer < model->n_layers; layer++) {
        size_t width = model->width[layer + 1];
        widest = layer + 1 < model->n_layers && width > widest ? width : widest;
        model->activation[layer] = k->alloc(model->max_batch * width * sizeof(float));
        complete = complete && model->activation[layer] != NULL;
    }
    for (size_t i = 0; i < 2 && i < model->spec.n_hidden; i++) {
        model->delta[i] = k->alloc(model->max_batch * widest * sizeof(float));
        complete = complete && model->delta[i] != NULL;
    }
    if (!k->shares_host) {
        model->input = k->alloc(model->max_batch * model->spec.inputs * sizeof(float));
        model->labels = k->alloc(model->max_batch * sizeof(uint32_t));
        complete = complete && model->input != NULL && model->labels != NULL;
    }
    if (model->spec.loss != TRAIN_CROSS_ENTROPY) {
        model->outputs = malloc(model->max_batch * model->spec.classes * sizeof(float));
        complete = complete && model->outputs != NULL;
    }
    return complete;
}

enum base_error train_model_create(const struct train_model_spec *spec, const struct kernels *kernels,
                                   size_t max_batch, struct train_model **out, struct base_reason *why)
{
    enum base_error error = train_spec_check(spec, why);
    if (error == BASE_OK && (max_batch == 0 || max_batch > LIMIT_BATCH)) {
        error =
            base_fail(why, BASE_EINVAL, "a batch of %zu examples; expected 1 to %u", max_batch, LIMIT_BATCH);
    }
    if (error != BASE_OK) {
        return error;
    }
    struct train_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return base_fail(why, BASE_ENOMEM, "out of memory for a model");
    }
    model->spec = *spec;
    model->kernels = kernels;
    model->max_batch = max_batch;
    lay_out(model);
    if (!alloc_workspace(model)) {
        error =
            base_fail(why, BASE_ENOMEM,
                      "out of memory for the activations of a batch of %zu; take a smaller batch", max_batch);
    }
    if (error != BASE_OK) {
        train_model_destroy(model);
        return error;
    }
    *out = model;
    return BASE_OK;
}

void train_model_destroy(struct train_model *model)
{
    if (model == NULL) {
        return;
    }
    const struct kernels *k = model->kernels;
    for (size_t layer = 0; layer < MAX_LAYERS; layer++) {
        k->release(model->activation[layer]);
    }
    k->release(model->delta[0]);
    k->release(model->delta[1]);
    k->release(model->input);
    k->release(model->labels);
    free(model->outputs);
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
    return model->parameters;
}

size_t train_model_max_batch(const struct train_model *model)
{
    return model->max_batch;
}

const struct train_tensor *train_model_tensors(const struct train_model *model, size_t *count)
{
    *count = 2 * model->n_layers;
    return model->tensors;
}

static uint64_t chain(uint64_t hash, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    return base_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t train_model_schema(const struct train_model *model)
{
    uint64_t hash = chain(0, (uint64_t)model->spec.kind);
    for (size_t i = 0; i < 2 * model->n_layers; i++) {
        const struct train_tensor *tensor = &model->tensors[i];
        hash = base_hash_bytes(hash, tensor->name, strlen(tensor->name));
        hash = chain(chain(chain(hash, tensor->shape[0]), tensor->shape[1]), tensor->offset);
    }
    // A regression is another model than a classifier of the same shape, whose fingerprint stays what it was.
    return model->spec.loss == TRAIN_CROSS_ENTROPY ? hash : chain(hash, (uint64_t)model->spec.loss);
}

void train_model_describe(const struct train_model *model, char *text, size_t capacity)
{
    train_spec_describe(&model->spec, text, capacity);
}

void train_model_initialise(const struct train_model *model, uint64_t seed, float *parameters)
{
    memset(parameters, 0, model->parameters * sizeof *parameters);
    for (size_t layer = 0; layer < model->n_layers; layer++) {
        const struct train_tensor *weight = &model->tensors[2 * layer];
        const double deviation = sqrt(2.0 / (double)model->width[layer]);
        struct base_rng rng;
        base_rng_seed_stream(&rng, seed, layer);
        for (size_t i = 0; i < weight->count; i++) {
            parameters[weight->offset + i] = (float)(deviation * base_rng_normal(&rng));
        }
    }
}

// a_(-1) = x; fills activation[l] for every layer, the last one with logits.
static void forward(struct train_model *model, const float *parameters, const float *x, size_t rows)
{
    const struct kernels *k = model->kernels;
    const float *below = x;
    for (size_t layer = 0; layer < model->n_layers; layer++) {
        const size_t in = model->width[layer], out = model->width[layer + 1];
        const float *weight = parameters + model->tensors[2 * layer].offset;
        const float *bias = parameters + model->tensors[2 * layer + 1].offset;
        float *z = model->activation[layer];
        k->gemm(false, false, rows, out, in, 1.0f, below, weight, 0.0f,
                z); // [rows, out] = [rows, in] [in, out]
        if (layer + 1 < model->n_layers) {
            k->bias_add_relu(rows, out, bias, z);
        } else {
            k->bias_add(rows, out, bias, z);
        }
        below = z;
    }
}

// `delta` holds d loss / d z of the last layer; from there down, W and b of each layer, then the layer below.
static void backward(struct train_model *model, const float *parameters, const float *x, size_t rows,
                     float *gradient)
{
    const struct kernels *k = model->kernels;
    const float *delta = model->activation[model->n_layers - 1];
    for (size_t layer = model->n_layers; layer-- > 0;) {
        const size_t in = model->width[layer], out = model->width[layer + 1];
        const struct train_tensor *weight = &model->tensors[2 * layer], *bias = weight + 1;
        const float *below = layer > 0 ? model->activation[layer - 1] : x;
        // dW [in, out] = below^T [in, rows] delta [rows, out]; db = sum of the rows of delta
        k->gemm(true, false, in, out, rows, 1.0f, below, delta, 0.0f, gradient + weight->offset);
        k->column_sum(rows, out, delta, gradient + bias->offset);
        if (layer > 0) { // nobody needs the gradient of the input
            float *next = model->delta[(layer - 1) % 2];
            k->gemm(false, true, rows, in, out, 1.0f, delta, parameters + weight->offset, 0.0f, next);
            k->relu_backward(rows * in, below, next);
            delta = next;
        }
    }
}

void train_model_gradient(struct train_model *model, const float *parameters, const float *x,
                          const uint32_t *labels, size_t rows, float weight, float *gradient,
                          struct kernels_loss *loss)
{
    BASE_ASSERT(rows > 0 && rows <= model->max_batch);
    forward(model, parameters, x, rows);
    model->kernels->softmax_cross_entropy(rows, model->spec.classes, model->activation[model->n_layers - 1],
                                          labels, weight / (float)rows, loss);
    backward(model, parameters, x, rows, gradient);
}

void train_model_logits(struct train_model *model, const float *parameters, const float *x, size_t rows,
                        float *logits)
{
    const struct kernels *k = model->kernels;
    BASE_ASSERT(rows > 0 && rows <= model->max_batch);
    if (!k->shares_host) {
        k->upload(model->input, x, rows * model->spec.inputs * sizeof *x);
        x = model->input;
    }
    forward(model, parameters, x, rows);
    k->download(logits, model->activation[model->n_layers - 1], rows * model->spec.classes * sizeof *logits);
}

void train_model_gradient_regression(struct train_model *model, const float *parameters, const float *x,
                                     const float *targets, size_t rows, float weight, float *gradient,
                                     struct kernels_loss *loss)
{
    const struct kernels *k = model->kernels;
    float *device = model->activation[model->n_layers - 1];
    const size_t bytes = rows * model->spec.classes * sizeof *device;
    BASE_ASSERT(rows > 0 && rows <= model->max_batch && model->outputs != NULL);
    forward(model, parameters, x, rows);
    k->download(model->outputs, device, bytes);
    train_regress_loss(model->spec.loss, rows, model->spec.classes, model->outputs, targets,
                       weight / (float)rows, loss);
    k->upload(device, model->outputs, bytes);
    backward(model, parameters, x, rows, gradient);
}

// The last activation, in the kernels' memory, of the rows from `first` on.
static float *answer(struct train_model *model, const float *parameters, const struct train_dataset *data,
                     size_t first, size_t rows)
{
    const struct kernels *k = model->kernels;
    const float *x = data->x + first * data->features;
    if (!k->shares_host) {
        k->upload(model->input, x, rows * data->features * sizeof *x);
        x = model->input;
    }
    forward(model, parameters, x, rows);
    return model->activation[model->n_layers - 1];
}

static void evaluate_classes(struct train_model *model, const float *parameters,
                             const struct train_dataset *data, size_t first, size_t rows,
                             struct kernels_loss *loss)
{
    const struct kernels *k = model->kernels;
    const uint32_t *labels = data->labels + first;
    if (!k->shares_host) {
        k->upload(model->labels, labels, rows * sizeof *labels);
        labels = model->labels;
    }
    float *logits = answer(model, parameters, data, first, rows);
    k->softmax_cross_entropy(rows, model->spec.classes, logits, labels, 1.0f, loss);
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
    *score = (struct train_score){NAN, NAN, NAN};
    if (regression && !train_regress_begin(data->outputs, &sums)) {
        return; // not measured
    }
    for (size_t first = 0; first < data->examples; first += model->max_batch) {
        const size_t left = data->examples - first, rows = left < model->max_batch ? left : model->max_batch;
        struct kernels_loss batch;
        if (regression) {
            evaluate_targets(model, parameters, data, first, rows, &sums, &batch);
        } else {
            evaluate_classes(model, parameters, data, first, rows, &batch);
        }
        loss_sum += batch.loss_sum;
        correct += batch.correct;
    }
    const double examples = data->examples > 0 ? (double)data->examples : 1.0;
    score->loss = loss_sum / examples;
    score->accuracy = (double)correct / examples;
    if (regression) {
        train_regress_end(&sums, data, &score->accuracy, &score->rmse);
    }
}
