// A folder of folders of PNG and JPEG files: each folder is a class. Classes are in the order of the bytes of
// their names, files likewise, so that every node numbers them alike.
#ifndef TRAIN_IMAGES_H
#define TRAIN_IMAGES_H

#include "base/error.h"
#include "train/dataset.h"

struct train_images_options {
    size_t width, height;       // size that all images are brought to; 0: all have the size of the first
    size_t channels;            // 1 or 3; 0: as the first, and all are alike
    struct train_meaning *like; // borrowed: size, colour and classes as there; NULL: as found
};

// Names that begin with a point, and files beside the folders, are left out. Errors name the file:
// BASE_EFORMAT, BASE_EMISMATCH (another size or colour, an unknown class), BASE_ELIMIT, BASE_ENOMEM,
// BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_images(const char *folder, const struct train_images_options *options,
                                          struct train_dataset *data, struct base_reason *why) BASE_CHECK;

// One file as row[meaning->features] for a model of images: brought to its size and colour, not scaled.
enum base_error train_image_row(const char *path, const struct train_meaning *meaning, float *row,
                                struct base_reason *why) BASE_CHECK;

#endif
