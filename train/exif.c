// The orientation of a photograph (EXIF 2.32, section 4.6.4, tag 0x0112).
#include "train/picture.h"
#include <stdlib.h>
#include <string.h>

#define ORIENTATION 0x0112u
#define TYPE_SHORT  3u
#define ENTRY_BYTES 12u

static unsigned number(const uint8_t *at, size_t bytes, bool little)
{
    unsigned value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (unsigned)at[i] << 8 * (little ? i : bytes - 1 - i);
    return value;
}

unsigned train_exif_orientation(const uint8_t *exif, size_t bytes)
{
    if (bytes < 8 || (memcmp(exif, "II*\0", 4) != 0 && memcmp(exif, "MM\0*", 4) != 0))
        return 1;
    const bool little = exif[0] == 'I';
    const size_t directory = number(exif + 4, 4, little);
    if (directory > bytes || bytes - directory < 2)
        return 1;
    const unsigned entries = number(exif + directory, 2, little);
    for (size_t i = 0; i < entries && (i + 1) * ENTRY_BYTES + 2 <= bytes - directory; i++) {
        const uint8_t *entry = exif + directory + 2 + i * ENTRY_BYTES;
        if (number(entry, 2, little) != ORIENTATION)
            continue;
        const unsigned value = number(entry + 8, 2, little);
        return number(entry + 2, 2, little) == TYPE_SHORT && value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

// Orientations: 1 upright, 2 mirrored, 3 turned by half, 4 upside down, 5 transposed, 6 to be turned to the
// right, 7 transposed over the other diagonal, 8 to be turned to the left.
enum base_error train_image_turn(struct train_picture *image, unsigned orientation)
{
    const size_t w = image->width, h = image->height, c = image->channels;
    const bool swaps = orientation >= 5;
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    if (orientation <= 1 || orientation > 8)
        return BASE_OK;
    uint8_t *turned = malloc(w * h * c);
    if (!turned)
        return BASE_ENOMEM;
    const size_t width = swaps ? h : w, height = swaps ? w : h;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            size_t column = swaps ? y : x, row = swaps ? x : y;
            column = from_right ? w - 1 - column : column;
            row = from_below ? h - 1 - row : row;
            memcpy(turned + (y * width + x) * c, image->pixels + (row * w + column) * c, c);
        }
    free(image->pixels);
    *image = (struct train_picture){width, height, c, turned};
    return BASE_OK;
}
