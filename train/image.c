#include "train/image.h"
#include <math.h>
#include <string.h>

enum base_error train_image_decode(const struct train_bytes *file, size_t channels,
                                   struct train_picture *image, struct base_reason *why)
{
    if (file->bytes >= 8 && memcmp(file->data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return train_png_decode(file, channels, image, why);
    if (file->bytes >= 3 && memcmp(file->data, "\xff\xd8\xff", 3) == 0)
        return train_jpeg_decode(file, channels, image, why);
    return base_fail(why, BASE_EFORMAT, "%s: %s, expected the bytes of a PNG or JPEG", file->name,
                     file->bytes == 0 ? "the file is empty" : "begins like neither");
}

// The mean over the columns from left to right and the rows from top to bottom, in pixels of the source.
static float mean_of(const struct train_picture *image, double left, double right, double top, double bottom,
                     size_t channel)
{
    double sum = 0, area = 0;
    for (size_t y = (size_t)top; y < image->height && (double)y < bottom; y++) {
        const double tall = fmin(bottom, (double)y + 1) - fmax(top, (double)y);
        for (size_t x = (size_t)left; x < image->width && (double)x < right; x++) {
            const double part = tall * (fmin(right, (double)x + 1) - fmax(left, (double)x));
            sum += part * image->pixels[(y * image->width + x) * image->channels + channel];
            area += part;
        }
    }
    return (float)(sum / area / 255.0);
}

void train_image_fit(const struct train_picture *image, size_t width, size_t height, float *out)
{
    const size_t c = image->channels;
    if (width == image->width && height == image->height) {
        for (size_t i = 0; i < width * height * c; i++)
            out[i] = (float)image->pixels[i] / 255.0f;
        return;
    }
    const double across = (double)image->width / (double)width, down = (double)image->height / (double)height;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t k = 0; k < c; k++)
                out[(y * width + x) * c + k] = mean_of(image, (double)x * across, (double)(x + 1) * across,
                                                       (double)y * down, (double)(y + 1) * down, k);
}
