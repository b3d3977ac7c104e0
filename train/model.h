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

// The places in the table of models (train/models.c). For a regression, TRAIN_SOFTMAX is the linear model.
// All kinds: constant TRAIN_..., name in configurations, which is also that of its table (train/models.h).
#define TRAIN_MODEL_LIST(X)                                                                                  \
    X(SOFTMAX, softmax)                                                                                      \
    X(MLP, mlp)                                                                                              \
    X(GPT2, gpt2)                                                                                            \
    X(LENET, lenet)                                                                                          \
    X(CNN, cnn)                                                                                              \
    X(RESNET20, resnet20)                                                                                    \
    X(LOGISTIC, logistic)
#define TRAIN_MODEL_CONSTANT(constant, name) TRAIN_##constant,
#define TRAIN_MODEL_CHOICE(constant, name)   "|" #name
enum train_model_kind { TRAIN_MODEL_LIST(TRAIN_MODEL_CONSTANT) TRAIN_MODELS };
#define TRAIN_MODEL_CHOICES (&TRAIN_MODEL_LIST(TRAIN_MODEL_CHOICE)[1]) // "softmax|mlp|..."
#define TRAIN_TENSORS                                                                                        \
    ((enum train_model_kind)(TRAIN_MODELS + 1)) // train_model_create_tensors: not in the table
enum train_loss { TRAIN_CROSS_ENTROPY, TRAIN_MSE, TRAIN_MAE };

struct train_image { // an example as an image: rows of pixels, each with its channels; all 0: no image
    size_t height, width, channels;
};

struct train_decoder { // inputs: the context; classes: the vocabulary
    size_t layers, width, heads;
    float dropout; // of embedding and branches, during training; does not change shapes
};

struct train_model_spec {
    enum train_model_kind kind;
    size_t inputs, classes;                // classes: for a regression, its outputs
    size_t hidden[LIMIT_LAYERS], n_hidden; // MLP only; ReLU between layers
    enum train_loss loss;
    struct train_decoder decoder; // for gpt2
    struct train_image image;     // for models of images; height * width * channels = inputs
};

// BASE_EINVAL with the reason if the shapes are invalid (no classes, an MLP without hidden layers, over
// LIMIT_PARAMETERS). The other functions require a spec that has passed this check.
enum base_error train_spec_check(const struct train_model_spec *spec, struct base_reason *why) BASE_CHECK;
void train_spec_describe(const struct train_model_spec *spec, char *text,
                         size_t capacity); // "mlp 784-256-10"
// Parses a text that train_spec_describe wrote. BASE_ENOTFOUND, without a reason: there is no kind of this
// name, or its shape follows from its weights (softmax, mlp). BASE_EFORMAT, or an error of train_spec_check.
enum base_error train_spec_parse(const char *text, struct train_model_spec *spec,
                                 struct base_reason *why) BASE_CHECK;
const char *train_model_kind_name(enum train_model_kind kind); // as in model.kind

#define TRAIN_DIMS 8
struct train_tensor {
    char name[LIMIT_TENSOR_NAME_BYTES]; // "layers.0.weight", "layers.0.bias"
    size_t shape[TRAIN_DIMS], n_dims;   // row-major; unused ones are 0. Linear weight: [inputs, outputs]
    size_t offset, count;               // in elements of the flat vector
    size_t hidden_rows; // of a hidden matrix [hidden_rows, count / hidden_rows]: a weight of a layer that is
                        // neither the first nor the last one; else 0
    struct train_abroad { // how files for other programs store it
        char name[LIMIT_TENSOR_NAME_BYTES];
        size_t view[TRAIN_DIMS], n_view;  // our tensor, viewed with these dimensions,
        size_t order[TRAIN_DIMS];         // permuted: dimension i in the file is our dimension order[i],
        size_t shape[TRAIN_DIMS], n_dims; // and adjacent dimensions merged to this shape
    } abroad;                             // by default the same name, order and shape
};

struct train_model;

// BASE_EINVAL: train_spec_check failed, or the batch is invalid. BASE_ENOMEM.
enum base_error train_model_create(const struct train_model_spec *spec, const struct kernels *kernels,
                                   size_t max_batch, struct train_model **model,
                                   struct base_reason *why) BASE_CHECK;
// A model that a user's program computes: its tensors in the order of the flat vector. Name, shape and n_dims
// of each are read and copied. The model has no spec, and the functions below that compute must not be
// called. BASE_EINVAL: a tensor without a name or elements, a duplicate name, or over LIMIT_PARAMETERS (the
// reason names the tensor); no tensors, or over LIMIT_TENSORS. BASE_ENOMEM.
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

// Writes the initial parameters to host memory; the same for a seed on every machine.
void train_model_initialise(const struct train_model *model, uint64_t seed, float *parameters);

// Applies to the following gradients. `seed`: for dropout and other random numbers. `accumulate`: the
// gradient is added to the vector. Both are initially 0.
void train_model_prepare(struct train_model *model, uint64_t seed, bool accumulate);

// The following gradients are passed to `taker` (borrowed), each element once with its place in the vector,
// and `gradient` is ignored. NULL, the initial value: they are written. The taker may change the parameters
// at the places that it receives. These gradients do not accumulate. Use this only if train_model_gives says
// that it works for batches of up to `rows`.
void train_model_give(struct train_model *model, const struct kernels_taker *taker);
bool train_model_gives(const struct train_model *model, size_t rows);

// The following gradients cover only features from .. to-1 and the bias, and are 0 elsewhere. to 0, the
// initial value: all features. For models that take rows.
void train_model_restrict(struct train_model *model, size_t from, size_t to);

// One batch with cross entropy. x [rows, inputs]: floats, or uint32_t ids or a struct train_rows if the model
// takes these. One label < classes per row, or per row and position if the model has several outputs. rows <=
// max_batch. x, labels, parameters and gradient are in the kernels' memory. gradient [parameters] becomes
// `weight` times the mean over labels of d loss / d parameters; *loss does not include the weight.
void train_model_gradient(struct train_model *model, const float *parameters, const void *x,
                          const uint32_t *labels, size_t rows, float weight, float *gradient,
                          struct kernels_loss *loss);

// The outputs of the model for x [rows, inputs]: logits [rows, classes], both in host memory; parameters in
// the kernels' memory; rows <= max_batch.
void train_model_logits(struct train_model *model, const float *parameters, const void *x, size_t rows,
                        float *logits);

// As train_model_gradient, for a regression: targets [rows, classes] in host memory.
void train_model_gradient_regression(struct train_model *model, const float *parameters, const float *x,
                                     const float *targets, size_t rows, float weight, float *gradient,
                                     struct kernels_loss *loss);

struct train_score {
    double loss;     // mean over the examples
    double accuracy; // part of the examples that is right; for a regression R2, the explained part of the
                     // variance
    double rmse;     // for a regression, in the units of the targets before scaling; else NAN
};
struct train_dataset;
// Evaluates a whole data set, in batches of max_batch; the parameters are in the kernels' memory.
void train_model_evaluate(struct train_model *model, const float *parameters,
                          const struct train_dataset *data, struct train_score *score);

#endif
