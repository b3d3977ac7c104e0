#include "train/rows.h"

#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

static struct train_csr *allocate(size_t examples, size_t entries)
{
    struct train_csr *csr = calloc(1, sizeof *csr);
    if (!csr)
        return NULL;
    csr->start = malloc((examples + 1) * sizeof *csr->start);
    csr->column = malloc((entries + 1) * sizeof *csr->column); // + 1: not 0 for an empty matrix
    csr->value = malloc((entries + 1) * sizeof *csr->value);
    if (!csr->start || !csr->column || !csr->value) {
        train_csr_destroy(csr);
        return NULL;
    }
    return csr;
}

enum base_error train_csr_create(const size_t *start, size_t examples, struct train_csr **out,
                                 struct base_reason *why)
{
    const size_t entries = start[examples];
    if (examples > UINT32_MAX || entries > LIMIT_DATASET_VALUES)
        return base_fail(
            why, BASE_ELIMIT,
            "%zu examples with %zu values are over the limit of %u and %llu in memory: use fewer examples",
            examples, entries, UINT32_MAX, LIMIT_DATASET_VALUES);
    struct train_csr *csr = allocate(examples, entries);
    if (!csr)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu examples with %zu values (%zu MiB)", examples,
                         entries, entries * (sizeof *csr->column + sizeof *csr->value) >> 20);
    memcpy(csr->start, start, (examples + 1) * sizeof *start);
    *out = csr;
    return BASE_OK;
}

enum base_error train_csr_subset(const struct train_csr *csr, const uint32_t *rows, size_t count,
                                 struct train_csr **out)
{
    size_t entries = 0;
    for (size_t i = 0; i < count; i++)
        entries += csr->start[rows[i] + 1] - csr->start[rows[i]];
    struct train_csr *subset = allocate(count, entries);
    if (!subset)
        return BASE_ENOMEM;
    subset->start[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t from = csr->start[rows[i]], length = csr->start[rows[i] + 1] - from,
                     to = subset->start[i];
        memcpy(subset->column + to, csr->column + from, length * sizeof *csr->column);
        memcpy(subset->value + to, csr->value + from, length * sizeof *csr->value);
        subset->start[i + 1] = to + length;
    }
    *out = subset;
    return BASE_OK;
}

void train_csr_destroy(struct train_csr *csr)
{
    if (!csr)
        return;
    free(csr->start);
    free(csr->column);
    free(csr->value);
    free(csr);
}
