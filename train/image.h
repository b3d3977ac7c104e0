// One picture of a file, decoded. Private to train/ and its tests. Any thread.
#ifndef TRAIN_IMAGE_H
#define TRAIN_IMAGE_H

#include "base/limits.h"
#include "train/loaders.h"
#include <stdbool.h>

struct train_image {
    size_t width, height, channels; // channels: 1 grey, 3 red, green, blue
    uint8_t *pixels;                // [height, width, channels]; malloc'ed
};

// `channels`: what the picture is brought to; 0: as the file has it. Sides up to LIMIT_IMAGE_SIDE and pixels
// up to LIMIT_IMAGE_PIXELS, known before anything is allocated. Transparent parts become black. Damaged or
// half a file: BASE_EFORMAT.
enum base_error train_image_decode(const struct train_bytes *file, size_t channels, struct train_image *image,
                                   struct base_reason *why) BASE_CHECK;
enum base_error train_png_decode(const struct train_bytes *file, size_t channels, struct train_image *image,
                                 struct base_reason *why) BASE_CHECK; // png.c, the only file that sees libpng
enum base_error
train_jpeg_decode(const struct train_bytes *file, size_t channels, struct train_image *image,
                  struct base_reason *why) BASE_CHECK; // jpeg.c, the only one that sees libjpeg
static inline bool train_image_size_fits(size_t width, size_t height)
{
    return width > 0 && height > 0 && width <= LIMIT_IMAGE_SIDE && height <= LIMIT_IMAGE_SIDE &&
           width * height <= LIMIT_IMAGE_PIXELS;
}

// Brought to [height, width, channels] of 0 to 1. Each new pixel is the mean of the area of the picture that
// it covers, parts of pixels counting as parts; of the same size, each is value / 255.
void train_image_fit(const struct train_image *image, size_t width, size_t height, float *out);

#endif
