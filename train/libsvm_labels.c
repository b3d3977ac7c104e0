#include "train/libsvm_labels.h"
#include "train/csv.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void train_labels_note(struct train_label_range *seen, int32_t label, size_t line)
{
    if (label < seen->least) {
        seen->least = label;
        seen->least_at = line;
    }
    if (label > seen->largest) {
        seen->largest = label;
        seen->largest_at = line;
    }
    if (label == 0)
        seen->zero_at = line;
}

static int order_labels(const void *a, const void *b)
{
    const int32_t x = ((const struct train_labelled *)a)->label,
                  y = ((const struct train_labelled *)b)->label;
    return (x > y) - (x < y);
}

const struct train_labelled *train_labels_class(const struct train_labels *labels, int32_t label)
{
    const struct train_labelled key = {.label = label};
    return bsearch(&key, labels->sorted, labels->count, sizeof key, order_labels);
}

static bool parse(const char *text, int32_t *label)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    *label = (int32_t)value;
    return end != text && !*end && !errno && value >= INT32_MIN && value <= INT32_MAX;
}

enum base_error train_labels_read(const struct train_names *names, struct train_labels *labels,
                                  struct base_reason *why)
{
    labels->sorted = malloc(names->count * sizeof *labels->sorted);
    if (!labels->sorted)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu labels", names->count);
    for (size_t i = 0; i < names->count; i++) {
        labels->sorted[i].class = (uint32_t)i;
        if (!parse(names->items[i], &labels->sorted[i].label))
            return base_fail(why, BASE_EINVAL,
                             "data.labels: found \"%s\", expected a label as a whole number",
                             train_show(names->items[i], strlen(names->items[i])).text);
    }
    labels->count = names->count;
    qsort(labels->sorted, labels->count, sizeof *labels->sorted, order_labels);
    for (size_t i = 1; i < labels->count; i++)
        if (labels->sorted[i].label == labels->sorted[i - 1].label)
            return base_fail(why, BASE_EINVAL, "data.labels: found the label %" PRId32 " twice",
                             labels->sorted[i].label);
    return BASE_OK;
}

// Decides which labels the classes have. If the file does not show it, it has to be said: another node may
// have a file that shows something else.
static enum base_error choose_numbering(const char *name, const struct train_label_range *range,
                                        size_t classes, int32_t *first_label, struct base_reason *why)
{
    int32_t last = (int32_t)classes;
    // The line of a label that does not fit together with -1.
    const size_t at = range->least < -1    ? range->least_at
                      : range->largest > 1 ? range->largest_at
                      : range->zero_at > 0 ? range->zero_at
                                           : range->least_at;
    if (range->least < 0) {
        if (classes == 2 && range->least == -1 && range->largest <= 1 && range->zero_at == 0)
            *first_label = -1;
        else
            return base_fail(
                why, BASE_EFORMAT,
                "%s:%zu: labels from %d to %d%s, but negative labels are found only as -1/+1 of 2 classes; "
                "name all labels in data.labels",
                name, at, range->least, range->largest, range->zero_at > 0 ? " with 0 among them" : "");
    } else if (range->largest > last || (range->largest == last && range->zero_at > 0)) {
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: labels from %d to %d, expected 0 to %zu or 1 to %zu (%zu classes)", name,
                         range->largest_at, range->least, range->largest, classes - 1, classes, classes);
    } else if (range->largest == last) {
        *first_label = 1;
    } else if (range->zero_at > 0) {
        *first_label = 0;
    } else if (classes == 2) {
        return base_fail(
            why, BASE_EFORMAT,
            "%s: found only the label 1, which may be one of 0 and 1, of 1 and 2, or of -1 and +1; "
            "name both in data.labels, such as data.labels: [1, 2]",
            name);
    } else {
        return base_fail(
            why, BASE_EFORMAT,
            "%s: labels from %d to %d, neither 0 nor %d among them: with %zu classes they could count "
            "from 0 or from 1; name all labels in data.labels",
            name, range->least, range->largest, last, classes);
    }
    return BASE_OK;
}

enum base_error train_labels_find(const char *name, const struct train_label_range *range, size_t classes,
                                  struct train_labels *labels, struct base_reason *why)
{
    int32_t first = 0;
    const enum base_error error = choose_numbering(name, range, classes, &first, why);
    if (error)
        return error;
    labels->sorted = malloc(classes * sizeof *labels->sorted);
    if (!labels->sorted)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu classes", name, classes);
    labels->count = classes;
    for (size_t i = 0; i < classes; i++)
        labels->sorted[i] = (struct train_labelled){.label = first < 0 ? (i ? 1 : -1) : first + (int32_t)i,
                                                    .class = (uint32_t)i};
    return BASE_OK;
}

bool train_labels_name(const struct train_labels *labels, struct train_names *names)
{
    int32_t *by_class = malloc(labels->count * sizeof *by_class);
    bool named = by_class;
    for (size_t i = 0; named && i < labels->count; i++)
        by_class[labels->sorted[i].class] = labels->sorted[i].label;
    for (size_t i = 0; named && i < labels->count; i++) {
        char text[16];
        const int length = snprintf(text, sizeof text, "%" PRId32, by_class[i]);
        named = train_names_add(names, text, (size_t)length);
    }
    free(by_class);
    return named;
}
