// Any bytes as one file of CIFAR-10, or as two: an error with a reason, or valid images and labels.
#include "base/error.h"
#include "train/dataset.h"
#include "train/loaders.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t cut = bytes / 6146 * 3073;
    const struct train_bytes files[] = {{"one", data, cut}, {"two", data + cut, bytes - cut}};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    if (train_cifar10_parse(cut > 0 ? files : files + 1, cut > 0 ? 2 : 1, &set, &why)) {
        BASE_ASSERT(why.text[0] != 0 && !set.x);
        return 0;
    }
    BASE_ASSERT(set.examples * 3073 == bytes);
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(set.x[i] >= 0.0f && set.x[i] <= 1.0f);
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(set.labels[i] < set.classes);
    train_dataset_destroy(&set);
    return 0;
}
