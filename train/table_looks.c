#include "train/table_looks.h"
#include "train/decimal.h"
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define ROWS_TO_JUDGE 20u // fewer rows say nothing about names and row numbers
#define FEW_CLASSES   20u // more numbers than this, and few rows each: a quantity rather than classes
#define FEW_UNITS     5u  // more words like "12%" than this: a quantity rather than categories
#define LONG_DIGITS   15u // a double keeps so many

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && is_digit(*at))
        at++;
    return (size_t)(at - start);
}

// -- one field

// 1,009,000 or 1.009.000,5 or 1'009'000: groups of three after the first. A single group counts for every
// mark except a point or comma, which may be a decimal mark.
static bool is_grouped(const char *at, const char *end, char *mark)
{
    static const char *const marks[] = {",", ".", "'", " ", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x99"};
    at += at < end && (*at == '-' || *at == '+');
    const size_t first = digits_at(at, end);
    if (first == 0 || first > 3)
        return false;
    at += first;
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
        const size_t bytes = strlen(marks[m]);
        const char *next = at;
        size_t groups = 0;
        while ((size_t)(end - next) >= bytes + 3 && memcmp(next, marks[m], bytes) == 0 &&
               digits_at(next + bytes, end) == 3) {
            next += bytes + 3;
            groups++;
        }
        const bool fraction = next < end && (*next == '.' || *next == ',') && *next != marks[m][0] &&
                              next + 1 + digits_at(next + 1, end) == end;
        if (groups > 0 && (next == end || fraction)) {
            *mark = groups == 1 && next == end && m < 2 ? marks[m][0] : 0;
            return true;
        }
    }
    return false;
}

static bool is_time(const char *at, const char *end)
{
    const size_t hours = digits_at(at, end);
    if (hours < 1 || hours > 2 || end - at < (ptrdiff_t)hours + 3 || at[hours] != ':')
        return false;
    at += hours + 1;
    if (digits_at(at, end) != 2)
        return false;
    at += 2;
    if (end - at >= 3 && *at == ':' && digits_at(at + 1, end) == 2)
        at += 3;
    if (at < end && (*at == '.' || *at == ','))
        at += 1 + digits_at(at + 1, end);
    while (at < end && *at == ' ')
        at++;
    const size_t left = (size_t)(end - at); // AM, PM, Z, +01:00, UTC
    return left <= 6 && (left == 0 || strchr("AaPpZzUu+-", *at));
}

// 2023-01-31, 31.1.2023, 1/31/23, 2023-01, each also with a time behind it.
static bool is_date(const char *at, const char *end)
{
    const size_t first = digits_at(at, end);
    if ((first != 4 && first != 1 && first != 2) || at + first == end || !strchr("-/.", at[first]))
        return false;
    const char mark = at[first];
    at += first + 1;
    const size_t second = digits_at(at, end);
    if (second < 1 || second > 2)
        return false;
    at += second;
    if (at == end) // year and month; 2023.01 is a number
        return first == 4 && second == 2 && mark != '.';
    if (*at != mark)
        return false;
    const size_t third = digits_at(++at, end);
    if (third != 2 && third != (first == 4 ? 1 : 4))
        return false;
    at += third;
    if (at < end && (*at == ' ' || *at == 'T' || *at == ','))
        at++;
    while (at < end && *at == ' ')
        at++;
    return at == end || is_time(at, end);
}

// A number with % or a currency before or behind it, or up to four letters behind it.
static bool has_unit(const char *at, const char *end)
{
    static const char *const signs[] = {"%",   "$",   "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5",
                                        "EUR", "USD", "CHF",          "GBP"};
    double value;
    char mark;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const size_t bytes = strlen(signs[i]);
        if ((size_t)(end - at) > bytes && memcmp(at, signs[i], bytes) == 0)
            at += bytes;
        else if ((size_t)(end - at) > bytes && memcmp(end - bytes, signs[i], bytes) == 0)
            end -= bytes;
        else
            continue;
        while (at < end && *at == ' ')
            at++;
        while (end > at && end[-1] == ' ')
            end--;
        return train_decimal_parse(at, end, '.', &value) || train_decimal_parse(at, end, ',', &value) ||
               is_grouped(at, end, &mark);
    }
    const char *last = end;
    while (last > at && end - last < 4 && ((last[-1] | 32) >= 'a' && (last[-1] | 32) <= 'z'))
        last--;
    while (last > at && last < end && last[-1] == ' ')
        last--;
    return last < end &&
           (train_decimal_parse(at, last, '.', &value) || train_decimal_parse(at, last, ',', &value));
}

enum train_look train_look_of(const char *text, size_t length, char point)
{
    const char *end = text + length;
    const char other = point == ',' ? '.' : ',';
    double value;
    char mark = 0;
    if (train_decimal_parse(text, end, point, &value))
        return TRAIN_LOOK_NUMBER;
    if (is_grouped(text, end, &mark) && mark == 0)
        return TRAIN_LOOK_GROUPS;
    if (train_decimal_parse(text, end, other, &value))
        return TRAIN_LOOK_OTHER_POINT;
    if (is_date(text, end) || is_time(text, end))
        return TRAIN_LOOK_DATE;
    return has_unit(text, end) ? TRAIN_LOOK_UNIT : TRAIN_LOOK_WORD;
}

// -- the fields of a column

static bool is_day(const char *text, size_t length)
{
    unsigned part[3] = {0};
    static const size_t widths[] = {4, 2, 2};
    const char *at = text;
    if (length != 8)
        return false;
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < widths[p]; i++)
            part[p] = 10 * part[p] + (unsigned)(*at++ - '0');
    return part[0] >= 1900 && part[0] <= 2100 && part[1] >= 1 && part[1] <= 12 && part[2] >= 1 &&
           part[2] <= 31;
}

// 1.234: one to three digits that begin with no 0, the mark, three digits.
static bool may_be_thousands(const char *text, size_t length, char point)
{
    const bool has_sign = text[0] == '-' || text[0] == '+';
    const char *at = text + has_sign, *end = text + length;
    const size_t first = digits_at(at, end);
    return first >= 1 && first <= 3 && *at != '0' && (size_t)(end - at) == first + 4 && at[first] == point &&
           digits_at(at + first + 1, end) == 3;
}

static void note_number(struct train_looks *looks, const char *text, size_t length, char point)
{
    const size_t row = looks->count; // from 0
    const size_t digits = digits_at(text, text + length);
    if (digits < length) {
        looks->thousand_like += may_be_thousands(text, length, point);
        return;
    }
    looks->whole++;
    looks->too_long += digits > LONG_DIGITS;
    looks->day_like += is_day(text, length);
    if (length >= 4 && (looks->code_length == 0 || looks->code_length == length)) {
        looks->code_length = length;
        looks->code_like++;
        looks->zero_led += text[0] == '0';
    }
    uint64_t value = 0;
    for (size_t i = 0; i < length && length <= LONG_DIGITS; i++)
        value = 10 * value + (uint64_t)(text[i] - '0');
    const bool counts = length <= LONG_DIGITS && (length == 1 || text[0] != '0');
    looks->from_0 += counts && value == row;
    looks->from_1 += counts && value == row + 1;
}

void train_looks_note(struct train_looks *looks, const char *text, size_t length, size_t line, char point)
{
    const enum train_look look = train_look_of(text, length, point);
    if (looks->look[look]++ == 0) {
        looks->line[look] = line;
        looks->shown[look] = train_show(text, length);
    }
    if (look == TRAIN_LOOK_NUMBER)
        note_number(looks, text, length, point);
    looks->count++;
}

const char *train_looks_hint(enum train_look look, char point)
{
    switch (look) {
    case TRAIN_LOOK_OTHER_POINT:
        return point == ',' ? "; numbers with a decimal point need data.decimal: point"
                            : "; numbers with a decimal comma need data.decimal: comma";
    case TRAIN_LOOK_GROUPS:
        return "; write the numbers without thousands marks";
    case TRAIN_LOOK_UNIT:
        return "; write the numbers without their unit";
    case TRAIN_LOOK_DATE:
        return "; turn dates and times into numbers, such as days since the first one";
    default:
        return "";
    }
}

// -- the judgement

static enum base_error refuse(const struct train_looks *looks, enum train_look look, const char *what,
                              const char *cure, struct base_reason *why)
{
    return base_fail(why, BASE_EFORMAT, "found %s, such as \"%s\" in line %zu; %s", what,
                     looks->shown[look].text, looks->line[look], cure);
}

#define OR_NAME "or name the column in data.ignore, or in data.categorical if each value is a category"

static enum base_error judge_words(const struct train_looks *looks, const struct train_looks_column *column,
                                   char point, struct base_reason *why)
{
    const size_t *n = looks->look, words = looks->count - n[TRAIN_LOOK_NUMBER];
    const size_t numbers = n[TRAIN_LOOK_OTHER_POINT] + n[TRAIN_LOOK_GROUPS];
    if (10 * n[TRAIN_LOOK_OTHER_POINT] >= 9 * words)
        return refuse(looks, TRAIN_LOOK_OTHER_POINT,
                      point == ',' ? "numbers with a decimal point" : "numbers with a decimal comma",
                      point == ','
                          ? "expected decimal commas: set data.decimal: point, " OR_NAME
                          : "set data.decimal: comma (or, if the commas are thousands marks, write the "
                            "numbers without them), " OR_NAME,
                      why);
    if (n[TRAIN_LOOK_GROUPS] > 0 && 10 * numbers >= 9 * words)
        return refuse(looks, TRAIN_LOOK_GROUPS, "numbers with thousands marks",
                      "write them without these marks, " OR_NAME, why);
    if (10 * n[TRAIN_LOOK_DATE] >= 9 * words)
        return refuse(looks, TRAIN_LOOK_DATE, "dates or times",
                      "turn them into numbers, such as days since the first one, " OR_NAME, why);
    if (10 * n[TRAIN_LOOK_UNIT] >= 9 * words && column->distinct > FEW_UNITS)
        return refuse(looks, TRAIN_LOOK_UNIT, "numbers with a unit", "write them without it, " OR_NAME, why);
    if (looks->count < ROWS_TO_JUDGE || 2 * column->distinct <= looks->count)
        return BASE_OK;
    return base_fail(
        why, BASE_EFORMAT,
        "found %zu different words in %zu rows, expected a few that repeat: names, ids and texts "
        "teach nothing; name the column in data.ignore, or in data.categorical if each value is "
        "a category%s",
        column->distinct, looks->count,
        column->is_target ? "; data.target names another column to predict" : "");
}

static bool is_called(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

// A name of row numbers: that of a database, of pandas or R, or none.
static bool numbers_rows(const struct train_looks_column *column)
{
    static const char *const names[] = {
        "index",    "idx",           "row",       "rowname", "row_id", "rownames", "rowid", "row_number",
        "nr",       "nr.",           "no",        "no.",     "#",      "obs",      "obs.",  "nummer",
        "lfd. nr.", "num\xc3\xa9ro", "n\xc2\xb0", "numero"};
    return !column->has_name || strncasecmp(column->name, "unnamed:", 8) == 0 ||
           is_called(column->name, names, sizeof names / sizeof *names);
}

// "id", "customer_id", "PassengerId", "zip": whole numbers under such a name stand for something, and are no
// quantity.
static bool names_things(const struct train_looks_column *column)
{
    static const char *const names[] = {"id",      "uuid",         "guid",     "zip",
                                        "zipcode", "zip_code",     "postcode", "postal_code",
                                        "plz",     "postleitzahl", "phone",    "telephone"};
    const size_t length = strlen(column->name);
    const char *end = column->name + length;
    if (!column->has_name || is_called(column->name, names, sizeof names / sizeof *names))
        return column->has_name;
    if (length < 3 || strncasecmp(end - 2, "id", 2) != 0)
        return false;
    const bool is_apart = strchr("_-. ", end[-3]) != NULL,
               rises = end[-2] == 'I' && end[-3] >= 'a' && end[-3] <= 'z';
    return is_apart || rises;
}

static enum base_error judge_numbers(const struct train_looks *looks, const struct train_looks_column *column,
                                     char point, struct base_reason *why)
{
    const size_t n = looks->count;
    const enum train_look number = TRAIN_LOOK_NUMBER;
    if (column->is_target) {
        if (column->distinct <= FEW_CLASSES || 10 * column->distinct < n)
            return BASE_OK;
        return base_fail(
            why, BASE_EFORMAT,
            "found %zu different numbers in %zu rows, such as \"%s\" in line %zu, expected classes: "
            "for a quantity set model.loss: mse; for another column to predict set data.target; "
            "if they are classes, name the column in data.categorical",
            column->distinct, n, looks->shown[number].text, looks->line[number]);
    }
    if (looks->too_long > 0 && looks->whole == n)
        return refuse(looks, number, "numbers of over 15 digits, which are ids rather than quantities",
                      "name the column in data.ignore or data.categorical", why);
    if (looks->zero_led > 0 && looks->code_like == n)
        return refuse(looks, number, "whole numbers of one length, some with a 0 in front, as codes have it",
                      "name the column in data.categorical or data.ignore", why);
    if (looks->day_like == n && n >= 2)
        return refuse(looks, number, "dates without marks",
                      "turn them into numbers, such as days since the first one, or name the column in "
                      "data.ignore",
                      why);
    if (!column->may_be_ambiguous && (column->delimiter == ';' || column->delimiter == '\t') &&
        looks->thousand_like > 0 && looks->thousand_like + looks->whole == n)
        return refuse(looks, number, "numbers that may have a thousands mark or a decimal mark",
                      point == ',' ? "write them without the mark"
                                   : "set data.decimal: point if it is a decimal "
                                     "point, or write them without the mark",
                      why);
    if (n >= ROWS_TO_JUDGE && looks->whole == n && names_things(column))
        return refuse(
            looks, number, "whole numbers under a name of ids or codes",
            "name the column in data.ignore, or in data.categorical if each value is a category; if it is a "
            "quantity, give it another name",
            why);
    if (n >= ROWS_TO_JUDGE && (looks->from_0 == n || looks->from_1 == n) && numbers_rows(column))
        return refuse(
            looks, number, "the number of the row in each row",
            "name the column in data.ignore, or give it a name in a header line if it is a quantity", why);
    return BASE_OK;
}

enum base_error train_looks_judge(const struct train_looks *looks, const struct train_looks_column *column,
                                  char point, struct base_reason *why)
{
    return looks->look[TRAIN_LOOK_NUMBER] == looks->count ? judge_numbers(looks, column, point, why)
                                                          : judge_words(looks, column, point, why);
}
