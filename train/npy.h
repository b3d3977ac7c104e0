// NumPy arrays: one .npy of x and one of y, or a .npz that contains "x" and "y".
//
// x [examples, ...]: float32, float64, integers or bool; the axes after the first are the features, in C
// order. y [examples] or [examples, 1]: whole numbers, whose distinct values in ascending order are the
// classes; for a regression [examples] or [examples, outputs] of any of these types. Arrays must be
// little-endian.
#ifndef TRAIN_NPY_H
#define TRAIN_NPY_H

#include "base/error.h"
#include "train/dataset.h"
#include <stdbool.h>

// `y` NULL: `x` is a .npz. `like`: use its classes; may be NULL. Errors name the file and the place in the
// array: BASE_EFORMAT, BASE_EMISMATCH, BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_npy(const char *x, const char *y, bool regression,
                                       struct train_meaning *like, struct train_dataset *data,
                                       struct base_reason *why) BASE_CHECK;

#endif
