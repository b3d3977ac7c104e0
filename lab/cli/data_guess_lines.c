#include "lab/cli/data_guess_lines.h"
#include "base/limits.h"
#include "train/table_looks.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define LINES_COMPARED 20u
#define LABELS_SHOWN   40u // more of them than this are only counted

#define PATH_BYTES 4096

enum base_error lab_data_assign(struct node_config *config, const char *key, const char *value,
                                struct base_reason *why)
{
    char setting[PATH_BYTES + 32];
    snprintf(setting, sizeof setting, "%s=%s", key, value);
    return node_schema_assign(&node_config_schema, "guess", setting, config, why);
}

// -- tables

static const char delimiters[] = {'\t', ';', '|', ',', ' '}; // where several fit, the first one

static const char *next_line(const char *line)
{
    const char *end = line + strcspn(line, "\n");
    return *end ? end + 1 : NULL;
}

// How often the delimiter occurs in a line, outside quotes; a run of blanks between two fields counts once.
static size_t count_in(const char *line, char delimiter)
{
    size_t count = 0;
    bool quoted = false;
    const char *begin = line + (delimiter == ' ' ? strspn(line, " ") : 0),
               *end = begin + strcspn(begin, "\r\n");
    while (delimiter == ' ' && end > begin && end[-1] == ' ')
        end--;
    for (const char *c = begin; c < end; c++) {
        quoted ^= *c == '"';
        count += !quoted && *c == delimiter && !(delimiter == ' ' && c[-1] == ' ');
    }
    return count;
}

// Whole lines have the same number of it, at least one. The first line may be a header that lacks one.
static bool divides(const char *start, char delimiter)
{
    size_t lines = 0, count = 0;
    const char *second = next_line(start);
    for (const char *line = second && next_line(second) ? second : start;
         line && *line && lines < LINES_COMPARED; line = next_line(line)) {
        const size_t found = count_in(line, delimiter);
        if (!next_line(line) && lines > 0)
            break; // it may be cut off
        if (lines++ == 0)
            count = found;
        else if (found != count && *line != '\r' && *line != '\n')
            return false;
    }
    return count > 0;
}

// The field from `at` on; returns what follows it, NULL at the end of the line.
static const char *take_field(const char *at, char delimiter, const char **field, size_t *length)
{
    while (*at == ' ' || *at == '"')
        at++;
    const char *end = at;
    while (*end && *end != '\n' && *end != '\r' && *end != delimiter)
        end++;
    const char *after = *end == delimiter ? end + 1 : NULL;
    while (end > at && (end[-1] == '"' || end[-1] == ' '))
        end--;
    *field = at;
    *length = (size_t)(end - at);
    return after;
}

// What the fields of the first lines are, below the first one.
struct fields {
    size_t all, numbers, points, commas; // points: numbers with one; commas: numbers with a decimal comma
};

static struct fields count_fields(const char *start, char delimiter)
{
    struct fields found = {0};
    size_t lines = 0;
    const char *second = next_line(start);
    for (const char *line = second && *second ? second : start; line && lines < LINES_COMPARED;
         line = next_line(line), lines++)
        for (const char *at = line, *field; at;) {
            size_t length;
            at = take_field(at, delimiter, &field, &length);
            const enum train_look look = train_look_of(field, length, '.');
            found.all += length > 0;
            found.numbers += length > 0 && look != TRAIN_LOOK_WORD;
            found.points += look == TRAIN_LOOK_NUMBER && memchr(field, '.', length);
            found.commas += look == TRAIN_LOOK_OTHER_POINT;
        }
    return found;
}

enum base_error lab_data_guess_table(const char *start, struct node_config *config, struct base_reason *why)
{
    static const char *const names[] = {"tab", ";", "|", ",", "space"};
    size_t best = 3, most = 0;
    enum base_error error = lab_data_assign(config, "data.kind", "csv", why);
    start += strncmp(start, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (strncasecmp(start, "sep=", 4) == 0 && next_line(start)) {
        const char told = start[4];
        start = next_line(start);
        for (size_t d = 0; d < sizeof delimiters; d++)
            best = delimiters[d] == told ? d : best;
        most = SIZE_MAX;
    }
    for (size_t d = 0; d < sizeof delimiters && most == 0; d++)
        if (divides(start, delimiters[d])) {
            best = d;
            most = SIZE_MAX;
        }
    for (size_t d = 0; d < 4 && most != SIZE_MAX; d++)
        if (count_in(start, delimiters[d]) > most) {
            best = d;
            most = count_in(start, delimiters[d]);
        }
    if (!error)
        error = lab_data_assign(config, "data.delimiter", names[best], why);
    const struct fields fields = count_fields(start, delimiters[best]);
    if (!error && delimiters[best] != ',' && fields.commas > 0 && fields.points == 0)
        error = lab_data_assign(config, "data.decimal", "comma", why);
    return error;
}

// Lines of as many fields each, some of them numbers; where the file is not called a text, a delimiter is
// enough.
static bool looks_like_table(const char *start, char delimiter, bool is_named)
{
    const struct fields fields = count_fields(start, delimiter);
    return divides(start, delimiter) && (4 * fields.numbers >= fields.all || (!is_named && delimiter != ' '));
}

bool lab_data_looks_like_prose(const char *start, bool is_named)
{
    for (size_t d = 0; d < sizeof delimiters; d++)
        if (looks_like_table(start, delimiters[d], is_named))
            return false;
    for (size_t d = 0; d < sizeof delimiters; d++) { // a table whose lines differ, which the loader refuses
        const struct fields fields = count_fields(start, delimiters[d]);
        if (2 * fields.numbers > fields.all)
            return false;
    }
    return is_named || (strchr(start, ' ') && !memchr(start, ',', strcspn(start, "\n")));
}

// -- LIBSVM

// The first line that is no comment.
static const char *first_line(const char *start)
{
    while (start && (*start == '#' || *start == '\n' || *start == '\r'))
        start = next_line(start);
    return start ? start : "";
}

// A label, or several, or one with a weight; then an index and a colon, or a qid.
bool lab_data_looks_like_libsvm(const char *start)
{
    const char *label = first_line(start), *blank, *index, *end;
    label += strspn(label, " \t");
    blank = label + strspn(label, "+-.,:eE0123456789");
    index = blank + strspn(blank, " \t");
    if (label == blank || blank == index)
        return false;
    if (strncmp(index, "qid:", 4) == 0)
        return true;
    end = index + strspn(index, "0123456789");
    return index < end && *end == ':';
}

struct labels {
    long *items; // [count], sorted
    size_t count;
};

struct libsvm_survey {
    size_t features;
    struct labels labels;
    bool has_fractions; // a label that is no whole number
};

static bool add_label(struct labels *labels, long label)
{
    size_t at = 0;
    while (at < labels->count && labels->items[at] < label)
        at++;
    if (labels->count > LIMIT_CLASSES || (at < labels->count && labels->items[at] == label))
        return true;
    long *grown = realloc(labels->items, (labels->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    memmove(grown + at + 1, grown + at, (labels->count - at) * sizeof *grown);
    grown[at] = label;
    labels->items = grown;
    labels->count++;
    return true;
}

// Skips a malformed line, which the loader will report.
static bool survey_line(const char *line, struct libsvm_survey *survey)
{
    char *end;
    const double value = strtod(line, &end);
    if (end == line || *line == '#')
        return true;
    survey->has_fractions |= value < -1e15 || value > 1e15 || floor(value) < value;
    for (const char *at = end; (at = strchr(at, ':')); at++) {
        const char *first = at;
        while (first > end && first[-1] >= '0' && first[-1] <= '9')
            first--;
        const size_t index = first < at ? strtoull(first, NULL, 10) : 0;
        survey->features = index > survey->features ? index : survey->features;
    }
    return survey->has_fractions || add_label(&survey->labels, (long)value);
}

static enum base_error survey_libsvm(const char *path, struct libsvm_survey *survey, struct base_reason *why)
{
    FILE *file = fopen(path, "rb");
    char *line = malloc(LIMIT_TEXT_LINE_BYTES);
    bool room = line;
    while (file && room && fgets(line, LIMIT_TEXT_LINE_BYTES, file))
        room = survey_line(line, survey);
    free(line);
    if (file)
        fclose(file);
    if (!room)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for its labels", path);
    if (survey->has_fractions)
        return base_fail(
            why, BASE_EFORMAT,
            "%s: looks like LIBSVM text of a regression: found a label that is no whole number; p2pml "
            "learns classes from LIBSVM text, and quantities from data.kind csv or npy",
            path);
    if (survey->features && survey->labels.count > 0)
        return BASE_OK;
    return base_fail(why, BASE_EFORMAT,
                     "%s: looks like LIBSVM text, found no %s, expected lines \"label index:value ...\"",
                     path, survey->features ? "label" : "index");
}

static enum base_error assign_number(struct node_config *config, const char *key, size_t value,
                                     struct base_reason *why)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", value);
    return lab_data_assign(config, key, text, why);
}

// A few labels are named, so that a file of another node means the same; many are counted.
static enum base_error assign_labels(const struct labels *labels, struct node_config *config,
                                     struct base_reason *why)
{
    char text[LABELS_SHOWN * 24] = "[";
    size_t used = 1;
    const long least = labels->items[0], most = labels->items[labels->count - 1];
    if (labels->count == 1) // the loader asks for the others
        return assign_number(config, "data.classes", 2, why);
    if (labels->count > LABELS_SHOWN)
        return assign_number(config, "data.classes", (size_t)(least == 0 ? most + 1 : most), why);
    for (size_t i = 0; i < labels->count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%ld", i ? ", " : "", labels->items[i]);
    snprintf(text + used, sizeof text - used, "]");
    return lab_data_assign(config, "data.labels", text, why);
}

enum base_error lab_data_guess_libsvm(const char *path, struct node_config *config, struct base_reason *why)
{
    struct libsvm_survey survey = {0};
    struct stat status;
    char tests[PATH_BYTES];
    const size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        return base_fail(why, BASE_EINVAL, "%s: holds packed LIBSVM text; unpack it first", path);
    enum base_error error = survey_libsvm(path, &survey, why);
    snprintf(tests, sizeof tests, "%s.t", path);
    if (!error)
        error = lab_data_assign(config, "data.kind", "libsvm", why);
    if (!error)
        error = lab_data_assign(config, "data.train_file", path, why);
    if (!error && stat(tests, &status) == 0)
        error = lab_data_assign(config, "data.test_file", tests, why);
    if (!error)
        error = assign_number(config, "data.features", survey.features, why);
    if (!error)
        error = assign_labels(&survey.labels, config, why);
    free(survey.labels.items);
    return error;
}
