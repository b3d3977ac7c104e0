// A folder of folders of PNG and JPEG files: each folder is a class. Classes and files are sorted by the
// bytes of their names, so that all nodes number them in the same way.
#ifndef TRAIN_IMAGES_H
#define TRAIN_IMAGES_H

#include "base/error.h"
#include "train/dataset.h"

struct train_images_options {
    size_t width, height;       // all images are resized to this; 0: all must have the size of the first
                                // image
    size_t channels;            // 1 or 3; 0: as in the first image, and all must be the same
    struct train_meaning *like; // borrowed: use its size, colour and classes; NULL: take them from the files
};

// Names that begin with a point, and files next to the class folders, are ignored. Errors name the file:
// BASE_EFORMAT, BASE_EMISMATCH (another size or colour, an unknown class), BASE_ELIMIT, BASE_ENOMEM,
// BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_images(const char *folder, const struct train_images_options *options,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// Reads one file into row[meaning->features] for a model of images: converted to its size and colour, not
// scaled.
enum base_error train_image_row(const char *path, const struct train_meaning *meaning, float *row,
                                struct base_reason *why) BASE_CHECK;

#endif
