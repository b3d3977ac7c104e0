// PNG through the simplified interface of libpng, which has no callbacks and no longjmp.
#include "base/limits.h"
#include "train/picture.h"
#include <png.h>
#include <stdlib.h>
#include <string.h>

enum base_error train_png_decode(const struct train_bytes *file, size_t channels, struct train_picture *image,
                                 struct base_reason *why)
{
    static const png_color black = {0, 0, 0};
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&png, file->data, file->bytes))
        return base_fail(why, BASE_EFORMAT, "%s: cannot be read as a PNG: %s", file->name, png.message);
    if (!train_image_size_fits(png.width, png.height)) {
        png_image_free(&png);
        return base_fail(why, BASE_ELIMIT,
                         "%s: found %u x %u pixels, expected at most %u a side and %u in all", file->name,
                         png.width, png.height, LIMIT_IMAGE_SIDE, LIMIT_IMAGE_PIXELS);
    }
    if (channels == 0)
        channels = png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    png.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(png));
    if (!pixels) {
        png_image_free(&png);
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %u x %u pixels", file->name, png.width,
                         png.height);
    }
    if (!png_image_finish_read(&png, &black, pixels, 0, NULL)) {
        free(pixels);
        return base_fail(why, BASE_EFORMAT, "%s: the PNG is damaged: %s", file->name, png.message);
    }
    *image = (struct train_picture){png.width, png.height, channels, pixels};
    return BASE_OK;
}
