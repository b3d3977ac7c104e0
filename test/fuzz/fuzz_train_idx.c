// Any two files: an error with a reason, or a data set of valid numbers. The first two bytes are the length
// of the images; the labels follow.
#include "base/error.h"
#include "train/dataset.h"
#include "train/loaders.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2)
        return 0;
    size_t cut = ((size_t)data[0] << 8 | data[1]) % (bytes - 1);
    struct train_bytes images = {"images", data + 2, cut};
    struct train_bytes labels = {"labels", data + 2 + cut, bytes - 2 - cut};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    if (train_idx_parse(&images, &labels, 0, 0, 10, &set, &why)) {
        BASE_ASSERT(why.text[0] != 0 && !set.x);
        return 0;
    }
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(set.x[i] >= 0 && set.x[i] <= 1);
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(set.labels[i] < set.classes);
    train_dataset_destroy(&set);
    return 0;
}
