// Rows of a table for an existing model: columns, categories and delimiter are those of its meaning. The file
// that the model was trained on is accepted, and so is one without the target.
#ifndef TRAIN_TABLE_ROWS_H
#define TRAIN_TABLE_ROWS_H

#include "base/error.h"
#include "train/meaning.h"
#include <stdbool.h>
#include <stddef.h>

struct train_table_rows; // one owner

// `text` (plain or gzip) and `meaning`, which has columns, are borrowed until the rows are closed. The first
// line is a header if it contains the name of a column, or no number although columns of numbers are
// expected; columns are then found by name, in any order, and otherwise by place. Target and ignored columns
// are optional and are not read. Errors name the text, line and column, and what was found and expected:
// BASE_EMISMATCH (a column is missing, duplicate or unknown), BASE_EFORMAT, BASE_ELIMIT, BASE_ENOMEM.
enum base_error train_table_rows_open(const char *name, const void *text, size_t bytes,
                                      const struct train_meaning *meaning, struct train_table_rows **rows,
                                      struct base_reason *why) BASE_CHECK;

// Reads the next row into x[meaning->features], not scaled; *more is false after the last one.
enum base_error train_table_rows_next(struct train_table_rows *rows, double *x, bool *more,
                                      struct base_reason *why) BASE_CHECK;
void train_table_rows_close(struct train_table_rows *rows); // NULL is allowed

#endif
