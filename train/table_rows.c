#include "train/table_rows.h"
#include "base/log.h"
#include "train/decimal.h"
#include "train/table_private.h"
#include "train/unpack.h"
#include <stdlib.h>
#include <string.h>

struct place {
    const struct train_column *column; // NULL: not read
    size_t at;                         // its first feature
};

struct train_table_rows {
    const struct train_meaning *meaning;
    uint8_t *owned; // the text unpacked, or NULL
    struct train_csv csv;
    struct train_table table; // names and number of the columns
    struct place *places;     // [table.count]
    bool is_ahead;            // the first record is a row, and is still in csv
};

static bool is_number(const char *name)
{
    double value;
    return train_decimal_parse(name, name + strlen(name), '.', &value);
}

static bool has_field(const struct train_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->count; i++)
        if (strlen(name) == csv->fields[i].length && memcmp(name, csv->fields[i].at, strlen(name)) == 0)
            return true;
    return false;
}

// A number may be a name or a value, so a line whose only known names are numbers is a header only if it
// contains all of them.
static bool is_header(const struct train_csv *csv, const struct train_meaning *meaning, char point)
{
    size_t found = 0, words = 0, numeric = 0;
    for (size_t i = 0; i < meaning->n_columns; i++) {
        const struct train_column *column = &meaning->columns[i];
        const bool there = has_field(csv, column->name);
        found += there;
        words += there && !is_number(column->name);
        numeric += column->categories.count == 0;
    }
    if (train_names_are_positions(&meaning->layout))
        return numeric > 0 && train_table_looks_like_header(csv, point);
    return words > 0 || found == meaning->n_columns ||
           (numeric > 0 && train_table_looks_like_header(csv, point));
}

// -- which column is which

static enum base_error check_known(const struct train_table_rows *rows, struct base_reason *why)
{
    const struct train_meaning *meaning = rows->meaning;
    const struct train_table *table = &rows->table;
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->columns[i].name;
        if (train_table_find_name(table, name) != i)
            return base_fail(why, BASE_EMISMATCH, "%s:1: columns %zu and %zu have the same name, \"%s\"",
                             table->name, train_table_find_name(table, name) + 1, i + 1,
                             train_show(name, strlen(name)).text);
        if (!rows->places[i].column && !train_names_has(&meaning->layout, name))
            base_log(BASE_LOG_WARN, "data",
                     "%s: the column \"%s\" is left out: the training examples do not have it", table->name,
                     train_show(name, strlen(name)).text);
    }
    return BASE_OK;
}

static enum base_error place_by_name(struct train_table_rows *rows, struct base_reason *why)
{
    const struct train_meaning *meaning = rows->meaning;
    const struct train_table *table = &rows->table;
    size_t feature = 0;
    for (size_t i = 0; i < meaning->n_columns; i++) {
        const struct train_column *column = &meaning->columns[i];
        const char *name = column->name, *first = table->columns[0].name;
        const size_t at = train_table_find_name(table, column->name);
        if (at == SIZE_MAX)
            return base_fail(
                why, BASE_EMISMATCH,
                "%s:1: found no column \"%s\" among %zu (the first is \"%s\"), expected it, as in the training data%s",
                table->name, train_show(name, strlen(name)).text, table->count,
                train_show(first, strlen(first)).text,
                table->count == 1 && meaning->n_columns > 1 ? "; is the delimiter right?" : "");
        rows->places[at] = (struct place){column, feature};
        feature += column->categories.count ? column->categories.count : 1;
    }
    return check_known(rows, why);
}

// The role of a column of the training file; called in the order of the file. *next counts the features.
static enum train_column_role role_of(const struct train_meaning *meaning, const char *name, size_t *next)
{
    if (*next < meaning->n_columns && strcmp(meaning->columns[*next].name, name) == 0) {
        (*next)++;
        return TRAIN_COLUMN_FEATURE;
    }
    const bool is_label = meaning->label && strcmp(meaning->label, name) == 0;
    return is_label || train_names_has(&meaning->targets, name) ? TRAIN_COLUMN_TARGET : TRAIN_COLUMN_IGNORED;
}

// The columns are those of the training file in order: all, all except the target, or only the features.
static enum base_error place_by_position(struct train_table_rows *rows, struct base_reason *why)
{
    const struct train_meaning *meaning = rows->meaning;
    const struct train_names *layout = &meaning->layout;
    const size_t count = rows->table.count;
    size_t targets = 0, feature = 0, next = 0, at = 0;
    for (size_t i = 0; i < layout->count; i++)
        targets += role_of(meaning, layout->items[i], &next) == TRAIN_COLUMN_TARGET;
    const bool is_all = count == layout->count, is_all_but_target = count == layout->count - targets;
    if (!is_all && !is_all_but_target && count != meaning->n_columns)
        return base_fail(
            why, BASE_EMISMATCH,
            "%s:1: found %zu columns, expected %zu: those of the data that the model was trained on%s",
            rows->table.name, count, layout->count - targets,
            targets ? ", with the target or without it" : "");
    next = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const struct train_column *column = &meaning->columns[next];
        const enum train_column_role role = role_of(meaning, layout->items[i], &next);
        if (role == TRAIN_COLUMN_FEATURE) {
            rows->places[at++] = (struct place){column, feature};
            feature += column->categories.count ? column->categories.count : 1;
        } else {
            at += is_all || (role == TRAIN_COLUMN_IGNORED && is_all_but_target);
        }
    }
    BASE_ASSERT(at == count && next == meaning->n_columns);
    return BASE_OK;
}

static enum base_error begin(struct train_table_rows *rows, struct base_reason *why)
{
    struct train_table *table = &rows->table;
    bool more = false;
    enum base_error error = train_csv_next(&rows->csv, &more, why);
    if (error || !more)
        return error;
    table->has_header = is_header(&rows->csv, rows->meaning, table->point);
    rows->is_ahead = !table->has_header;
    error = train_table_name_columns(table, &rows->csv, why);
    if (error)
        return error;
    rows->places = calloc(table->count, sizeof *rows->places);
    if (!rows->places)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu columns", table->name, table->count);
    return table->has_header && !train_names_are_positions(&rows->meaning->layout)
               ? place_by_name(rows, why)
               : place_by_position(rows, why);
}

enum base_error train_table_rows_open(const char *name, const void *text, size_t bytes,
                                      const struct train_meaning *meaning, struct train_table_rows **out,
                                      struct base_reason *why)
{
    const struct train_bytes packed = {name, text, bytes};
    struct train_bytes plain;
    struct train_table_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to read it", name);
    rows->meaning = meaning;
    rows->table.name = name;
    rows->table.point = meaning->decimal ? meaning->decimal : '.';
    enum base_error error = train_unpack_gzip(&packed, &plain, &rows->owned, why);
    if (!error)
        error = train_csv_open(&plain, meaning->delimiter ? meaning->delimiter : ',', &rows->csv, why);
    if (!error)
        error = begin(rows, why);
    if (error)
        train_table_rows_close(rows);
    else
        *out = rows;
    return error;
}

enum base_error train_table_rows_next(struct train_table_rows *rows, double *x, bool *more,
                                      struct base_reason *why)
{
    const struct train_csv *csv = &rows->csv;
    enum base_error error = BASE_OK;
    *more = true;
    if (!rows->is_ahead)
        error = train_csv_next(&rows->csv, more, why);
    rows->is_ahead = false;
    if (error || !*more)
        return error;
    error = train_table_check_width(&rows->table, csv, why);
    if (error)
        return error;
    memset(x, 0, rows->meaning->features * sizeof *x);
    for (size_t i = 0; i < csv->count; i++) {
        const struct place *place = &rows->places[i];
        size_t feature = 0;
        double value = 0;
        if (!place->column)
            continue;
        error = train_table_feature(place->column, &csv->fields[i], rows->table.point, &feature, &value, why);
        if (!error)
            x[place->at + feature] = value;
        if (error)
            return train_table_at(&rows->table, csv->line, i, why, error);
    }
    return BASE_OK;
}

void train_table_rows_close(struct train_table_rows *rows)
{
    if (!rows)
        return;
    train_csv_close(&rows->csv);
    train_table_free(&rows->table);
    free(rows->places);
    free(rows->owned);
    free(rows);
}
