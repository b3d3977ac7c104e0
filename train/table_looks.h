// What the fields of a column look like, counted while a table is read, and the refusal of a column that
// would be read as something that it is not: numbers with another decimal mark, thousands marks or units,
// dates, codes, row numbers, names that are different in every row. Private to train/. Pure; any thread.
#ifndef TRAIN_TABLE_LOOKS_H
#define TRAIN_TABLE_LOOKS_H

#include "base/error.h"
#include "train/csv.h"
#include <stdbool.h>
#include <stddef.h>

enum train_look {
    TRAIN_LOOK_WORD,
    TRAIN_LOOK_NUMBER,      // with the decimal mark that the table has
    TRAIN_LOOK_OTHER_POINT, // a number with the other one of point and comma
    TRAIN_LOOK_GROUPS,      // a number with thousands marks: 1,009,000 or 1.009.000,5 or 1'009'000
    TRAIN_LOOK_UNIT,        // a number with a percent sign, a currency or a unit
    TRAIN_LOOK_DATE,        // or a time of day
    TRAIN_LOOKS,
};
// `point`: the decimal mark of the table.
enum train_look train_look_of(const char *text, size_t length, char point);

struct train_looks {
    size_t count;             // fields
    size_t look[TRAIN_LOOKS]; // how many of each
    size_t line[TRAIN_LOOKS]; // the first one of each, and its text
    struct train_shown shown[TRAIN_LOOKS];
    // Of the numbers: how many are whole; how many have three digits after the mark, and before it one to
    // three that begin with no 0 ("1.234"); whole numbers of one length of four or more, and those of them
    // that begin with 0; dates as 20230115; numbers of over 15 digits; row numbers from 0 and from 1.
    size_t whole, thousand_like, code_like, zero_led, day_like, too_long, from_0, from_1;
    size_t code_length;
};
void train_looks_note(struct train_looks *looks, const char *text, size_t length, size_t line, char point);

struct train_looks_column {
    const char *name;      // as in the header
    bool has_name;         // false: the file has no header, or an empty field in it
    bool is_target;        // the column of the classes
    bool may_be_ambiguous; // data.decimal was given, so that 1.234 is no thousand
    size_t distinct;       // words, or numbers of a target
    char delimiter;
};
// BASE_EFORMAT with what was found, an example and its line, and what to do: the column is not what it would
// be read as. BASE_OK: nothing stands against it.
enum base_error train_looks_judge(const struct train_looks *looks, const struct train_looks_column *column,
                                  char point, struct base_reason *why) BASE_CHECK;
// What to do with a field that was expected to be a number: a text to append to a message, "" if nothing is
// known.
const char *train_looks_hint(enum train_look look, char point);

#endif
