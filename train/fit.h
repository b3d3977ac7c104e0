// Whether options, model, kernels and data set fit each other. Private to train/. Pure functions.
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "base/error.h"
#include "train/dataset.h"
#include "train/model.h"
#include <stddef.h>

struct train_options;

// The batch size that the options ask for, at most the size of the data set.
size_t train_fit_batch(const struct train_options *options, const struct train_dataset *data);
// The number of examples of a batch that pass through the model at once.
size_t train_fit_part(const struct train_options *options, const struct train_dataset *data, size_t batch);

// BASE_EINVAL; the reason says what was found and what was expected.
enum base_error train_fit_data(const struct train_options *options, const struct train_model *model,
                               const struct train_dataset *data, struct base_reason *why) BASE_CHECK;
enum base_error train_fit_optimizer(const struct train_options *options, const struct train_model *model,
                                    struct base_reason *why) BASE_CHECK;

#endif
