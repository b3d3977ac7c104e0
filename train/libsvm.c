// LIBSVM text. Two passes over the bytes: the first checks every line and finds out how labels are numbered,
// the second fills the requested rows, so nothing is allocated for an invalid file. For sparse rows, a pass
// between them counts the pairs.
#include "base/file.h"
#include "base/limits.h"
#include "train/csv.h"
#include "train/decimal.h"
#include "train/loaders.h"
#include "train/rows.h"
#include <math.h>
#include <stdbool.h>
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

// The range of the labels in a file, with a line for each bound.
struct label_range {
    int32_t least, largest;
    size_t least_at, largest_at, zero_at; // zero_at 0: none
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

static enum base_error parse_label(const struct line *line, struct token token, int32_t *label,
                                   struct base_reason *why)
{
    struct token digits = token;
    bool negative = token.at < token.end && *token.at == '-';
    if (negative || (token.at < token.end && *token.at == '+'))
        digits.at++;
    size_t value;
    if (!parse_digits(digits, LABEL_DIGITS, &value))
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: found the label \"%s\", expected a class as a whole number", line->name,
                         line->number, show(token).text);
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
        return base_fail(why, BASE_EFORMAT, "%s:%zu: index 0, but indices count from 1", line->name,
                         line->number);
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
    enum base_error error = parse_index(line, (struct token){token.at, colon}, features, last, &found, why);
    if (error)
        return error;
    float parsed;
    if (!train_decimal_parse(number.at, number.end, &parsed))
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: value \"%s\" of index %zu is not a finite decimal number", line->name,
                         line->number, show(number).text, found);
    if (isinf(parsed))
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: value \"%s\" of index %zu is too large for a 32-bit float", line->name,
                         line->number, show(number).text, found);
    *index = found;
    *value = parsed;
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

// Takes the next line from `text`; a line ends with "\n", "\r\n" or the end of the file.
static bool next_line(struct token *text, struct line *line)
{
    if (text->at == text->end)
        return false;
    const char *newline = memchr(text->at, '\n', (size_t)(text->end - text->at));
    const char *end = newline ? newline : text->end;
    line->number++;
    line->rest = (struct token){text->at, end};
    if (end > text->at && end[-1] == '\r')
        line->rest.end--;
    text->at = newline ? newline + 1 : end;
    return true;
}

static void note_label(struct label_range *seen, int32_t label, size_t line)
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

static enum base_error check_text(const char *name, struct token text, size_t features, size_t *rows,
                                  struct label_range *range, struct base_reason *why)
{
    struct line line = {.name = name};
    struct label_range seen = {.least = INT32_MAX, .largest = INT32_MIN};
    while (next_line(&text, &line)) {
        if ((size_t)(line.rest.end - line.rest.at) > LIMIT_TEXT_LINE_BYTES)
            return base_fail(why, BASE_ELIMIT, "%s:%zu: the line is longer than %u bytes", name, line.number,
                             LIMIT_TEXT_LINE_BYTES);
        int32_t label;
        struct sink nowhere = {0};
        enum base_error error = parse_line(&line, features, &label, &nowhere, why);
        if (error)
            return error;
        note_label(&seen, label, line.number);
    }
    if (line.number == 0)
        return base_fail(why, BASE_EFORMAT,
                         "%s: the file is empty, expected lines of \"label index:value ...\"", name);
    *rows = line.number;
    *range = seen;
    return BASE_OK;
}

// Decides how labels become 0 .. classes-1. If neither 0 nor `classes` is among them, the numbering is
// ambiguous.
static enum base_error choose_numbering(const char *name, const struct label_range *range, size_t classes,
                                        int32_t *first_label, struct base_reason *why)
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
                "%s:%zu: labels from %d to %d%s, but negative labels are supported only as -1/+1 of 2 "
                "classes",
                name, at, range->least, range->largest, range->zero_at > 0 ? " with 0 among them" : "");
    } else if (range->largest > last || (range->largest == last && range->zero_at > 0)) {
        return base_fail(why, BASE_EFORMAT,
                         "%s:%zu: labels from %d to %d, expected 0 to %zu or 1 to %zu (%zu classes)", name,
                         range->largest_at, range->least, range->largest, classes - 1, classes, classes);
    } else if (range->largest == last) {
        *first_label = 1;
    } else if (range->zero_at > 0 || classes == 2) { // two classes, only 1s: second of -1/+1 and of 0/1
        *first_label = 0;
    } else {
        return base_fail(
            why, BASE_EFORMAT,
            "%s: labels from %d to %d, neither 0 nor %d among them: with %zu classes they could count "
            "from 0 or from 1",
            name, range->least, range->largest, last, classes);
    }
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

static void fill(struct token text, size_t first, int32_t first_label, struct train_dataset *data)
{
    struct line line = {.name = ""};
    for (size_t i = 0; next_line(&text, &line) && i < first + data->examples; i++) {
        if (i < first)
            continue;
        int32_t label;
        struct sink sink = sink_of(data, i - first);
        enum base_error error = parse_line(&line, data->features, &label, &sink, NULL);
        BASE_ASSERT(!error);
        data->labels[i - first] = first_label < 0 ? label > 0 : (uint32_t)(label - first_label);
    }
}

enum base_error train_libsvm_parse(const struct train_bytes *text, size_t features, size_t classes,
                                   size_t first, size_t count, bool sparse, struct train_dataset *data,
                                   struct base_reason *why)
{
    if (classes == 0 || classes > LIMIT_CLASSES || features == 0 || features > LIMIT_DATASET_VALUES)
        return base_fail(why, BASE_EINVAL, "%zu features and %zu classes, expected 1 to %llu and 1 to %u",
                         features, classes, LIMIT_DATASET_VALUES, LIMIT_CLASSES);
    struct token all = {(const char *)text->data, (const char *)text->data + text->bytes};
    size_t rows = 0;
    struct label_range range = {0};
    enum base_error error = check_text(text->name, all, features, &rows, &range, why);
    int32_t first_label = 0;
    if (!error)
        error = choose_numbering(text->name, &range, classes, &first_label, why);
    if (!error)
        error = train_dataset_range(text->name, rows, first, count, &count, why);
    struct train_dataset filled;
    if (!error)
        error = sparse ? allocate_sparse(all, first, count, features, classes, &filled, why)
                       : train_dataset_allocate(count, features, classes, 0, &filled, why);
    if (error)
        return error;
    fill(all, first, first_label, &filled);
    filled.first_label = first_label;
    *data = filled;
    return BASE_OK;
}

enum base_error train_dataset_load_libsvm(const char *path, size_t features, size_t classes, size_t first,
                                          size_t count, bool sparse, struct train_dataset *data,
                                          struct base_reason *why)
{
    uint8_t *bytes = NULL;
    struct train_bytes text = {.name = path};
    enum base_error error = base_file_read(path, FILE_LIMIT, &bytes, &text.bytes, why);
    if (error)
        return error;
    text.data = bytes;
    error = train_libsvm_parse(&text, features, classes, first, count, sparse, data, why);
    free(bytes);
    return error;
}
