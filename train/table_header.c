// Whether the first line of a table holds the names of its columns: it is compared with the lines below it.
#include "train/decimal.h"
#include "train/table_private.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_COMPARED 10000u

// A column as the first line and the lines below it have it.
struct contrast {
    char *first; // its field in the first line
    bool is_number, is_whole;
    double value;
    size_t numbers, words, fractions; // below the first line
    bool recurs;                      // the field of the first line occurs below it
    double least, most;
};

static bool begin(const struct train_csv *csv, char point, struct contrast *columns)
{
    for (size_t i = 0; i < csv->count; i++) {
        const struct train_csv_field *field = &csv->fields[i];
        struct contrast *c = &columns[i];
        *c = (struct contrast){.least = INFINITY, .most = -INFINITY};
        if (!(c->first = strndup(field->at, field->length)))
            return false;
        c->is_number = train_decimal_parse(field->at, field->at + field->length, point, &c->value);
        c->is_whole = c->is_number && c->value == floor(c->value) && !memchr(field->at, point, field->length);
    }
    return true;
}

static void compare(const struct train_csv *csv, char point, struct contrast *columns, size_t count)
{
    for (size_t i = 0; i < csv->count && i < count; i++) {
        const struct train_csv_field *field = &csv->fields[i];
        struct contrast *c = &columns[i];
        double value;
        c->recurs |= strlen(c->first) == field->length && memcmp(c->first, field->at, field->length) == 0;
        if (!train_decimal_parse(field->at, field->at + field->length, point, &value)) {
            c->words += field->length > 0;
            continue;
        }
        c->numbers++;
        c->fractions += value != floor(value);
        c->least = fmin(c->least, value);
        c->most = fmax(c->most, value);
    }
}

struct tally {
    size_t names, recurring; // fields of the first line that are no numbers; those that occur below
    size_t numbers, unlike;  // that are numbers; those that do not belong to the numbers below (is_unlike)
    size_t other_type;       // a word above numbers, or a number above words
    bool counts;             // the numbers are 0,1,2,... or 1,2,3,...
    bool years;              // or 2019,2020,...
};

// A whole number above fractions, or one that is further away from those below than these are from each
// other.
static bool is_unlike(const struct contrast *c)
{
    const double span = c->most - c->least;
    return c->is_whole && !c->recurs && c->numbers > 0 &&
           (2 * c->fractions > c->numbers || c->least - c->value > span || c->value - c->most > span);
}

static struct tally count_up(const struct contrast *columns, size_t count)
{
    struct tally t = {0};
    bool rises = true;
    double first = 0, last = 0;
    for (size_t i = 0; i < count; i++) {
        const struct contrast *c = &columns[i];
        const size_t below = c->numbers + c->words;
        t.other_type += below > 0 && c->first[0] && (c->is_number ? c->numbers == 0 : c->words == 0);
        t.names += !c->is_number;
        t.recurring += !c->is_number && c->recurs;
        if (!c->is_number)
            continue;
        t.unlike += is_unlike(c);
        rises &= c->is_whole && (t.numbers == 0 || c->value == last + 1);
        first = t.numbers == 0 ? c->value : first;
        last = c->value;
        t.numbers++;
    }
    t.counts = rises && t.numbers > 1 && (first == 0 || first == 1);
    t.years = rises && t.numbers > 1 && first >= 1900 && last <= 2100;
    return t;
}

static enum base_error ask(const struct train_csv *csv, struct base_reason *why)
{
    return base_fail(why, BASE_EINVAL,
                     "%s:1: the first line, from \"%s\" to \"%s\", may hold names or values; say which with "
                     "data.header: yes or data.header: no",
                     csv->name, train_csv_show(&csv->fields[0]).text,
                     train_csv_show(&csv->fields[csv->count - 1]).text);
}

static bool occurs_before(const struct train_csv *line, size_t field)
{
    const struct train_csv_field *f = &line->fields[field];
    for (size_t i = 0; i < field; i++)
        if (line->fields[i].length == f->length && memcmp(line->fields[i].at, f->at, f->length) == 0)
            return true;
    return false;
}

// The names of the training examples, each once, whatever the lines below are.
static bool is_known(const struct train_csv *first, const struct train_meaning *like)
{
    if (!like || train_names_are_positions(&like->layout))
        return false;
    size_t found = 0;
    for (size_t i = 0; i < first->count; i++) {
        char name[256];
        const struct train_csv_field *field = &first->fields[i];
        if (field->length >= sizeof name)
            return false;
        memcpy(name, field->at, field->length);
        name[field->length] = 0;
        found += train_names_has(&like->layout, name) && !occurs_before(first, i);
    }
    return first->count > 1 && found == first->count;
}

static enum base_error decide(const struct train_csv *first, const struct contrast *columns, size_t rows,
                              bool *is_header, struct base_reason *why)
{
    const size_t count = first->count;
    const struct tally t = count_up(columns, count);
    *is_header = true;
    if (t.other_type > 0 || rows == 0)
        *is_header = t.other_type > 0 || t.numbers == 0;
    else if (t.numbers == 0 && t.recurring == count)
        *is_header = false;
    else if (t.numbers == 0 && t.recurring > 0)
        return ask(first, why);
    else if ((t.counts || t.years) && t.unlike > 0 && t.recurring == 0)
        *is_header = true;
    else if ((t.years && t.recurring == 0) || (t.counts && t.numbers == count && count > 2))
        return ask(first, why);
    else if (t.numbers > 0 && t.unlike == t.numbers && t.recurring == 0 && rows > 2 && count > 1)
        return ask(first, why);
    else
        *is_header = t.numbers == 0;
    return BASE_OK;
}

// Reads the lines below the first one, which is in `first`. A malformed line ends the comparison: the survey
// will report it.
static size_t read_below(struct train_csv *csv, char point, struct contrast *columns, size_t count)
{
    bool more = true;
    size_t rows = 0;
    while (rows < ROWS_COMPARED && !train_csv_next(csv, &more, NULL) && more) {
        compare(csv, point, columns, count);
        rows++;
    }
    return rows;
}

enum base_error train_table_find_header(const struct train_bytes *text,
                                        const struct train_table_options *options, bool *is_header,
                                        struct base_reason *why)
{
    const char point = options->decimal ? options->decimal : '.';
    struct train_csv first, below;
    struct contrast *columns = NULL;
    bool more = false;
    *is_header = options->header == TRAIN_HEADER_YES;
    if (options->header != TRAIN_HEADER_AUTO)
        return BASE_OK;
    enum base_error error = train_csv_open(text, options->delimiter, &first, why);
    if (error)
        return error;
    error = train_csv_open(text, options->delimiter, &below, why);
    if (error) {
        train_csv_close(&first);
        return error;
    }
    error = train_csv_next(&first, &more, why);
    const bool known = !error && more && is_known(&first, options->like);
    *is_header = known;
    if (!error && more && !known && !train_csv_next(&below, &more, NULL)) {
        columns = calloc(first.count, sizeof *columns);
        error = columns && begin(&first, point, columns)
                    ? decide(&first, columns, read_below(&below, point, columns, first.count), is_header, why)
                    : base_fail(why, BASE_ENOMEM, "%s: no memory for %zu columns", first.name, first.count);
    }
    for (size_t i = 0; columns && i < first.count; i++)
        free(columns[i].first);
    free(columns);
    train_csv_close(&first);
    train_csv_close(&below);
    return error;
}
