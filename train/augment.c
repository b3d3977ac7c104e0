#include "train/augment.h"
#include "base/error.h"
#include "base/rng.h"
#include <string.h>

#define STREAM 0x6175676du // random stream of the draws

bool train_augment_is_on(const struct train_augment *augment)
{
    return augment->crop > 0 || augment->flip;
}

// Copies one row as seen through a window that is `right` pixels further to the right; `turned`: mirrored.
// Pixels outside the row are 0.
static void put_row(const float *from, size_t width, size_t channels, ptrdiff_t right, bool turned, float *to)
{
    for (size_t x = 0; x < width; x++) {
        const ptrdiff_t source = (ptrdiff_t)(turned ? width - 1 - x : x) + right;
        float *pixel = to + x * channels;
        if (source < 0 || (size_t)source >= width)
            memset(pixel, 0, channels * sizeof *pixel);
        else
            memcpy(pixel, from + (size_t)source * channels, channels * sizeof *pixel);
    }
}

void train_augment_image(const struct train_augment *augment, const struct train_dataset *data, uint64_t draw,
                         const float *from, float *to)
{
    const size_t width = data->width, channels = data->channels, row = width * channels;
    const ptrdiff_t crop = (ptrdiff_t)augment->crop;
    struct base_rng rng;
    BASE_ASSERT(data->height > 0 && data->height * row == data->features);
    base_rng_seed_stream(&rng, draw, STREAM);
    const ptrdiff_t down = (ptrdiff_t)base_rng_below(&rng, (uint64_t)(2 * crop + 1)) - crop;
    const ptrdiff_t right = (ptrdiff_t)base_rng_below(&rng, (uint64_t)(2 * crop + 1)) - crop;
    const bool turned = augment->flip && base_rng_below(&rng, 2) == 1;
    for (size_t y = 0; y < data->height; y++) {
        const ptrdiff_t source = (ptrdiff_t)y + down;
        if (source < 0 || (size_t)source >= data->height)
            memset(to + y * row, 0, row * sizeof *to);
        else
            put_row(from + (size_t)source * row, width, channels, right, turned, to + y * row);
    }
}
