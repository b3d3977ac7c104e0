// Shared by the two passes over a table. Private to train/.
#ifndef TRAIN_TABLE_PRIVATE_H
#define TRAIN_TABLE_PRIVATE_H

#include "train/csv.h"
#include "train/table.h"
#include "train/table_looks.h"

enum train_column_role { TRAIN_COLUMN_FEATURE, TRAIN_COLUMN_TARGET, TRAIN_COLUMN_IGNORED };

struct train_table_column {
    enum train_column_role role;
    char *name;
    bool is_category;              // named as a category, or the column of the classes
    bool is_named_category;        // in data.categorical
    struct train_looks looks;      // of its fields
    size_t numbers, words;         // how many of each were found
    size_t number_line, word_line; // the first of each
    struct train_shown number, word;
    struct train_names set; // the distinct words, sorted by bytes
};

struct train_table {
    const char *name; // of the file
    const struct train_table_options *options;
    struct train_table_column *columns; // [count], in the file's order
    size_t count, rows;
    bool has_header;
    char point; // the decimal mark
};

// The first pass: names and roles of the columns, and their contents. Reads every field.
enum base_error train_table_survey(const struct train_bytes *text, const struct train_table_options *options,
                                   struct train_table *table, struct base_reason *why) BASE_CHECK;
void train_table_free(struct train_table *table);

// Whether the first record looks like a header: no field of it is a number.
bool train_table_looks_like_header(const struct train_csv *csv, char point);
// Whether the first record is a header, as the options say or by comparison with the records below it.
// BASE_EINVAL: it may be both.
enum base_error train_table_find_header(const struct train_bytes *text,
                                        const struct train_table_options *options, bool *is_header,
                                        struct base_reason *why) BASE_CHECK;
// Fills table->columns from the first record: its names where has_header, else numbers from 1. BASE_ENOMEM.
enum base_error train_table_name_columns(struct train_table *table, const struct train_csv *csv,
                                         struct base_reason *why) BASE_CHECK;
// The place of the column with this name; SIZE_MAX: there is none.
size_t train_table_find_name(const struct train_table *table, const char *name);

// Makes the meaning from the result of the first pass: columns, categories and classes in their fixed order.
enum base_error train_table_mean(const struct train_table *table, struct train_meaning **meaning,
                                 struct base_reason *why) BASE_CHECK;

// Numbers by value and before words, words by bytes.
int train_table_order(const char *a, const char *b);
// Puts "FILE:LINE: column 3 (age): " before the reason.
enum base_error train_table_at(const struct train_table *table, size_t line, size_t column,
                               struct base_reason *why, enum base_error error);
// Parses a number. BASE_EFORMAT: it is missing, not a number, or too large for a 32-bit float.
enum base_error train_table_number(const struct train_csv_field *field, char point, double *value,
                                   struct base_reason *why) BASE_CHECK;
// Which feature of `column` a field sets, counted from its first one, and to what. BASE_EFORMAT,
// BASE_EMISMATCH (the word is not one of the categories).
enum base_error train_table_feature(const struct train_column *column, const struct train_csv_field *field,
                                    char point, size_t *feature, double *value,
                                    struct base_reason *why) BASE_CHECK;
enum base_error train_table_check_width(const struct train_table *table, const struct train_csv *csv,
                                        struct base_reason *why) BASE_CHECK;

#endif
