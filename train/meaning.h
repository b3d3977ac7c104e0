// What the numbers of a data set mean: columns and their categories, classes, targets, and how they were
// scaled. It must be the same on all nodes of a cluster (train_meaning_digest), and a model is useless
// without it. Immutable once its data set is made; shared by those cut from it, in any thread.
#ifndef TRAIN_MEANING_H
#define TRAIN_MEANING_H

#include "base/error.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum train_scale { TRAIN_SCALE_NONE, TRAIN_SCALE_STANDARD, TRAIN_SCALE_MINMAX };

enum train_text { TRAIN_TEXT_NONE, TRAIN_TEXT_BYTES, TRAIN_TEXT_CHARACTERS, TRAIN_TEXT_IDS };

struct train_names {
    char **items; // malloc'ed
    size_t count;
};

// One column of a table is one feature, or one for each category (1 where the row has it, else 0).
struct train_column {
    char *name;
    struct train_names categories; // none: a number
};

struct train_meaning {
    atomic_size_t owners;
    size_t features;
    struct train_column *columns; // [n_columns] of a table, in the order of the features; else NULL
    size_t n_columns;
    struct train_names classes; // by label; none where they are numbers from 0
    struct train_names targets; // of a regression: a name for each output
    // Of a table, else none, NULL, 0. layout: all columns of the file in its order, target and ignored ones
    // included; label: the column of the classes.
    struct train_names layout;
    char *label;
    char delimiter;
    size_t height, width, channels; // of images: a feature is ((y * width) + x) * channels + channel; else 0
    enum train_text text;           // what a token is; its characters are the classes, by id
    enum train_scale scale;
    float *shift, *factor;               // [features]: the data set holds (value - shift) * factor
    float *target_shift, *target_factor; // [targets.count], likewise; all four NULL where nothing is scaled
};

// Of `features`, with one owner and nothing else. NULL: out of memory.
struct train_meaning *train_meaning_create(size_t features);
struct train_meaning *train_meaning_share(struct train_meaning *meaning); // one owner more; NULL stays NULL
void train_meaning_release(struct train_meaning *meaning); // the last owner frees it; NULL is fine

// Fingerprint of all that nodes must share; 0 for NULL. Layout and delimiter are each file's own.
uint64_t train_meaning_digest(const struct train_meaning *meaning);
// "age", "colour=red", "feature 12" (from 1).
void train_meaning_feature(const struct train_meaning *meaning, size_t feature, char *text, size_t capacity);

// Copies of texts, in order. False: out of memory, nothing has changed.
bool train_names_add(struct train_names *names, const char *text, size_t length);
void train_names_free(struct train_names *names);

#endif
