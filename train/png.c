// PNG through the simplified interface of libpng, which has no callbacks and no longjmp.
#include "base/limits.h"
#include "train/picture.h"
#include <png.h>
#include <stdlib.h>
#include <string.h>

// How the camera was held, from the chunk eXIf (PNG 3, section 11.3.4.5).
static unsigned orientation_of(const struct train_bytes *file)
{
    size_t at = 8; // behind the signature; a chunk: length, name, data, checksum
    while (at + 12 <= file->bytes) {
        const uint8_t *chunk = file->data + at;
        const size_t length =
            (size_t)chunk[0] << 24 | (size_t)chunk[1] << 16 | (size_t)chunk[2] << 8 | chunk[3];
        if (length > file->bytes - at - 12)
            break;
        if (memcmp(chunk + 4, "eXIf", 4) == 0)
            return train_exif_orientation(chunk + 8, length);
        at += length + 12;
    }
    return 1;
}

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
    struct train_picture upright = {png.width, png.height, channels, pixels};
    if (train_image_turn(&upright, orientation_of(file))) {
        free(pixels);
        return base_fail(why, BASE_ENOMEM, "%s: no memory to turn it", file->name);
    }
    *image = upright;
    return BASE_OK;
}
