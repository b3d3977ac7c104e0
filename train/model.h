// Models as one flat fp32 vector with a table of named tensors, made of layers (train/layer.h). A model
// object holds its layers and a workspace for one batch: one owner, one thread at a time.
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "base/error.h"
#include "base/limits.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The places in the table of models (train/models.c). Of a regression, the first is the linear model.
enum train_model_kind {
    TRAIN_SOFTMAX,
    TRAIN_MLP,
    TRAIN_GPT2,
    TRAIN_LENET,
    TRAIN_CNN,
    TRAIN_RESNET20,
    TRAIN_LOGISTIC,
    TRAIN_MODELS
};
#define TRAIN_TENSORS                                                                                        \
    ((enum train_model_kind)(TRAIN_MODELS + 1)) // train_model_create_tensors: not in the table
enum train_loss { TRAIN_CROSS_ENTROPY, TRAIN_MSE, TRAIN_MAE };

struct train_image { // pixels of an example: rows of pixels, each with its channels; all 0: no image
    size_t height, width, channels;
};

struct train_decoder { // inputs: the context; classes: the vocabulary
    size_t layers, width, heads;
    float dropout; // of embedding and branches, while training; changes no shape
};

struct train_model_spec {
    enum train_model_kind kind;
    size_t inputs, classes;                // classes: of a regression, its outputs
    size_t hidden[LIMIT_LAYERS], n_hidden; // MLP only; ReLU between layers
    enum train_loss loss;
    struct train_decoder decoder; // for gpt2
    struct train_image image;     // for models of images; height * width * channels = inputs
};

// BASE_EINVAL with the reason for shapes that can't be (no classes, an MLP without hidden layers, over
// LIMIT_PARAMETERS). The other functions expect a spec that has passed.
enum base_error train_spec_check(const struct train_model_spec *spec, struct base_reason *why) BASE_CHECK;
size_t train_spec_parameters(const struct train_model_spec *spec); // 0: out of memory
void train_spec_describe(const struct train_model_spec *spec, char *text,
                         size_t capacity); // "mlp 784-256-10"
// Parses a text that train_spec_describe wrote. BASE_ENOTFOUND, without a reason: no kind of this name, or
// one whose weights tell its shape (softmax, mlp). BASE_EFORMAT, or train_spec_check.
enum base_error train_spec_parse(const char *text, struct train_model_spec *spec,
                                 struct base_reason *why) BASE_CHECK;
const char *train_model_kind_name(enum train_model_kind kind); // as in model.kind

#define TRAIN_DIMS 8
struct train_tensor {
    char name[LIMIT_TENSOR_NAME_BYTES]; // "layers.0.weight", "layers.0.bias"
    size_t shape[TRAIN_DIMS], n_dims;   // row-major; unused ones are 0. Linear weight: [inputs, outputs]
    size_t offset, count;               // in elements of the flat vector
    struct train_abroad {               // how the file of a model for other programs has it
        char name[LIMIT_TENSOR_NAME_BYTES];
        size_t view[TRAIN_DIMS], n_view;  // ours, seen with these dimensions,
        size_t order[TRAIN_DIMS];         // permuted: dimension i there is our dimension order[i],
        size_t shape[TRAIN_DIMS], n_dims; // and neighbours merged to this shape
    } abroad;                             // by default the same name, order and shape
};

struct train_model;

// BASE_EINVAL: train_spec_check, or the batch. BASE_ENOMEM.
enum base_error train_model_create(const struct train_model_spec *spec, const struct kernels *kernels,
                                   size_t max_batch, struct train_model **model,
                                   struct base_reason *why) BASE_CHECK;
// A model that a program of the user's own computes: its tensors in the order in which they lie in the flat
// vector; name, shape and n_dims of each are read and copied. It has no spec, and none of the functions below
// that compute may be called. BASE_EINVAL names the tensor: no name, a name twice, no elements, over
// LIMIT_PARAMETERS; or no tensor, or over LIMIT_TENSORS of them. BASE_ENOMEM.
enum base_error train_model_create_tensors(const struct train_tensor *tensors, size_t count,
                                           const struct kernels *kernels, struct train_model **model,
                                           struct base_reason *why) BASE_CHECK;
void train_model_destroy(struct train_model *model);

const struct train_model_spec *train_model_spec(const struct train_model *model);
const struct kernels *train_model_kernels(const struct train_model *model);
size_t train_model_parameters(const struct train_model *model);
bool train_model_takes_ids(const struct train_model *model);  // its examples are text (train/tokens.h)
bool train_model_takes_rows(const struct train_model *model); // x is a struct train_rows (train/rows.h)
size_t train_model_max_batch(const struct train_model *model);
const struct train_tensor *train_model_tensors(const struct train_model *model, size_t *count);
uint64_t train_model_schema(const struct train_model *model); // fingerprint of kind, loss and tensors
void train_model_describe(const struct train_model *model, char *text,
                          size_t capacity); // train_spec_describe

// First values into host memory; the same for a seed on every machine.
void train_model_initialise(const struct train_model *model, uint64_t seed, float *parameters);

// For the gradients that follow: `seed` of dropout and the like; `accumulate`: the gradient is added to what
// lies there. Both 0 at first.
void train_model_prepare(struct train_model *model, uint64_t seed, bool accumulate);

// The gradients that follow are given to `taker` (borrowed), each element once and at its place in the
// vector, and `gradient` is not looked at; NULL, as at first: they are written. The taker may change the
// parameters at the places that it is given. They do not accumulate. Only where train_model_gives says that
// batches of up to `rows` can be given.
void train_model_give(struct train_model *model, const struct kernels_taker *taker);
bool train_model_gives(const struct train_model *model, size_t rows);

// The gradients that follow are of features from .. to-1 and the bias only, 0 elsewhere. to 0, as at first:
// of all. Models that take rows.
void train_model_restrict(struct train_model *model, size_t from, size_t to);

// One batch of a cross entropy: x [rows, inputs] (floats, or what else the model takes: uint32_t ids, rows),
// one label < classes a row, or rows times positions of a model that answers at several; rows <= max_batch;
// x, labels, parameters and gradient in the kernels' memory. gradient [parameters] becomes `weight` times the
// mean over labels of d loss / d parameters; *loss is without the weight.
void train_model_gradient(struct train_model *model, const float *parameters, const void *x,
                          const uint32_t *labels, size_t rows, float weight, float *gradient,
                          struct kernels_loss *loss);

// The outputs of the model for x [rows, inputs]: logits [rows, classes], both in host memory; parameters in
// the kernels' memory; rows <= max_batch.
void train_model_logits(struct train_model *model, const float *parameters, const void *x, size_t rows,
                        float *logits);

// The same of a regression: targets [rows, classes] in host memory.
void train_model_gradient_regression(struct train_model *model, const float *parameters, const float *x,
                                     const float *targets, size_t rows, float weight, float *gradient,
                                     struct kernels_loss *loss);

struct train_score {
    double loss;     // mean over the examples
    double accuracy; // part that is right; of a regression R2, the part of the variance that is explained
    double rmse;     // of a regression, in units of its targets before scaling; else NAN
};
struct train_dataset;
// Over a whole data set, in batches of max_batch; parameters in the kernels' memory.
void train_model_evaluate(struct train_model *model, const float *parameters,
                          const struct train_dataset *data, struct train_score *score);

#endif
