// The first pass over a table: finds out what its columns are.
#include "base/limits.h"
#include "base/log.h"
#include "train/decimal.h"
#include "train/table_private.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int train_table_order(const char *a, const char *b)
{
    double x, y;
    const bool is_a = train_decimal_parse(a, a + strlen(a), '.', &x),
               is_b = train_decimal_parse(b, b + strlen(b), '.', &y);
    if (is_a != is_b)
        return is_a ? -1 : 1;
    if (is_a && x < y)
        return -1;
    if (is_a && x > y)
        return 1;
    return strcmp(a, b);
}

size_t train_table_find_name(const struct train_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

enum base_error train_table_at(const struct train_table *table, size_t line, size_t column,
                               struct base_reason *why, enum base_error error)
{
    const char *name = table->columns[column].name;
    if (!table->has_header)
        return base_fail_context(why, error, "%s:%zu: column %zu", table->name, line, column + 1);
    return base_fail_context(why, error, "%s:%zu: column %zu (%s)", table->name, line, column + 1,
                             train_show(name, strlen(name)).text);
}

static bool is_missing(const struct train_csv_field *field)
{
    static const char *const words[] = {"", "na", "n/a", "nan", "null", "?"};
    for (size_t i = 0; i < sizeof words / sizeof *words && !field->quoted; i++)
        if (strlen(words[i]) == field->length && strncasecmp(words[i], field->at, field->length) == 0)
            return true;
    return false;
}

static enum base_error fail_missing(const struct train_csv_field *field, struct base_reason *why)
{
    return base_fail(why, BASE_EFORMAT,
                     "found \"%s\", a missing value, expected a value; fill it in or leave the line out",
                     train_csv_show(field).text);
}

enum base_error train_table_number(const struct train_csv_field *field, char point, double *value,
                                   struct base_reason *why)
{
    if (is_missing(field))
        return fail_missing(field, why);
    if (!train_decimal_parse(field->at, field->at + field->length, point, value))
        return base_fail(why, BASE_EFORMAT, "found \"%s\", expected a finite decimal number%s",
                         train_csv_show(field).text,
                         train_looks_hint(train_look_of(field->at, field->length, point), point));
    if (isinf(*value))
        return base_fail(why, BASE_EFORMAT, "found \"%s\", which is too large for a 32-bit float",
                         train_csv_show(field).text);
    return BASE_OK;
}

enum base_error train_table_check_width(const struct train_table *table, const struct train_csv *csv,
                                        struct base_reason *why)
{
    if (csv->count == table->count)
        return BASE_OK;
    if (csv->count == 1 && csv->fields[0].length == 0)
        return base_fail(why, BASE_EFORMAT, "%s:%zu: found an empty line, expected %zu columns", csv->name,
                         csv->line, table->count);
    return base_fail(why, BASE_EFORMAT, "%s:%zu: found %zu columns, expected %zu as in the first line",
                     csv->name, csv->line, csv->count, table->count);
}

// -- names and roles

bool train_table_looks_like_header(const struct train_csv *csv, char point)
{
    double value;
    for (size_t i = 0; i < csv->count; i++) {
        const struct train_csv_field *field = &csv->fields[i];
        if (train_decimal_parse(field->at, field->at + field->length, point, &value))
            return false;
    }
    return true;
}

enum base_error train_table_name_columns(struct train_table *table, const struct train_csv *csv,
                                         struct base_reason *why)
{
    table->count = csv->count;
    table->columns = calloc(csv->count, sizeof *table->columns);
    bool named = table->columns;
    for (size_t i = 0; named && i < csv->count; i++) {
        const struct train_csv_field *field = &csv->fields[i];
        char number[24];
        snprintf(number, sizeof number, "%zu", i + 1);
        const bool given = table->has_header && field->length > 0;
        table->columns[i].name = given ? strndup(field->at, field->length) : strdup(number);
        named = table->columns[i].name;
    }
    return named ? BASE_OK
                 : base_fail(why, BASE_ENOMEM, "%s: no memory for %zu columns", csv->name, csv->count);
}

static size_t find_column(const struct train_table *table, const char *name)
{
    char *end = NULL;
    const size_t named = train_table_find_name(table, name);
    if (named != SIZE_MAX)
        return named;
    const unsigned long number = strtoul(name, &end, 10);
    const bool is_number = name[0] >= '1' && name[0] <= '9' && *end == 0;
    return is_number && number <= table->count ? number - 1 : SIZE_MAX;
}

static enum base_error fail_unknown(const struct train_table *table, const char *key, const char *name,
                                    struct base_reason *why)
{
    char list[200] = "";
    size_t used = 0;
    for (size_t i = 0; i < table->count && used < sizeof list - 1; i++) {
        const int put =
            snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", table->columns[i].name);
        used += put > 0 ? (size_t)put : 0;
    }
    for (char *c = list; *c; c++)
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    const char *hint = table->count == 1 ? "; is another delimiter meant?" : "";
    return base_fail(why, BASE_EINVAL, "%s: %s: found no column \"%.64s\", expected one of %zu: %s%s%s",
                     table->name, key, name, table->count, list, used >= sizeof list ? "..." : "", hint);
}

static const struct train_column *column_like(const struct train_meaning *like, const char *name)
{
    for (size_t i = 0; i < like->n_columns; i++)
        if (strcmp(like->columns[i].name, name) == 0)
            return &like->columns[i];
    return NULL;
}

// A column that the training examples do not have is not read.
static void leave_out(const struct train_table *table, struct train_table_column *column)
{
    base_log(BASE_LOG_WARN, "data", "%s: the column \"%s\" is left out: the training examples do not have it",
             table->name, train_show(column->name, strlen(column->name)).text);
    column->role = TRAIN_COLUMN_IGNORED;
}

// What the options do not state is taken from the training examples: the target, the ignored columns and the
// categories. If no column has the name of their target, the last column is the target.
static void give_roles_like(struct train_table *table, const struct train_meaning *like)
{
    bool found = table->options->target.count > 0;
    for (size_t i = 0; i < table->count; i++) {
        struct train_table_column *column = &table->columns[i];
        const struct train_column *known = column_like(like, column->name);
        const bool is_target = (like->label && strcmp(like->label, column->name) == 0) ||
                               train_names_has(&like->targets, column->name);
        if (known)
            column->is_category |= known->categories.count > 0;
        else if (is_target && table->options->target.count == 0)
            column->role = TRAIN_COLUMN_TARGET;
        else if (column->role == TRAIN_COLUMN_FEATURE && train_names_has(&like->layout, column->name))
            column->role = TRAIN_COLUMN_IGNORED;
        found |= column->role == TRAIN_COLUMN_TARGET;
    }
    if (!found)
        table->columns[table->count - 1].role = TRAIN_COLUMN_TARGET;
    for (size_t i = 0; i < table->count && table->has_header; i++)
        if (table->columns[i].role == TRAIN_COLUMN_FEATURE && !column_like(like, table->columns[i].name))
            leave_out(table, &table->columns[i]);
}

static enum base_error give_roles(struct train_table *table, struct base_reason *why)
{
    const struct train_table_options *options = table->options;
    const struct {
        const char *key;
        const struct train_names *names;
    } lists[] = {{"data.target", &options->target},
                 {"data.categorical", &options->categorical},
                 {"data.ignore", &options->ignore}};
    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < lists[l].names->count; i++) {
            const size_t at = find_column(table, lists[l].names->items[i]);
            if (at == SIZE_MAX)
                return fail_unknown(table, lists[l].key, lists[l].names->items[i], why);
            struct train_table_column *column = &table->columns[at];
            if (l == 2 && column->role == TRAIN_COLUMN_TARGET)
                return base_fail(why, BASE_EINVAL, "%s: data.ignore: column \"%.64s\" is also a target",
                                 table->name, column->name);
            if (l == 1)
                column->is_category = column->is_named_category = true;
            else
                column->role = l == 0 ? TRAIN_COLUMN_TARGET : TRAIN_COLUMN_IGNORED;
        }
    if (options->like)
        give_roles_like(table, options->like);
    else if (options->target.count == 0)
        table->columns[table->count - 1].role = TRAIN_COLUMN_TARGET;
    if (!options->regression && options->target.count > 1)
        return base_fail(
            why, BASE_EINVAL,
            "%s: data.target: found %zu columns, expected one whose words are the classes; several "
            "targets need model.loss mse or mae",
            table->name, options->target.count);
    return BASE_OK;
}

static enum base_error settle_columns(struct train_table *table, struct base_reason *why)
{
    size_t features = 0;
    enum base_error error = give_roles(table, why);
    if (error)
        return error;
    for (size_t i = 0; i < table->count; i++) {
        struct train_table_column *column = &table->columns[i];
        features += column->role == TRAIN_COLUMN_FEATURE;
        if (column->role == TRAIN_COLUMN_TARGET)
            column->is_category = !table->options->regression;
        for (size_t j = 0; j < i; j++)
            if (strcmp(column->name, table->columns[j].name) == 0)
                return base_fail(why, BASE_EFORMAT,
                                 "%s:1: columns %zu and %zu have the same name, "
                                 "\"%.64s\"",
                                 table->name, j + 1, i + 1, column->name);
    }
    if (features == 0 && !table->options->like) // otherwise the missing columns are named
        return base_fail(
            why, BASE_EINVAL,
            "%s: found %zu columns, expected at least one besides the target; is data.delimiter right?",
            table->name, table->count);
    return BASE_OK;
}

// -- what the fields hold

// The place of `word` among the items, which are sorted by bytes, or the place at which to insert it.
static size_t place_of(const struct train_names *set, const char *word, size_t length, bool *there)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const char *item = set->items[middle];
        int order = strncmp(item, word, length);
        if (order == 0 && item[length] != 0)
            order = 1;
        if (order == 0) {
            *there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *there = false;
    return low;
}

// Whether a column is what its fields would be read as. What the user or the training examples have said of
// it counts.
static enum base_error judge(const struct train_table_column *column, const struct train_table *table,
                             struct base_reason *why)
{
    const struct train_table_options *options = table->options;
    char number[24];
    snprintf(number, sizeof number, "%zu", (size_t)(column - table->columns) + 1);
    const struct train_looks_column about = {.name = column->name,
                                             .has_name =
                                                 table->has_header && strcmp(column->name, number) != 0,
                                             .is_target = column->role == TRAIN_COLUMN_TARGET,
                                             .may_be_ambiguous = options->decimal != 0,
                                             .distinct = column->set.count,
                                             .delimiter = options->delimiter};
    if (options->like || column->is_named_category || column->role == TRAIN_COLUMN_IGNORED ||
        (about.is_target && options->regression))
        return BASE_OK;
    return train_looks_judge(&column->looks, &about, table->point, why);
}

static enum base_error note_word(struct train_table_column *column, const struct train_table *table,
                                 const struct train_csv_field *field, struct base_reason *why)
{
    const size_t most = column->role == TRAIN_COLUMN_TARGET ? LIMIT_CLASSES : LIMIT_CATEGORIES;
    bool there;
    if (memchr(field->at, 0, field->length))
        return base_fail(why, BASE_EFORMAT, "found a zero byte, expected text");
    const size_t at = place_of(&column->set, field->at, field->length, &there);
    if (there)
        return BASE_OK;
    if (column->set.count == most && judge(column, table, why))
        return BASE_EFORMAT;
    if (column->set.count == most)
        return base_fail(
            why, BASE_ELIMIT,
            "found over %zu different words, expected fewer; put a column of names or row numbers into "
            "data.ignore",
            most);
    if (!train_names_add(&column->set, field->at, field->length))
        return base_fail(why, BASE_ENOMEM, "no memory for %zu words", column->set.count);
    char *added = column->set.items[column->set.count - 1];
    memmove(column->set.items + at + 1, column->set.items + at,
            (column->set.count - 1 - at) * sizeof *column->set.items);
    column->set.items[at] = added;
    return BASE_OK;
}

// Either all fields of a column are numbers or none is: a word among numbers is usually a mistake.
static enum base_error check_mix(const struct train_table_column *column, bool is_number, char point,
                                 const struct train_csv_field *field, struct base_reason *why)
{
    const struct train_shown *word = &column->word;
    if (is_number ? column->words == 0 : column->numbers == 0)
        return BASE_OK;
    const char *hint = is_number
                           ? train_looks_hint(train_look_of(word->text, strlen(word->text), point), point)
                           : train_looks_hint(train_look_of(field->at, field->length, point), point);
    if (is_number)
        return base_fail(
            why, BASE_EFORMAT,
            "found the number \"%s\", expected a word such as \"%s\" in line %zu; name the column in "
            "data.categorical if it is a category%s",
            train_csv_show(field).text, word->text, column->word_line, hint);
    return base_fail(why, BASE_EFORMAT,
                     "found \"%s\", expected a number such as \"%s\" in line %zu; name the column in "
                     "data.categorical if it is a category%s",
                     train_csv_show(field).text, column->number.text, column->number_line, hint);
}

static enum base_error look_at(struct train_table_column *column, const struct train_table *table,
                               const struct train_csv_field *field, size_t line, struct base_reason *why)
{
    double value;
    const char point = table->point;
    if (column->role == TRAIN_COLUMN_IGNORED)
        return BASE_OK;
    if (is_missing(field))
        return fail_missing(field, why);
    train_looks_note(&column->looks, field->at, field->length, line, point);
    if (column->is_category)
        return note_word(column, table, field, why);
    if (column->role == TRAIN_COLUMN_TARGET && table->options->regression)
        return train_table_number(field, point, &value, why);
    const bool is_number = train_decimal_parse(field->at, field->at + field->length, point, &value);
    enum base_error error = check_mix(column, is_number, point, field, why);
    if (!error && is_number)
        error = train_table_number(field, point, &value, why);
    else if (!error)
        error = note_word(column, table, field, why);
    if (error)
        return error;
    if (is_number && column->numbers++ == 0) {
        column->number = train_csv_show(field);
        column->number_line = line;
    } else if (!is_number && column->words++ == 0) {
        column->word = train_csv_show(field);
        column->word_line = line;
    }
    return BASE_OK;
}

static enum base_error look_at_record(struct train_table *table, const struct train_csv *csv,
                                      struct base_reason *why)
{
    enum base_error error = train_table_check_width(table, csv, why);
    for (size_t i = 0; !error && i < table->count; i++) {
        error = look_at(&table->columns[i], table, &csv->fields[i], csv->line, why);
        if (error)
            return train_table_at(table, csv->line, i, why, error);
    }
    table->rows += !error;
    return error;
}

static enum base_error judge_all(const struct train_table *table, struct base_reason *why)
{
    for (size_t i = 0; i < table->count; i++) {
        const enum base_error error = judge(&table->columns[i], table, why);
        if (error)
            return base_fail_context(why, error, "%s: column %zu (%s)", table->name, i + 1,
                                     train_show(table->columns[i].name, strlen(table->columns[i].name)).text);
    }
    return BASE_OK;
}

static enum base_error survey(struct train_csv *csv, struct train_table *table, struct base_reason *why)
{
    bool more = false;
    enum base_error error = train_csv_next(csv, &more, why);
    if (!error && !more)
        return base_fail(why, BASE_EFORMAT, "%s: the file is empty, expected lines of columns", csv->name);
    if (error)
        return error;
    error = train_table_name_columns(table, csv, why);
    if (!error)
        error = settle_columns(table, why);
    if (!error && !table->has_header)
        error = look_at_record(table, csv, why);
    while (!error) {
        error = train_csv_next(csv, &more, why);
        if (error || !more)
            break;
        error = look_at_record(table, csv, why);
    }
    if (!error && table->rows == 0)
        error = base_fail(why, BASE_EFORMAT, "%s: a header without rows below it", csv->name);
    return error ? error : judge_all(table, why);
}

enum base_error train_table_survey(const struct train_bytes *text, const struct train_table_options *options,
                                   struct train_table *table, struct base_reason *why)
{
    struct train_table found = {
        .name = text->name, .options = options, .point = options->decimal ? options->decimal : '.'};
    struct train_csv csv;
    enum base_error error = train_table_find_header(text, options, &found.has_header, why);
    if (error)
        return error;
    error = train_csv_open(text, options->delimiter, &csv, why);
    if (error)
        return error;
    error = survey(&csv, &found, why);
    train_csv_close(&csv);
    if (error)
        train_table_free(&found);
    else
        *table = found;
    return error;
}

void train_table_free(struct train_table *table)
{
    for (size_t i = 0; i < table->count && table->columns; i++) {
        free(table->columns[i].name);
        train_names_free(&table->columns[i].set);
    }
    free(table->columns);
    *table = (struct train_table){0};
}
