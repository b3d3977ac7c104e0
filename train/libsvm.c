// LIBSVM text. Two passes over the bytes: the first checks every line and finds out which labels there are,
// the second fills the requested rows, so nothing is allocated for an invalid file. For sparse rows, a pass
// between them counts the pairs.
#include "base/file.h"
#include "base/limits.h"
#include "train/csv.h"
#include "train/decimal.h"
#include "train/libsvm_labels.h"
#include "train/loaders.h"
#include "train/meaning.h"
#include "train/rows.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT   (2 * (size_t)LIMIT_DATASET_VALUES)
#define LABEL_DIGITS 6u  // LIMIT_CLASSES has five
#define INDEX_DIGITS 10u // LIMIT_DATASET_VALUES has ten

struct token {
    const char *at, *end;
};

// Position of the parser: a line of a file, and the rest of it.
struct line {
    const char *name;
    size_t number;     // from 1
    struct token rest; // not read yet
};

static struct train_shown show(struct token token)
{
    return train_show(token.at, (size_t)(token.end - token.at));
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

// The next sequence of nonblank characters; empty at the end of the line.
static struct token next_token(struct line *line)
{
    const char *at = line->rest.at, *end = line->rest.end;
    while (at < end && is_blank(*at))
        at++;
    struct token token = {at, at};
    while (token.end < end && !is_blank(*token.end))
        token.end++;
    line->rest.at = token.end;
    return token;
}

// Digits only, at most `most` of them.
static bool parse_digits(struct token token, size_t most, size_t *value)
{
    size_t sum = 0, length = (size_t)(token.end - token.at);
    if (length == 0 || length > most)
        return false;
    for (const char *at = token.at; at < token.end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        sum = 10 * sum + (size_t)(*at - '0');
    }
    *value = sum;
    return true;
}

// Labels of other habits, which are not read.
static enum base_error fail_label(const struct line *line, struct token token, struct base_reason *why)
{
    const size_t length = (size_t)(token.end - token.at);
    const char *what = memchr(token.at, ',', length) ? ": one class an example, not several"
                       : memchr(token.at, ':', length)
                           ? ": examples with a weight of their own are not read; remove the weights"
                           : "";
    return base_fail(why, BASE_EFORMAT,
                     "%s:%zu: found the label \"%s\", expected a class as a whole number%s", line->name,
                     line->number, show(token).text, what);
}

// 1.0 is 1: some programs write every number like this.
static struct token without_fraction(struct token token)
{
    const char *point = memchr(token.at, '.', (size_t)(token.end - token.at)), *at = point;
    if (!point || point == token.at)
        return token;
    for (at++; at < token.end && *at == '0';)
        at++;
    return at == token.end ? (struct token){token.at, point} : token;
}

static enum base_error parse_label(const struct line *line, struct token token, int32_t *label,
                                   struct base_reason *why)
{
    struct token digits = without_fraction(token);
    bool negative = token.at < token.end && *token.at == '-';
    if (negative || (token.at < token.end && *token.at == '+'))
        digits.at++;
    size_t value;
    if (!parse_digits(digits, LABEL_DIGITS, &value))
        return fail_label(line, token, why);
    *label = negative ? -(int32_t)value : (int32_t)value;
    return BASE_OK;
}

static enum base_error parse_index(const struct line *line, struct token token, size_t features, size_t last,
                                   size_t *index, struct base_reason *why)
{
    size_t found = 0;
    if (!parse_digits(token, INDEX_DIGITS, &found))
        return base_fail(why, BASE_EFORMAT, "%s:%zu: index \"%s\" is not a whole number from 1 to %zu",
                         line->name, line->number, show(token).text, features);
    if (found == 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: index 0, but indices count from 1; write the file so (sklearn: "
                         "dump_svmlight_file(..., zero_based=False))",
                         line->name, line->number);
    if (found > features)
        return base_fail(why, BASE_ELIMIT,
                         "%s:%zu: index %zu, but the data set was said to have %zu features", line->name,
                         line->number, found, features);
    if (found <= last)
        return base_fail(why, BASE_EFORMAT, "%s:%zu: index %zu after index %zu, expected ascending indices",
                         line->name, line->number, found, last);
    *index = found;
    return BASE_OK;
}

// Parses one "index:value"; `last` is the previous index, 0 for the first pair.
static enum base_error parse_pair(const struct line *line, struct token token, size_t features, size_t last,
                                  size_t *index, float *value, struct base_reason *why)
{
    const char *colon = memchr(token.at, ':', (size_t)(token.end - token.at));
    if (!colon)
        return base_fail(why, BASE_EFORMAT, "%s:%zu: \"%s\" where index:value was expected", line->name,
                         line->number, show(token).text);
    size_t found = 0;
    struct token number = {colon + 1, token.end};
    if (colon - token.at == 3 && memcmp(token.at, "qid", 3) == 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: found \"%s\", the mark of a ranking; p2pml learns classes: remove the qid",
                         line->name, line->number, show(token).text);
    enum base_error error = parse_index(line, (struct token){token.at, colon}, features, last, &found, why);
    if (error)
        return error;
    double parsed;
    if (!train_decimal_parse(number.at, number.end, '.', &parsed))
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: value \"%s\" of index %zu is not a finite decimal number", line->name,
                         line->number, show(number).text, found);
    if (isinf(parsed))
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: value \"%s\" of index %zu is too large for a 32-bit float", line->name,
                         line->number, show(number).text, found);
    *index = found;
    *value = (float)parsed;
    return BASE_OK;
}

// The destination of the pairs of a line; all NULL: they are only checked and counted.
struct sink {
    float *row;       // dense: [features], zeroed
    uint32_t *column; // sparse: columns from 0, with their values
    float *value;
    size_t pairs; // number so far
};

static void put(struct sink *sink, size_t index, float value)
{
    if (sink->row)
        sink->row[index - 1] = value;
    if (sink->column) {
        sink->column[sink->pairs] = (uint32_t)(index - 1);
        sink->value[sink->pairs] = value;
    }
    sink->pairs++;
}

static enum base_error parse_line(struct line *line, size_t features, int32_t *label, struct sink *sink,
                                  struct base_reason *why)
{
    struct token token = next_token(line);
    if (token.at == token.end)
        return base_fail(why, BASE_EFORMAT, "%s:%zu: an empty line, expected \"label index:value ...\"",
                         line->name, line->number);
    enum base_error error = parse_label(line, token, label, why);
    size_t index = 0;
    while (!error) {
        token = next_token(line);
        if (token.at == token.end)
            break;
        float value = 0;
        error = parse_pair(line, token, features, index, &index, &value, why);
        if (!error)
            put(sink, index, value);
    }
    return error;
}

// Takes the next line from `text`; a line ends with "\n", "\r\n" or the end of the file. True: it is only a
// comment.
static bool take_line(struct token *text, struct line *line)
{
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    const char *end = newline ? newline : text->end, *at = text->at;
    line->number++;
    line->rest = (struct token){text->at, end};
    if (end > text->at && end[-1] == '\r')
        line->rest.end--;
    text->at = newline ? newline + 1 : end;
    const char *comment = memchr(at, '#', (size_t)(line->rest.end - at));
    if (!comment)
        return false;
    line->rest.end = comment;
    while (at < comment && is_blank(*at))
        at++;
    return at == comment;
}

// The next line that has an example.
static bool next_line(struct token *text, struct line *line)
{
    while (text->at < text->end)
        if (!take_line(text, line))
            return true;
    return false;
}

static enum base_error check_text(const char *name, struct token text, size_t features,
                                  const struct train_labels *labels, size_t *rows,
                                  struct train_label_range *range, struct base_reason *why)
{
    struct line line = {.name = name};
    struct train_label_range seen = {.least = INT32_MAX, .largest = INT32_MIN};
    size_t examples = 0;
    for (; next_line(&text, &line); examples++) {
        if ((size_t)(line.rest.end - line.rest.at) > LIMIT_TEXT_LINE_BYTES)
            return base_fail(why, BASE_ELIMIT, "%s:%zu: the line is longer than %u bytes", name, line.number,
                             LIMIT_TEXT_LINE_BYTES);
        int32_t label;
        struct sink nowhere = {0};
        enum base_error error = parse_line(&line, features, &label, &nowhere, why);
        if (!error && labels->count > 0 && !train_labels_class(labels, label))
            error = base_fail(why, BASE_EMISMATCH,
                              "%s:%zu: found the label %" PRId32 ", expected one of the %zu labels that the "
                              "training examples or data.labels have, from %" PRId32 " to %" PRId32,
                              name, line.number, label, labels->count, labels->sorted[0].label,
                              labels->sorted[labels->count - 1].label);
        if (error)
            return error;
        train_labels_note(&seen, label, line.number);
    }
    if (examples == 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s: the file is empty, expected lines of \"label index:value ...\"", name);
    *rows = examples;
    *range = seen;
    return BASE_OK;
}

// The lines have been checked. start[i]: the number of pairs before row i of the requested rows.
static void count_pairs(struct token text, size_t features, size_t first, size_t count, size_t *start)
{
    struct line line = {.name = ""};
    start[0] = 0;
    for (size_t i = 0; next_line(&text, &line) && i < first + count; i++) {
        int32_t label;
        struct sink pairs = {0};
        if (i < first)
            continue;
        enum base_error error = parse_line(&line, features, &label, &pairs, NULL);
        BASE_ASSERT(!error);
        start[i - first + 1] = start[i - first] + pairs.pairs;
    }
}

static enum base_error allocate_sparse(struct token text, size_t first, size_t count, size_t features,
                                       size_t classes, struct train_dataset *data, struct base_reason *why)
{
    size_t *start = malloc((count + 1) * sizeof *start);
    if (!start)
        return base_fail(why, BASE_ENOMEM, "no memory for %zu examples", count);
    count_pairs(text, features, first, count, start);
    enum base_error error = train_dataset_allocate_sparse(start, count, features, classes, data, why);
    free(start);
    return error;
}

static struct sink sink_of(struct train_dataset *data, size_t row)
{
    if (!data->csr)
        return (struct sink){.row = data->x + row * data->features};
    const size_t at = data->csr->start[row];
    return (struct sink){.column = data->csr->column + at, .value = data->csr->value + at};
}

static void fill(struct token text, size_t first, const struct train_labels *labels,
                 struct train_dataset *data)
{
    struct line line = {.name = ""};
    for (size_t i = 0; next_line(&text, &line) && i < first + data->examples; i++) {
        if (i < first)
            continue;
        int32_t label;
        struct sink sink = sink_of(data, i - first);
        enum base_error error = parse_line(&line, data->features, &label, &sink, NULL);
        BASE_ASSERT(!error);
        const struct train_labelled *found = train_labels_class(labels, label);
        BASE_ASSERT(found);
        data->labels[i - first] = found->class;
    }
}

// The meaning of the file: that of `like`, or its features and the names of its classes.
static enum base_error mean(const struct train_bytes *text, const struct train_libsvm_options *options,
                            size_t *rows, struct train_meaning **out, struct train_labels *labels,
                            struct base_reason *why)
{
    const struct token all = {(const char *)text->data, (const char *)text->data + text->bytes};
    const bool alike = options->like && options->like->classes.count > 0;
    const struct train_names *known = alike ? &options->like->classes : &options->labels;
    struct train_label_range range = {0};
    enum base_error error = known->count > 0 ? train_labels_read(known, labels, why) : BASE_OK;
    if (!error)
        error = check_text(text->name, all, options->features, labels, rows, &range, why);
    if (!error && known->count == 0)
        error = train_labels_find(text->name, &range, options->classes, labels, why);
    struct train_meaning *meaning = error   ? NULL
                                    : alike ? train_meaning_share(options->like)
                                            : train_meaning_create(options->features);
    if (!error && (!meaning || (!alike && !train_labels_name(labels, &meaning->classes)))) {
        train_meaning_release(meaning);
        error = base_fail(why, BASE_ENOMEM, "%s: no memory for its classes", text->name);
    }
    if (!error)
        *out = meaning;
    return error;
}

static enum base_error check_options(const struct train_libsvm_options *o, struct base_reason *why)
{
    const size_t classes = o->labels.count ? o->labels.count : o->classes;
    if (classes == 0 || classes > LIMIT_CLASSES || o->features == 0 || o->features > LIMIT_DATASET_VALUES)
        return base_fail(why, BASE_EINVAL, "%zu features and %zu classes, expected 1 to %llu and 1 to %u",
                         o->features, classes, LIMIT_DATASET_VALUES, LIMIT_CLASSES);
    return BASE_OK;
}

enum base_error train_libsvm_parse(const struct train_bytes *text, const struct train_libsvm_options *options,
                                   struct train_dataset *data, struct base_reason *why)
{
    const struct token all = {(const char *)text->data, (const char *)text->data + text->bytes};
    const size_t first = options->first, features = options->features;
    struct train_meaning *meaning = NULL;
    struct train_dataset filled = {0};
    struct train_labels labels = {0};
    size_t rows = 0, count = options->count;
    enum base_error error = check_options(options, why);
    if (!error)
        error = mean(text, options, &rows, &meaning, &labels, why);
    if (!error)
        error = train_dataset_range(text->name, rows, first, count, &count, why);
    if (!error)
        error = options->sparse
                    ? allocate_sparse(all, first, count, features, meaning->classes.count, &filled, why)
                    : train_dataset_allocate(count, features, meaning->classes.count, 0, &filled, why);
    if (error) {
        train_meaning_release(meaning);
    } else {
        fill(all, first, &labels, &filled);
        filled.meaning = meaning;
        *data = filled;
    }
    free(labels.sorted);
    return error;
}

enum base_error train_dataset_load_libsvm(const char *path, const struct train_libsvm_options *options,
                                          struct train_dataset *data, struct base_reason *why)
{
    uint8_t *bytes = NULL;
    struct train_bytes text = {.name = path};
    enum base_error error = base_file_read(path, FILE_LIMIT, &bytes, &text.bytes, why);
    if (error)
        return error;
    text.data = bytes;
    error = train_libsvm_parse(&text, options, data, why);
    free(bytes);
    return error;
}
