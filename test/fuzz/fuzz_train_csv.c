// Any text as a table: an error with a reason, or a data set of valid numbers that reads the same again. The
// first byte chooses the options.
#include "base/error.h"
#include "train/dataset.h"
#include "train/loaders.h"
#include "train/table.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    struct train_bytes text = {"text", data + 1, bytes - 1};
    struct train_table_options options = {.delimiter = data[0] & 1 ? ';' : ',',
                                          .header = (enum train_header)((data[0] >> 1) % 3),
                                          .regression = data[0] & 16};
    struct train_dataset set = {0}, again = {0};
    struct base_reason why = {""};
    if (train_csv_parse(&text, &options, &set, &why)) {
        BASE_ASSERT(why.text[0] != 0 && !set.x);
        return 0;
    }
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(isfinite(set.x[i]));
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(!set.labels ? isfinite(set.targets[i * set.outputs]) : set.labels[i] < set.classes);
    options.like = set.meaning;
    BASE_ASSERT(!train_csv_parse(&text, &options, &again, &why) && again.examples == set.examples);
    train_dataset_destroy(&set);
    train_dataset_destroy(&again);
    return 0;
}
