// Tables as people have them: CSV with numbers, words, a header and one or more target columns.
//
// A column whose values are all numbers is one feature. One without any number, or named in `categorical`, is
// a category: a feature for each of its words, in the order numbers by value, then words by bytes. So the
// order follows from the words that are there, not from where they stand. Missing values are refused.
#ifndef TRAIN_TABLE_H
#define TRAIN_TABLE_H

#include "base/error.h"
#include "train/dataset.h"
#include <stdbool.h>
#include <stddef.h>

enum train_header { TRAIN_HEADER_AUTO, TRAIN_HEADER_YES, TRAIN_HEADER_NO };

struct train_table_options {
    char delimiter;
    enum train_header header; // auto: the first line is one if none of its fields is a number
    // Columns by name or, counted from 1, by number (which is also the name where there is no header). No
    // target: the last column.
    struct train_names target, categorical, ignore;
    bool regression; // targets are numbers; else one target, whose different words are the classes
    struct train_meaning
        *like; // borrowed: columns, categories and classes as there; NULL: as the file has them
};

// The rows of the file, plain or gzip, with their meaning. Errors name file, line and column: BASE_EFORMAT,
// BASE_EINVAL (options that name no column), BASE_EMISMATCH (not like `like`), BASE_ELIMIT, BASE_ENOMEM,
// BASE_ENOTFOUND, BASE_EIO.
enum base_error train_dataset_load_csv(const char *path, const struct train_table_options *options,
                                       struct train_dataset *data, struct base_reason *why) BASE_CHECK;

#endif
