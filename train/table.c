// The second pass over a table: its rows as a data set. Nothing is allocated for a file that the first pass
// refuses.
#include "train/table.h"
#include "base/limits.h"
#include "train/table_private.h"
#include "train/unpack.h"
#include <stdlib.h>
#include <string.h>

// The destination of a column of the file.
struct place {
    const struct train_column *column; // NULL: a target, or ignored
    size_t at;                         // its first feature, or the number of the target
    bool is_target;
};

struct filling {
    const struct train_table *table;
    const struct train_meaning *meaning;
    const struct place *places; // [table->count]
    bool regression;
    struct train_dataset *data; // NULL: only checks
};

static size_t find(const struct train_names *names, const struct train_csv_field *field)
{
    size_t low = 0, high = names->count;
    char word[LIMIT_TENSOR_NAME_BYTES * 4], *text = word;
    if (field->length >= sizeof word && !(text = malloc(field->length + 1)))
        return SIZE_MAX;
    memcpy(text, field->at, field->length);
    text[field->length] = 0;
    size_t found = SIZE_MAX;
    while (low < high && found == SIZE_MAX) {
        const size_t middle = (low + high) / 2;
        const int order = train_table_order(names->items[middle], text);
        if (order == 0)
            found = middle;
        else if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (text != word)
        free(text);
    return found;
}

static enum base_error find_word(const struct train_names *names, const struct train_csv_field *field,
                                 const char *what, size_t *at, struct base_reason *why)
{
    *at = find(names, field);
    if (*at != SIZE_MAX)
        return BASE_OK;
    return base_fail(
        why, BASE_EMISMATCH,
        "found \"%s\", expected one of the %zu %s that the training examples have, from \"%.40s\" to "
        "\"%.40s\"",
        train_csv_show(field).text, names->count, what, names->items[0], names->items[names->count - 1]);
}

static enum base_error put_target(const struct filling *f, size_t row, size_t target,
                                  const struct train_csv_field *field, struct base_reason *why)
{
    double value = 0;
    size_t label = 0;
    enum base_error error = f->regression ? train_table_number(field, f->table->point, &value, why)
                                          : find_word(&f->meaning->classes, field, "classes", &label, why);
    if (error || !f->data)
        return error;
    if (f->regression)
        return train_dataset_put_target(f->data, row * f->data->outputs + target, value, why);
    f->data->labels[row] = (uint32_t)label;
    return BASE_OK;
}

enum base_error train_table_feature(const struct train_column *column, const struct train_csv_field *field,
                                    char point, size_t *feature, double *value, struct base_reason *why)
{
    *feature = 0;
    *value = 1;
    return column->categories.count > 0 ? find_word(&column->categories, field, "categories", feature, why)
                                        : train_table_number(field, point, value, why);
}

static enum base_error put_feature(const struct filling *f, size_t row, const struct place *place,
                                   const struct train_csv_field *field, struct base_reason *why)
{
    size_t feature;
    double value;
    enum base_error error = train_table_feature(place->column, field, f->table->point, &feature, &value, why);
    if (error || !f->data)
        return error;
    return train_dataset_put(f->data, row * f->data->features + place->at + feature, value, why);
}

static enum base_error put_record(const struct filling *f, size_t row, const struct train_csv *csv,
                                  struct base_reason *why)
{
    enum base_error error = train_table_check_width(f->table, csv, why);
    if (error)
        return error;
    for (size_t i = 0; i < csv->count; i++) {
        const struct place *place = &f->places[i];
        if (place->is_target)
            error = put_target(f, row, place->at, &csv->fields[i], why);
        else if (place->column)
            error = put_feature(f, row, place, &csv->fields[i], why);
        if (error)
            return train_table_at(f->table, csv->line, i, why, error);
    }
    return BASE_OK;
}

static enum base_error fill(const struct filling *f, const struct train_bytes *text, struct base_reason *why)
{
    struct train_csv csv;
    bool more = true;
    size_t row = 0;
    enum base_error error = train_csv_open(text, f->table->options->delimiter, &csv, why);
    if (error)
        return error;
    if (f->table->has_header)
        error = train_csv_next(&csv, &more, why);
    while (!error) {
        error = train_csv_next(&csv, &more, why);
        if (error || !more)
            break;
        error = put_record(f, row++, &csv, why);
    }
    train_csv_close(&csv);
    return error;
}

// -- which column of the file is which column of the meaning

static enum base_error take_place(const struct train_table *table, const char *name, struct place place,
                                  struct place *places, struct base_reason *why)
{
    const size_t at = train_table_find_name(table, name);
    if (at == SIZE_MAX)
        return base_fail(why, BASE_EMISMATCH,
                         "%s: found no column \"%.64s\" among %zu, expected it, as in the training examples",
                         table->name, name, table->count);
    places[at] = place;
    return BASE_OK;
}

static enum base_error place_columns(const struct train_table *table, const struct train_meaning *meaning,
                                     struct place *places, struct base_reason *why)
{
    size_t feature = 0;
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < meaning->n_columns && !error; i++) {
        const struct train_column *column = &meaning->columns[i];
        error = take_place(table, column->name, (struct place){column, feature, false}, places, why);
        feature += column->categories.count ? column->categories.count : 1;
    }
    for (size_t i = 0; i < meaning->targets.count && !error; i++)
        error = take_place(table, meaning->targets.items[i], (struct place){NULL, i, true}, places, why);
    for (size_t i = 0; i < table->count && !error; i++) {
        const bool is_class = table->columns[i].role == TRAIN_COLUMN_TARGET && meaning->classes.count > 0;
        if (is_class)
            places[i] = (struct place){NULL, 0, true};
        else if (!places[i].column && !places[i].is_target && table->columns[i].role != TRAIN_COLUMN_IGNORED)
            error =
                base_fail(why, BASE_EMISMATCH,
                          "%s: found a column \"%.64s\" that the training examples do not have; put it into "
                          "data.ignore",
                          table->name, table->columns[i].name);
    }
    return error;
}

static enum base_error load(const struct train_bytes *text, const struct train_table *table,
                            struct train_meaning *meaning, struct train_dataset *data,
                            struct base_reason *why)
{
    struct place *places = calloc(table->count, sizeof *places);
    struct train_dataset filled = {0};
    if (!places)
        return base_fail(why, BASE_ENOMEM, "%s: no memory for %zu columns", text->name, table->count);
    const bool regression = table->options->regression;
    struct filling f = {table, meaning, places, regression, NULL};
    enum base_error error = place_columns(table, meaning, places, why);
    if (!error && table->options->like)
        error = fill(&f, text, why);
    if (!error)
        error =
            train_dataset_allocate(table->rows, meaning->features, regression ? 0 : meaning->classes.count,
                                   regression ? meaning->targets.count : 0, &filled, why);
    if (!error) {
        f.data = &filled;
        error = fill(&f, text, why);
    }
    free(places);
    if (error) {
        train_dataset_destroy(&filled);
        return error;
    }
    filled.meaning = train_meaning_share(meaning);
    *data = filled;
    return BASE_OK;
}

enum base_error train_csv_parse(const struct train_bytes *text, const struct train_table_options *options,
                                struct train_dataset *data, struct base_reason *why)
{
    struct train_table table;
    struct train_meaning *meaning = train_meaning_share(options->like);
    enum base_error error = train_table_survey(text, options, &table, why);
    if (error) {
        train_meaning_release(meaning);
        return error;
    }
    if (meaning && (options->regression ? meaning->targets.count : meaning->classes.count) == 0)
        error = base_fail(why, BASE_EMISMATCH, "%s: would be read as %s, but the training examples are not",
                          text->name, options->regression ? "a regression" : "classes");
    if (!error && !meaning)
        error = train_table_mean(&table, &meaning, why);
    if (!error)
        error = load(text, &table, meaning, data, why);
    train_table_free(&table);
    train_meaning_release(meaning);
    return error;
}

enum base_error train_dataset_load_csv(const char *path, const struct train_table_options *options,
                                       struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes text;
    uint8_t *owned = NULL;
    enum base_error error = train_unpack_file(path, &text, &owned, why);
    if (error)
        return error;
    error = train_csv_parse(&text, options, data, why);
    free(owned);
    return error;
}
