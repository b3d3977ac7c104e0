// Any bytes as .npz, or as one .npy for x and y: an error with a reason, or a data set of valid numbers.
#include "base/error.h"
#include "train/dataset.h"
#include "train/loaders.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    const struct train_bytes file = {"file", data + 1, bytes - 1};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    if (train_npy_parse(&file, data[0] & 1 ? &file : NULL, data[0] & 2, NULL, &set, &why)) {
        BASE_ASSERT(why.text[0] != 0 && !set.x);
        return 0;
    }
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(isfinite(set.x[i]));
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(!set.labels ? isfinite(set.targets[i * set.outputs]) : set.labels[i] < set.classes);
    train_dataset_destroy(&set);
    return 0;
}
