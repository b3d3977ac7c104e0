// Random crops and flips of the images that a model trains on (Krizhevsky, Sutskever, Hinton 2012, section
// 4.1; with a border of zeros as He, Zhang, Ren, Sun 2016, section 4.2). Pure; any thread.
#ifndef TRAIN_AUGMENT_H
#define TRAIN_AUGMENT_H

#include "train/dataset.h"
#include <stdbool.h>
#include <stdint.h>

struct train_augment {
    size_t crop; // an image is shifted by up to this many pixels in each direction; new pixels are 0. 0: off
    bool flip;   // half of the images are mirrored left to right
};
bool train_augment_is_on(const struct train_augment *augment);

// Writes the augmented image `from` to `to`; both [height, width, channels]. The same `draw` gives the same
// image, on every machine.
void train_augment_image(const struct train_augment *augment, const struct train_dataset *data, uint64_t draw,
                         const float *from, float *to);

#endif
