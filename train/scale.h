// Scaling of features, and of the targets of a regression, in double: of the numbers as they are in the file,
// of which a float may hold too little (struct train_dataset, x_rest). Statistics are sums over the rows in
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
bool train_scale_is_plausible(double shift, float factor);

// Scales `data` in place, once: (value - shift) * factor, as its meaning says, rounded to a float, with what
// is left in the rests. NULL or TRAIN_SCALE_NONE: nothing.
void train_scale_apply(struct train_dataset *data);

// For using a model: rounds rows of meaning->features values to floats, scaled as train_scale_apply does; and
// converts outputs[meaning->targets.count] back to the units of the targets. NULL or TRAIN_SCALE_NONE: only
// converts the type.
void train_scale_rows(const struct train_meaning *meaning, const double *values, size_t features, size_t rows,
                      float *x);
void train_scale_targets_back(const struct train_meaning *meaning, const float *outputs, size_t count,
                              size_t rows, double *targets);
// Whether some feature or target is so far from 0 that a float would lose its differences: its value must be
// a double until it is shifted.
bool train_scale_needs_double(const struct train_meaning *meaning);

// For statistics that are computed later, from more rows than these: the meaning gets shift 0 and factor 1.
enum base_error train_scale_open(struct train_dataset *data, enum train_scale scale,
                                 struct base_reason *why) BASE_CHECK;
// Undoes train_scale_apply, except for rounding. After train_scale_open alone the values keep their bits.
void train_scale_undo(struct train_dataset *data);

// The first feature of which 32-bit floats hold under nine tenths of the different numbers that the file has,
// and both counts; SIZE_MAX: none. For data that are not scaled, which lose these differences.
size_t train_scale_collapsed(const struct train_dataset *data, size_t *different, size_t *left);

// Statistics of one column over the rows 0 .. examples-1 (train_scale_spread; a row has `stride` values).
struct train_spread {
    double least, most, mean, deviation;
};
// Sets the statistics of a meaning of train_scale_open: spreads[features, then targets].
void train_scale_set(struct train_meaning *meaning, const struct train_spread *spreads);
// `rests`: as x_rest, or NULL.
struct train_spread train_scale_spread(const float *values, const float *rests, size_t examples,
                                       size_t stride, size_t column);

#endif
