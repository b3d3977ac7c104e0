// Decodes one PNG or JPEG file, and resizes the picture for a model. Private to train/ and its tests. Any
// thread.
#ifndef TRAIN_IMAGE_H
#define TRAIN_IMAGE_H

#include "train/picture.h"

// `channels`: the picture is converted to this number; 0: as in the file. Sides of up to LIMIT_IMAGE_SIDE and
// up to LIMIT_IMAGE_PIXELS pixels, checked before any allocation. Transparent parts become black.
// BASE_EFORMAT: the file is damaged or incomplete.
enum base_error train_image_decode(const struct train_bytes *file, size_t channels,
                                   struct train_picture *image, struct base_reason *why) BASE_CHECK;

// Resizes to [height, width, channels], values 0 to 1. Each new pixel is the mean of the area of the picture
// that it covers, including fractions of pixels. If the size stays the same, each is value / 255.
void train_image_fit(const struct train_picture *image, size_t width, size_t height, float *out);

#endif
