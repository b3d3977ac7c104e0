// Scaling of features, and of the targets of a regression. Statistics are sums in double over the rows in
// order, so all nodes that read the same rows compute the same bits.
#ifndef TRAIN_SCALE_H
#define TRAIN_SCALE_H

#include "train/dataset.h"
#include <stdbool.h>

// Computes shift and factor of the data's meaning, which is created if needed, from the rows, which must not
// be scaled yet. standard: mean 0, deviation 1; minmax: 0 to 1. Categories stay 0 and 1; a constant column
// gets factor 1. Call this before any other thread uses the meaning. BASE_ENOMEM.
enum base_error train_scale_measure(struct train_dataset *data, enum train_scale scale,
                                    struct base_reason *why) BASE_CHECK;

// Bounds of a plausible scaling: a column that would need a factor beyond them is not scaled, and such a
// scaling of another node is refused.
#define TRAIN_SCALE_FACTOR_MIN 1e-30f
#define TRAIN_SCALE_FACTOR_MAX 1e30f // and of |shift| * factor
bool train_scale_is_plausible(float shift, float factor);

// Scales `data` in place, once: (value - shift) * factor, as its meaning says. NULL or TRAIN_SCALE_NONE:
// nothing.
void train_scale_apply(struct train_dataset *data);

// For using a model: scales rows of meaning->features values as train_scale_apply does, and converts outputs
// back to the units of the targets. NULL or TRAIN_SCALE_NONE: nothing.
void train_scale_rows(const struct train_meaning *meaning, float *x, size_t rows);
void train_scale_targets_back(const struct train_meaning *meaning, float *targets, size_t rows);

// For statistics that are computed later, from more rows than these: the meaning gets shift 0 and factor 1.
enum base_error train_scale_open(struct train_dataset *data, enum train_scale scale,
                                 struct base_reason *why) BASE_CHECK;
// Undoes train_scale_apply, except for rounding. After train_scale_open alone the values keep their bits.
void train_scale_undo(struct train_dataset *data);

// Statistics of one column over the rows 0 .. examples-1 (train_scale_spread; a row has `stride` values).
struct train_spread {
    double least, most, mean, deviation;
};
// Sets the statistics of a meaning of train_scale_open: spreads[features, then targets].
void train_scale_set(struct train_meaning *meaning, const struct train_spread *spreads);
struct train_spread train_scale_spread(const float *values, size_t examples, size_t stride, size_t column);

#endif
