// A picture in memory, and the decoder of each file format. Private to train/ and its tests. Any thread.
#ifndef TRAIN_PICTURE_H
#define TRAIN_PICTURE_H

#include "base/limits.h"
#include "train/loaders.h"
#include <stdbool.h>

struct train_picture {
    size_t width, height, channels; // channels: 1 grey, 3 red, green, blue
    uint8_t *pixels;                // [height, width, channels]; malloc'ed
};

// How the camera was held, from 1 (upright) to 8, of the EXIF data exif[bytes], which begin with the byte
// order; 1 if they do not say it.
unsigned train_exif_orientation(const uint8_t *exif, size_t bytes);
// Turns and mirrors the picture to be upright. BASE_ENOMEM.
enum base_error train_image_turn(struct train_picture *image, unsigned orientation) BASE_CHECK;

static inline bool train_image_size_fits(size_t width, size_t height)
{
    return width > 0 && height > 0 && width <= LIMIT_IMAGE_SIDE && height <= LIMIT_IMAGE_SIDE &&
           width * height <= LIMIT_IMAGE_PIXELS;
}

// As train_image_decode.
enum base_error train_png_decode(const struct train_bytes *file, size_t channels, struct train_picture *image,
                                 struct base_reason *why) BASE_CHECK; // png.c, the only file that includes
                                                                      // libpng
enum base_error
train_jpeg_decode(const struct train_bytes *file, size_t channels, struct train_picture *image,
                  struct base_reason *why) BASE_CHECK; // jpeg.c, the only one that includes libjpeg

#endif
