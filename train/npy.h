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

// The array x alone, of a .npy or of a .npz that has one, for a model that is used: rows of `features`
// numbers.
struct train_npy_rows; // one owner
// `bytes` are borrowed until the rows are closed. BASE_EMISMATCH: rows of another length; and the errors
// above.
enum base_error train_npy_rows_open(const char *name, const void *bytes, size_t count, size_t features,
                                    struct train_npy_rows **rows, struct base_reason *why) BASE_CHECK;
// Reads the next row into x[features], not scaled. BASE_EFORMAT: a number that is not finite.
enum base_error train_npy_rows_next(struct train_npy_rows *rows, double *x, bool *more,
                                    struct base_reason *why) BASE_CHECK;
void train_npy_rows_close(struct train_npy_rows *rows); // NULL is allowed
// Whether a file begins as a .npy or .npz.
bool train_npy_is_file(const void *bytes, size_t count);

#endif
