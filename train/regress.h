// The losses of a regression. On a device the outputs are copied to the host and the gradient back, a few
// numbers per row, which is little compared to the products of the layers. Private to train/. Pure; any
// thread.
#ifndef TRAIN_REGRESS_H
#define TRAIN_REGRESS_H

#include "train/dataset.h"
#include "train/model.h"
#include <stdbool.h>
#include <stddef.h>

// z [rows, cols] (host): outputs become `scale` times the gradient of the sum over rows of the mean over the
// outputs of (z - t)^2, or of |z - t|. loss_sum: that sum, in double; correct: 0.
void train_regress_loss(enum train_loss kind, size_t rows, size_t cols, float *z, const float *targets,
                        float scale, struct kernels_loss *loss);

// Sums over the data set of a regression, for R2 and RMSE.
struct train_regress_sums {
    size_t outputs;
    double *squared; // [outputs]: sum of (z - t)^2; malloc'ed
};
bool train_regress_begin(size_t outputs, struct train_regress_sums *sums); // false: out of memory
void train_regress_add(struct train_regress_sums *sums, size_t rows, const float *z, const float *targets);
// R2: mean over the outputs of 1 - squared error / squared deviation from their mean; NAN if a target is
// constant. rmse is in the units of the targets in the file. Frees the sums.
void train_regress_end(struct train_regress_sums *sums, const struct train_dataset *data, double *r2,
                       double *rmse);

#endif
