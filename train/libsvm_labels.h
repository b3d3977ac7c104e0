// The labels of LIBSVM text: whole numbers, each of which is a class. Private to train/. Pure; any thread.
#ifndef TRAIN_LIBSVM_LABELS_H
#define TRAIN_LIBSVM_LABELS_H

#include "base/error.h"
#include "train/meaning.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The labels in a file: their range, with a line for each bound.
struct train_label_range {
    int32_t least, largest;
    size_t least_at, largest_at, zero_at; // zero_at 0: none
};
void train_labels_note(struct train_label_range *seen, int32_t label, size_t line);

struct train_labelled {
    int32_t label;
    uint32_t class;
};
struct train_labels {
    struct train_labelled *sorted; // [count], by label; malloc'ed
    size_t count;
};
// NULL: no class has this label.
const struct train_labelled *train_labels_class(const struct train_labels *labels, int32_t label);

// The labels that the names say, in the order of the classes. BASE_EINVAL: no whole number, or one twice.
enum base_error train_labels_read(const struct train_names *names, struct train_labels *labels,
                                  struct base_reason *why) BASE_CHECK;
// The labels that a file shows. BASE_EFORMAT: they may count from 0 or from 1, or are of no known kind.
enum base_error train_labels_find(const char *name, const struct train_label_range *range, size_t classes,
                                  struct train_labels *labels, struct base_reason *why) BASE_CHECK;
// Their names, by class. False: out of memory.
bool train_labels_name(const struct train_labels *labels, struct train_names *names);

#endif
