// Shared by the two readers of NumPy files. Private to train/ and its tests.
#ifndef TRAIN_NPY_PRIVATE_H
#define TRAIN_NPY_PRIVATE_H

#include "train/loaders.h"
#include "train/npy.h"
#include <stddef.h>
#include <stdint.h>

#define TRAIN_NPY_AXES 8u

struct train_npy_array {
    const char *name;
    char kind; // 'f', 'i', 'u', 'b'
    size_t item_bytes, axes, shape[TRAIN_NPY_AXES], count;
    const uint8_t *values; // [count * item_bytes], borrowed
};

// Parses the header and checks it against the length of the file.
enum base_error train_npy_open(const struct train_bytes *file, struct train_npy_array *array,
                               struct base_reason *why) BASE_CHECK;
double train_npy_value(const struct train_npy_array *array, size_t index);

// Member `member` of a zip file, stored or deflated. *owned: malloc'ed if it had to be unpacked, else NULL.
enum base_error train_zip_member(const struct train_bytes *zip, const char *member, struct train_bytes *file,
                                 uint8_t **owned, struct base_reason *why) BASE_CHECK;

#endif
