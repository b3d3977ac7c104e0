// The records of a CSV text (RFC 4180): fields between delimiters. A quoted field may contain delimiters and
// line ends; "" stands for ". Private to train/. One owner.
#ifndef TRAIN_CSV_H
#define TRAIN_CSV_H

#include "base/error.h"
#include "train/loaders.h"
#include <stdbool.h>
#include <stddef.h>

struct train_csv_field {
    const char
        *at; // in the text of the file or of the reader; without the blanks around it unless it is quoted
    size_t length;
    bool quoted;
};

struct train_csv {
    const char *name;
    const char *at, *end; // the text that is not read yet
    char delimiter;
    size_t line, next_line;         // line of the latest record, and of the next one; from 1
    struct train_csv_field *fields; // [count] of the latest record
    size_t count, capacity;
    char *text; // [LIMIT_TEXT_LINE_BYTES] unescaped text of quoted fields that contain ""
    size_t used;
};

// `text` is borrowed. A UTF-8 byte order mark at its beginning is skipped, and a first line "sep=;". With a
// blank as the delimiter, a run of blanks divides once. BASE_EFORMAT: a zero byte; BASE_EINVAL: the first
// line tells another delimiter; BASE_ENOMEM.
enum base_error train_csv_open(const struct train_bytes *text, char delimiter, struct train_csv *csv,
                               struct base_reason *why) BASE_CHECK;
void train_csv_close(struct train_csv *csv);

// Reads the next record into fields[count]; *more is false after the last one. Errors name file, line and
// column; BASE_EFORMAT, BASE_ELIMIT (LIMIT_TEXT_LINE_BYTES of a record, LIMIT_COLUMNS), BASE_ENOMEM.
enum base_error train_csv_next(struct train_csv *csv, bool *more, struct base_reason *why) BASE_CHECK;

// A text as messages print it: cut to 40 characters, and without control characters.
struct train_shown {
    char text[44];
};
struct train_shown train_show(const char *text, size_t length);
static inline struct train_shown train_csv_show(const struct train_csv_field *field)
{
    return train_show(field->at, field->length);
}

#endif
