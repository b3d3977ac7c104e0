// One picture of a file, PNG or JPEG, and its size brought to that of a model. Private to train/ and its
// tests. Any thread.
#ifndef TRAIN_IMAGE_H
#define TRAIN_IMAGE_H

#include "train/picture.h"

// `channels`: what the picture is brought to; 0: as the file has it. Sides up to LIMIT_IMAGE_SIDE and pixels
// up to LIMIT_IMAGE_PIXELS, known before anything is allocated. Transparent parts become black. Damaged or
// half a file: BASE_EFORMAT.
enum base_error train_image_decode(const struct train_bytes *file, size_t channels, struct train_image *image,
                                   struct base_reason *why) BASE_CHECK;

// Brought to [height, width, channels] of 0 to 1. Each new pixel is the mean of the area of the picture that
// it covers, parts of pixels counting as parts; of the same size, each is value / 255.
void train_image_fit(const struct train_image *image, size_t width, size_t height, float *out);

#endif
