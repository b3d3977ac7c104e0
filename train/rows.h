// Sparse examples in compressed sparse rows (CSR), and a batch of rows, sparse or dense, the input of a
// linear model's layer. Immutable once made; any thread may read them.
#ifndef TRAIN_ROWS_H
#define TRAIN_ROWS_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct train_csr {
    size_t *start;    // [examples + 1]: the entries of row i are start[i] .. start[i + 1] - 1
    uint32_t *column; // [entries], ascending within a row, below the features
    float *value;     // [entries]
};

// start[0..examples] is copied. BASE_ELIMIT over LIMIT_DATASET_VALUES entries or 2^32-1 examples;
// BASE_ENOMEM.
enum base_error train_csr_create(const size_t *start, size_t examples, struct train_csr **csr,
                                 struct base_reason *why) BASE_CHECK;
// The rows rows[0..count-1], each a row of `csr`. BASE_ENOMEM.
enum base_error train_csr_subset(const struct train_csr *csr, const uint32_t *rows, size_t count,
                                 struct train_csr **subset) BASE_CHECK;
void train_csr_destroy(struct train_csr *csr); // NULL is allowed

// The input of a first layer whose shape says `rows` (train/layer.h), in host memory, all borrowed.
struct train_rows {
    const struct train_csr *csr; // NULL: dense
    const float *x;              // dense: [rows, features]
    size_t features;
    const uint32_t *row; // the row of each example; NULL: first, first + 1, ...
    size_t first;
};

struct train_row {
    const uint32_t *column; // NULL: first, first + 1, ...
    const float *value;
    size_t count, first;
};

static inline size_t train_row_column(const struct train_row *row, size_t i)
{
    return row->column ? row->column[i] : row->first + i;
}

static inline struct train_row train_rows_at(const struct train_rows *rows, size_t example)
{
    const size_t row = rows->row ? rows->row[example] : rows->first + example;
    if (!rows->csr)
        return (struct train_row){.value = rows->x + row * rows->features, .count = rows->features};
    const size_t at = rows->csr->start[row];
    return (struct train_row){.column = rows->csr->column + at,
                              .value = rows->csr->value + at,
                              .count = rows->csr->start[row + 1] - at};
}

#endif
