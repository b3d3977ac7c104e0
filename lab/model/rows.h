// Rows of numbers as text: one line per row, separated by commas, no header. Anything but a finite decimal
// number, and a row of another length, is refused with its line and column, both counted from 1. Memory does
// not grow with the length of a line. One owner.
#ifndef LAB_MODEL_ROWS_H
#define LAB_MODEL_ROWS_H

#include "base/error.h"
#include <stdbool.h>
#include <stdio.h>

struct lab_rows {
    FILE *in;         // borrowed
    const char *name; // of it, for messages
    size_t columns;   // of every row
    size_t line;      // of the latest row
};

// The next row into values[columns]; *more is false at the end of the file. BASE_EFORMAT, BASE_EIO.
enum base_error lab_rows_next(struct lab_rows *rows, double *values, bool *more,
                              struct base_reason *why) BASE_CHECK;

#endif
