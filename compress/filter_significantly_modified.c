// Drops entries that are small relative to the element that they would change: |a| < threshold * max(|x|,
// floor). The "significantly modified" filter of Li et al. (OSDI 2014), in the relative form of Gaia (Hsieh
// et al., NSDI 2017). Two models may stay apart by the threshold. Without the floor, every rounding error in
// an element at zero would count as a change.
#include "compress/filter.h"

#include <math.h>

static const float model_floor = 0x1p-20f;

static void keep_significant(double number, const struct compress_filter_run *run, uint8_t *keep)
{
    const float threshold = (float)number;
    for (size_t i = 0; i < run->count; i++) {
        float size = fabsf(run->model[i]);
        size = size > model_floor ? size : model_floor;
        keep[i] = fabsf(run->value[i]) >= threshold * size;
    }
}

const struct compress_filter compress_filter_significantly_modified = {
    .name = "significantly-modified",
    .number = "minimum change that is sent, relative to the element",
    .least = 0,
    .most = 1,
    .reads_model = true,
    .keep = keep_significant,
};
