// Scaling of features, and of the targets of a regression. Statistics are sums in double over the rows in
// their order, so every node that reads the same rows finds the same bits.
#ifndef TRAIN_SCALE_H
#define TRAIN_SCALE_H

#include "train/dataset.h"
#include <stdbool.h>

// Fills shift and factor of the meaning that `data` has (or gets) from its rows, which are not scaled yet.
// standard: mean 0, deviation 1; minmax: 0 to 1. Categories stay 0 and 1; what never changes gets factor 1.
// Before any other thread knows the meaning. BASE_ENOMEM.
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

// Rows that a model with this meaning is to be used on, `features` wide: as train_scale_apply. And its
// outputs back to the units of the targets. NULL or TRAIN_SCALE_NONE: nothing.
void train_scale_rows(const struct train_meaning *meaning, float *x, size_t rows);
void train_scale_targets_back(const struct train_meaning *meaning, float *targets, size_t rows);

// For statistics that come later, of more rows than these: the meaning gets shift 0 and factor 1.
enum base_error train_scale_open(struct train_dataset *data, enum train_scale scale,
                                 struct base_reason *why) BASE_CHECK;
// Back to the numbers of before train_scale_apply, but for rounding; after train_scale_open the same bits.
void train_scale_undo(struct train_dataset *data);

// Statistics of one column of `stride`, over the rows 0 .. examples-1 of `values` (train_scale_spread).
struct train_spread {
    double least, most, mean, deviation;
};
// The statistics of an opened meaning: spreads[features, then targets].
void train_scale_set(struct train_meaning *meaning, const struct train_spread *spreads);
struct train_spread train_scale_spread(const float *values, size_t examples, size_t stride, size_t column);

#endif
