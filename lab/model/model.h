// A trained model in use: opened from its file, queried, measured, exported. Main thread.
#ifndef LAB_MODEL_MODEL_H
#define LAB_MODEL_MODEL_H

#include "node/store/model_file.h"
#include "train/dataset.h"

#include <stdio.h>

struct lab_model {
    char path[NODE_MODEL_PATH]; // of the file that was read
    struct node_model_file file;
    const struct kernels *kernels;
    struct train_model *model;
    float *parameters; // in the kernels' memory
    size_t batch;      // rows that the model computes at once
};

// Reads only the file; free it with node_model_free. `path` as for node_model_find.
enum base_error lab_model_read(const char *path, struct node_model_file *file,
                               struct base_reason *why) BASE_CHECK;
// `path` as for node_model_find. On error *model is {0}.
enum base_error lab_model_open(const char *path, struct lab_model *model, struct base_reason *why) BASE_CHECK;
void lab_model_close(struct lab_model *model);

// Writes the class and the probabilities of every row of `in`, or for a regression the values in their units,
// to `out` as lines of comma-separated values; messages call `in` `name`. For a model of tables `in` is a
// table (train/table_rows.h), else rows of numbers (lab/model/rows.h); for either it may be a .npy of x or a
// .npz that has one. All are in the form of the training data: categories, divisor and scaling are applied
// here. Stops at the first malformed row and names its line and column (BASE_EFORMAT, BASE_EMISMATCH); the
// rows before it have been answered.
enum base_error lab_model_predict(struct lab_model *model, const char *name, FILE *in, FILE *out,
                                  struct base_reason *why) BASE_CHECK;
bool lab_model_takes_images(const struct lab_model *model);
// The same for PNG and JPEG files; BASE_EMISMATCH where the model is not a model of images.
enum base_error lab_model_predict_images(struct lab_model *model, const char *const *paths, size_t count,
                                         FILE *out, struct base_reason *why) BASE_CHECK;

struct lab_measured {
    double accuracy, loss; // accuracy: R2 of a regression
    double rmse;           // of a regression
    bool regression, text; // text: accuracy of the next token
    size_t examples;
};
// On the test examples that `settings` ("data.kind=idx", ...) describe. data.features and data.classes are
// the model's where the settings omit them. BASE_EINVAL: a setting; BASE_EMISMATCH: data of another shape.
enum base_error lab_model_measure(struct lab_model *model, const char *const *settings, size_t n_settings,
                                  struct lab_measured *measured, struct base_reason *why) BASE_CHECK;

#endif
