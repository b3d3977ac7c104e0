// Any text: an error with a reason, or a data set of valid numbers, the same in sparse and dense form. The
// first byte is the number of classes.
#include "base/error.h"
#include "train/dataset.h"
#include "train/loaders.h"
#include "train/rows.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FEATURES = 20 };

static void check_sparse(const struct train_bytes *text, size_t classes, const struct train_dataset *dense)
{
    struct train_dataset set = {0};
    struct base_reason why = {""};
    const enum base_error error = train_libsvm_parse(
        text, &(struct train_libsvm_options){.features = FEATURES, .classes = classes, .sparse = true}, &set,
        &why);
    BASE_ASSERT((error == BASE_OK) == (dense != NULL) && (!error || why.text[0] != 0));
    if (error)
        return;
    const struct train_rows rows = {.csr = set.csr, .features = FEATURES};
    BASE_ASSERT(set.examples == dense->examples);
    for (size_t i = 0; i < set.examples; i++) {
        const struct train_row row = train_rows_at(&rows, i);
        float whole[FEATURES] = {0};
        for (size_t k = 0; k < row.count; k++) {
            BASE_ASSERT(row.column[k] < FEATURES && (k == 0 || row.column[k] > row.column[k - 1]));
            whole[row.column[k]] = row.value[k];
        }
        BASE_ASSERT(memcmp(whole, dense->x + i * FEATURES, sizeof whole) == 0);
        BASE_ASSERT(set.labels[i] == dense->labels[i]);
    }
    train_dataset_destroy(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1)
        return 0;
    struct train_bytes text = {"text", data + 1, bytes - 1};
    struct train_dataset set = {0};
    struct base_reason why = {""};
    const size_t classes = 1 + data[0] % 12;
    if (train_libsvm_parse(&text, &(struct train_libsvm_options){.features = FEATURES, .classes = classes},
                           &set, &why)) {
        BASE_ASSERT(why.text[0] != 0 && !set.x);
        check_sparse(&text, classes, NULL);
        return 0;
    }
    for (size_t i = 0; i < set.examples * set.features; i++)
        BASE_ASSERT(isfinite(set.x[i]));
    for (size_t i = 0; i < set.examples; i++)
        BASE_ASSERT(set.labels[i] < set.classes);
    check_sparse(&text, classes, &set);
    train_dataset_destroy(&set);
    return 0;
}
