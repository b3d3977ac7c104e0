// NumPy's arrays: one .npy of x and one of y, or a .npz that holds "x" and "y".
//
// x [examples, ...]: float32, float64, integers or bool; all behind the first axis are the features, in C
// order. y [examples] or [examples, 1]: whole numbers, whose different values in order are the classes; of a
// regression [examples] or [examples, outputs] of any of these types. What has to be read is little-endian.
#ifndef TRAIN_NPY_H
#define TRAIN_NPY_H

#include "base/error.h"
#include "train/dataset.h"
#include <stdbool.h>

// `y` NULL: `x` is a .npz. `like`: classes as there, or NULL. Errors name the file and the array's place:
// BASE_EFORMAT, BASE_EMISMATCH, BASE_ELIMIT, BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_npy(const char *x, const char *y, bool regression,
                                       struct train_meaning *like, struct train_dataset *data,
                                       struct base_reason *why) BASE_CHECK;

#endif
