// What the numbers of a data set mean: columns and their categories, classes, targets, and how they were
// scaled. It must be the same on all nodes of a cluster (train_meaning_digest), and a model cannot be used
// without it. Immutable once its data set is made; shared with the data sets cut from that one, in any
// thread.
#ifndef TRAIN_MEANING_H
#define TRAIN_MEANING_H

#include "base/error.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum train_scale { TRAIN_SCALE_NONE, TRAIN_SCALE_STANDARD, TRAIN_SCALE_MINMAX, TRAIN_SCALES };

enum train_text { TRAIN_TEXT_NONE, TRAIN_TEXT_BYTES, TRAIN_TEXT_CHARACTERS, TRAIN_TEXT_IDS, TRAIN_TEXTS };

struct train_names {
    char **items; // malloc'ed
    size_t count;
};

// A column of a table is one feature, or one feature per category (1 if the row has it, else 0).
struct train_column {
    char *name;
    struct train_names categories; // empty: the column is a number
};

struct train_meaning {
    atomic_size_t owners;
    size_t features;
    struct train_column *columns; // for a table, [n_columns] in the order of the features; else NULL
    size_t n_columns;
    struct train_names classes; // by label; empty if the classes are numbers from 0
    struct train_names targets; // for a regression: a name for each output
    // For a table; otherwise empty, NULL and 0. layout: all columns of the file in order, including target
    // and ignored ones. label: the column of the classes.
    struct train_names layout;
    char *label;
    char delimiter, decimal;        // decimal: 0 for a point
    size_t height, width, channels; // for images: a feature is ((y * width) + x) * channels + channel; else
                                    // 0
    enum train_text text;           // what a token is; the characters are the classes, by id
    enum train_scale scale;
    // [features]: the data set holds (value - shift) * factor. A shift is a double: seconds since 1970 differ
    // by less than a float can tell.
    double *shift;
    float *factor;
    double *target_shift; // [targets.count], likewise; all four are NULL if nothing is scaled
    float *target_factor;
};

// Creates a meaning of `features` features, with one owner and everything else empty. NULL: out of memory.
struct train_meaning *train_meaning_create(size_t features);
struct train_meaning *train_meaning_share(struct train_meaning *meaning); // adds an owner; NULL stays NULL
void train_meaning_release(struct train_meaning *meaning); // the last owner frees it; NULL is allowed

// Fingerprint of everything that nodes must share; 0 for NULL. Layout and delimiter may differ between files
// and are not part of it.
uint64_t train_meaning_digest(const struct train_meaning *meaning);
// "age", "colour=red", "feature 12" (from 1).
void train_meaning_feature(const struct train_meaning *meaning, size_t feature, char *text, size_t capacity);

// Appends a copy of a text. False: out of memory; nothing has changed.
bool train_names_add(struct train_names *names, const char *text, size_t length);
bool train_names_has(const struct train_names *names, const char *text);
// 1, 2, 3, ...: what the columns of a file without a header are called. A line of values may hold them as
// well.
bool train_names_are_positions(const struct train_names *names);
void train_names_free(struct train_names *names);

#endif
