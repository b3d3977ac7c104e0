// Any text: an error with a reason, or a data set whose numbers all hold. The first byte says how many
// classes.
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
    struct train_bytes text = {"text", data + 1, bytes - 1};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    if (train_libsvm_parse(&text, 20, 1 + data[0] % 12, 0, 0, &set, &why) != BASE_OK) {
        BASE_ASSERT(why.text[0] != 0 && set.x == NULL);
        return 0;
    }
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(isfinite(set.x[i]));
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(set.labels[i] < set.classes);
    train_dataset_destroy(&set);
    return 0;
}
