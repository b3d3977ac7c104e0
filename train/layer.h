// A model is a list of layers over the kernel table (train/model.c walks it). A layer type is a struct of
// functions; a layer is a type, its dimensions and its place in the model. Composite layers (a residual
// block, a transformer block) are layer types of their own: they divide `kept` and `scratch` among their
// parts.
//
// The data between two layers are a batch of rows, row-major: [examples, positions, height, width, channels]
// fp32. An image is one position of height x width x channels (channels last); a vector is one position of
// channels; a sequence is `positions` vectors. Kernels see [examples * positions, height * width * channels].
//
// A first layer that takes ids (`in.ids`) gets uint32_t [examples, positions] instead of floats; the feed
// converts them from the bytes or uint16 of files. Every id is below `in.vocabulary`: the data set is checked
// before training, so layers only assert it.
//
// The loss has one label for each row of the last layer's output, labels [examples * out.positions]: one per
// example for a classifier, one per token for a decoder. It is the mean over these rows. It replaces the last
// layer's y by dy in place, so the type of a last layer must not read y in backward.
//
// A first layer that takes rows (`in.rows`) gets a struct train_rows (train/rows.h) instead, sparse or dense,
// in host memory.
//
// Functions of a type are pure except for their outputs; they allocate nothing. All pointers except `layer`
// are in the kernels' memory. One model, one thread at a time.
#ifndef TRAIN_LAYER_H
#define TRAIN_LAYER_H

#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "train/model.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct train_shape { // one example between two layers; all sizes >= 1
    size_t positions, height, width, channels;
    bool rows;         // a struct train_rows: first layer only
    bool ids;          // uint32_t ids, one per position (height, width and channels are then 1): first layer
                       // only
    size_t vocabulary; // of ids, else 0
};
size_t train_shape_count(const struct train_shape *shape); // numbers per example
size_t train_shape_width(const struct train_shape *shape); // numbers per position

struct train_layer_type;

struct train_layer {
    const struct train_layer_type *type;
    union { // dimensions; filled in by the constructors in train/layers.h
        struct {
            size_t outputs;
            bool relu;
        } linear;
        struct {
            size_t outputs; // 1: for two classes
        } rows;
        struct {
            size_t outputs, size, stride, padding;
            bool bias, relu;
        } conv;
        struct {
            size_t size; // 0: the whole image
            bool mean;
        } pool;
        struct {
            size_t groups;
            bool relu;
        } norm;
        struct {
            size_t outputs, stride, groups;
        } residual;
        struct {
            size_t width, heads, layers, vocabulary; // layers: number in the whole decoder
            float dropout;
        } decoder;
    } d;
    char name[LIMIT_TENSOR_NAME_BYTES / 2];   // prefix of the tensors: "layers.0", "h.3"; "": none
    char abroad[LIMIT_TENSOR_NAME_BYTES / 2]; // the same in files for other programs, such as torch's "0",
                                              // "2"
    // Filled in by the model:
    struct train_shape in, out;
    const struct train_tensor *tensors; // of this layer, in the order of its type's `tensors`
    size_t n_tensors;
    size_t index;                     // in the model; also the stream of its random numbers
    const struct train_layer *layers; // all layers of the model: a tied head reads layers[0].tensors
};

struct train_layer_floats { // numbers of 4 bytes; a type may keep uint32_t in them
    size_t kept;            // separate for each layer, kept from forward to backward
    size_t scratch;         // used within one call; shared by all layers
    size_t y;               // size of the output, for a last layer that does not store it as fp32; else 0
};

// One pass over a batch.
struct train_pass {
    const struct kernels *kernels;
    size_t examples;
    bool training;   // false: evaluation, without dropout
    bool accumulate; // backward adds to the gradient instead of overwriting it (micro-batches)
    size_t from, to; // layers of rows: backward computes only features from .. to-1; the gradient of the
                     // others is 0. to 0: all features
    uint64_t seed;   // for the random numbers of this batch: base_rng_seed_stream(&rng, pass->seed,
                     // layer->index)
    float *scratch;  // the largest size that a layer asked for
    const struct kernels_taker *taker; // backward passes the gradient to it (train_model_give); NULL:
                                       // backward writes the gradient
};

// Adds a tensor of a layer; the name is prefixed by that of the layer ("weight" -> "layers.0.weight").
// Asserts LIMIT_TENSOR_NAME_BYTES. The caller may change `abroad` in the returned tensor, which is valid
// until the next call.
struct train_tensor_list;
struct train_tensor *train_tensor_add(struct train_tensor_list *list, const char *name, size_t n_dims,
                                      const size_t *shape);
// In files for other programs, dimension i is our dimension order[i], for all dimensions of the tensor.
void train_tensor_permute(struct train_tensor *tensor, const size_t *order);

struct train_layer_type {
    const char *name; // "linear", "conv2d": for messages
    // Checks the dimensions against the shape of the layer below and fills *out. BASE_EINVAL with names and
    // numbers. Every accepted size is bounded, so that products of sizes fit into size_t.
    enum base_error (*check)(const struct train_layer *layer, const struct train_shape *in,
                             struct train_shape *out, struct base_reason *why);
    // NULL: the type has no parameters. layer->in and out are set.
    void (*tensors)(const struct train_layer *layer, struct train_tensor_list *list);
    // Whether this backend has the kernels. NULL: every backend has them. If false, creating the model fails,
    // and the reason names layer and backend.
    bool (*runs)(const struct kernels *kernels);
    // For a batch of at most `examples`. NULL: none.
    void (*floats)(const struct train_layer *layer, const struct kernels *kernels, size_t examples,
                   struct train_layer_floats *floats);
    // Writes the initial values of the layer's tensors at layer->tensors[i].offset in `parameters` (host
    // memory, the whole vector, zeroed before). Draws from `rng` only. NULL: all zero.
    void (*initialise)(const struct train_layer *layer, struct base_rng *rng, float *parameters);
    // x: the layer's input, y: its output; they never overlap. parameters: the whole vector.
    void (*forward)(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                    const void *x, float *y, float *kept);
    // dy: gradient of the loss with respect to y, may be overwritten. dx (never overlaps dy): the gradient
    // with respect to x, or NULL if it is not needed (first layer, ids). Writes, or with pass->accumulate
    // adds, the gradient of the layer's tensors at their offsets. A tensor that two layers share belongs to
    // the lower one. The lower layer always adds, because backward calls the upper one first, which writes.
    void (*backward)(const struct train_layer *layer, const struct train_pass *pass, const float *parameters,
                     const void *x, const float *y, float *dy, float *dx, float *kept, float *gradient);
    // Whether backward of up to `examples` can pass its gradient to pass->taker instead of writing it. NULL:
    // never; a type without parameters leaves it NULL.
    bool (*gives)(const struct train_layer *layer, const struct kernels *kernels, size_t examples);
    // For a last layer that does not store its output as fp32; NULL: it does. loss: as softmax_cross_entropy
    // of the kernels. download: the output as fp32 in host memory.
    void (*loss)(const struct train_layer *layer, const struct train_pass *pass, float *y,
                 const uint32_t *labels, float scale, struct kernels_loss *loss);
    void (*download)(const struct train_layer *layer, const struct train_pass *pass, const float *y,
                     float *to_host);
};

#endif
