// CSV tables with numbers, words, an optional header and one or more target columns.
//
// A column whose values are all numbers is one feature. A column without any number, or named in
// `categorical`, is a category: one feature per word, first numbers by value, then words by bytes. So the
// order depends on the set of words, not on their positions. Missing values are refused, and so is what only
// looks like a category or a quantity (train/table_looks.h).
#ifndef TRAIN_TABLE_H
#define TRAIN_TABLE_H

#include "base/error.h"
#include "train/dataset.h"
#include <stdbool.h>
#include <stddef.h>

enum train_header { TRAIN_HEADER_AUTO, TRAIN_HEADER_YES, TRAIN_HEADER_NO };

struct train_table_options {
    char delimiter;
    char decimal; // the mark between whole and fraction of a number; 0: a point, and numbers that may
                  // also have a thousands mark, such as 1.234 between semicolons, are refused
    enum train_header header; // auto: found by comparing the first line with those below it
    // Columns by name, or by number from 1 (which is also the name if there is no header). No target: the
    // last column.
    struct train_names target, categorical, ignore;
    bool regression; // targets are numbers; otherwise there is one target, whose distinct words are the
                     // classes
    struct train_meaning
        *like; // borrowed: use its columns, categories and classes; NULL: take them from the file
};

// Loads the rows of a file, plain or gzip, and their meaning. Errors name file, line and column:
// BASE_EFORMAT, BASE_EINVAL (options that name no column), BASE_EMISMATCH (not like `like`), BASE_ELIMIT,
// BASE_ENOMEM, BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_csv(const char *path, const struct train_table_options *options,
                                       struct train_dataset *data, struct base_reason *why) BASE_CHECK;

#endif
