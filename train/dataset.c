#include "train/dataset.h"
#include "base/limits.h"
#include "train/loaders.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_BYTES 64u

void train_dataset_destroy(struct train_dataset *data)
{
    free(data->x);
    free(data->labels);
    *data = (struct train_dataset){0};
}

enum base_error train_dataset_allocate(size_t examples, size_t features, size_t classes,
                                       struct train_dataset *data, struct base_reason *why)
{
    if (examples == 0 || features == 0)
        return base_fail(why, BASE_EINVAL,
                         "a data set of %zu examples with %zu features has nothing to train on", examples,
                         features);
    if (examples > UINT32_MAX || features > LIMIT_DATASET_VALUES / examples)
        return base_fail(
            why, BASE_ELIMIT,
            "%zu examples with %zu features are over the limit of %llu values in memory: take fewer "
            "examples",
            examples, features, LIMIT_DATASET_VALUES);
    size_t bytes = examples * features * sizeof(float);
    bytes = (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    float *x = aligned_alloc(ALIGNMENT_BYTES, bytes);
    uint32_t *labels = calloc(examples, sizeof *labels);
    if (x == NULL || labels == NULL) {
        free(x);
        free(labels);
        return base_fail(why, BASE_ENOMEM, "no memory for %zu examples with %zu features (%zu MiB)", examples,
                         features, bytes >> 20);
    }
    memset(x, 0, bytes);
    *data = (struct train_dataset){examples, features, classes, x, labels, examples};
    return BASE_OK;
}

enum base_error train_dataset_range(const char *name, size_t examples, size_t first, size_t count,
                                    size_t *taken, struct base_reason *why)
{
    if (first >= examples || count > examples - first)
        return base_fail(why, BASE_EINVAL, "%s has %zu examples, but %zu from number %zu on were asked for",
                         name, examples, count, first);
    *taken = count == 0 ? examples - first : count;
    return BASE_OK;
}

enum base_error train_dataset_subset(const struct train_dataset *data, const uint32_t *rows, size_t count,
                                     struct train_dataset *subset)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i] >= data->examples)
            return BASE_EINVAL;
    struct train_dataset copy;
    enum base_error error = train_dataset_allocate(count, data->features, data->classes, &copy, NULL);
    if (error != BASE_OK)
        return error;
    for (size_t i = 0; i < count; i++) {
        memcpy(copy.x + i * data->features, data->x + rows[i] * data->features,
               data->features * sizeof(float));
        copy.labels[i] = data->labels[rows[i]];
    }
    copy.whole = data->whole;
    *subset = copy;
    return BASE_OK;
}
