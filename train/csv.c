#include "train/csv.h"
#include "base/limits.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN 40u // characters of a field in a message

// "sep=;": a line with which spreadsheets tell each other the delimiter.
static enum base_error skip_separator(struct train_csv *csv, struct base_reason *why)
{
    const char *at = csv->at;
    if (csv->end - at < 6 || strncasecmp(at, "sep=", 4) != 0 || !strchr("\r\n", at[5]))
        return BASE_OK;
    if (at[4] != csv->delimiter)
        return base_fail(why, BASE_EINVAL,
                         "%s:1: found \"sep=%c\", expected columns with '%c' between them: set "
                         "data.delimiter",
                         csv->name, at[4], csv->delimiter);
    at += 5;
    at += *at == '\r';
    at += at < csv->end && *at == '\n';
    csv->at = at;
    csv->next_line = 2;
    return BASE_OK;
}

enum base_error train_csv_open(const struct train_bytes *text, char delimiter, struct train_csv *csv,
                               struct base_reason *why)
{
    struct train_csv opened = {.name = text->name, .delimiter = delimiter, .next_line = 1};
    const uint8_t *zero = text->bytes ? memchr(text->data, 0, text->bytes) : NULL;
    const bool is_utf16 = text->bytes > 1 && text->data[0] + text->data[1] == 0xff + 0xfe;
    if (zero)
        return base_fail(why, BASE_EFORMAT, "%s: found a zero byte at byte %zu, expected UTF-8 text%s",
                         text->name, (size_t)(zero - text->data),
                         is_utf16 ? "; convert UTF-16 with iconv -f UTF-16 -t UTF-8" : "");
    opened.at = (const char *)text->data;
    opened.end = opened.at + text->bytes;
    if (text->bytes >= 3 && memcmp(opened.at, "\xef\xbb\xbf", 3) == 0)
        opened.at += 3;
    enum base_error error = skip_separator(&opened, why);
    if (error)
        return error;
    opened.text = malloc(LIMIT_TEXT_LINE_BYTES);
    if (!opened.text)
        return base_fail(why, BASE_ENOMEM, "%s: no memory to read it", text->name);
    *csv = opened;
    return BASE_OK;
}

void train_csv_close(struct train_csv *csv)
{
    free(csv->fields);
    free(csv->text);
    *csv = (struct train_csv){0};
}

struct train_shown train_show(const char *text, size_t length)
{
    struct train_shown shown = {{0}};
    const size_t kept = length < SHOWN ? length : SHOWN;
    for (size_t i = 0; i < kept; i++)
        shown.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    if (kept < length)
        memcpy(shown.text + kept, "...", 3);
    return shown;
}

static bool is_blank(const struct train_csv *csv, char c)
{
    return (c == ' ' || c == '\t') && c != csv->delimiter;
}

// Whether a record ends here: at "\n", at "\r\n" (the last "\n" may be missing) or at the end of the text.
static bool ends_record(const struct train_csv *csv, const char *at)
{
    return at == csv->end || *at == '\n' || (*at == '\r' && at + 1 < csv->end && at[1] == '\n') ||
           (*at == '\r' && at + 1 == csv->end);
}

static enum base_error add_field(struct train_csv *csv, struct train_csv_field field, struct base_reason *why)
{
    if (csv->count == LIMIT_COLUMNS)
        return base_fail(why, BASE_ELIMIT, "%s:%zu: more than %u columns", csv->name, csv->line,
                         LIMIT_COLUMNS);
    if (csv->count == csv->capacity) {
        const size_t capacity = csv->capacity ? 2 * csv->capacity : 16;
        struct train_csv_field *grown = realloc(csv->fields, capacity * sizeof *grown);
        if (!grown)
            return base_fail(why, BASE_ENOMEM, "%s:%zu: no memory for %zu columns", csv->name, csv->line,
                             capacity);
        csv->fields = grown;
        csv->capacity = capacity;
    }
    csv->fields[csv->count++] = field;
    return BASE_OK;
}

// Reads from the opening quote on. A field that contains "" is unescaped into the text of the reader; any
// other field stays where it is.
static enum base_error read_quoted(struct train_csv *csv, const char *limit, const char **next,
                                   struct train_csv_field *field, struct base_reason *why)
{
    const char *at = csv->at + 1, *begin = at;
    char *out = csv->text + csv->used;
    bool doubled = false;
    for (;; at++) {
        if (at >= limit && limit < csv->end)
            return base_fail(why, BASE_ELIMIT,
                             "%s:%zu: column %zu: a quoted field of over %u bytes; was its quote left open?",
                             csv->name, csv->line, csv->count + 1, LIMIT_TEXT_LINE_BYTES);
        if (at >= limit)
            return base_fail(why, BASE_EFORMAT, "%s:%zu: column %zu: the quote is never closed", csv->name,
                             csv->line, csv->count + 1);
        if (*at == '"' && (at + 1 == csv->end || at[1] != '"'))
            break;
        doubled |= *at == '"';
        at += *at == '"';
        csv->next_line += *at == '\n';
        csv->text[csv->used++] = *at;
    }
    *field = doubled ? (struct train_csv_field){out, (size_t)(csv->text + csv->used - out), true}
                     : (struct train_csv_field){begin, (size_t)(at - begin), true};
    for (at++; at < csv->end && is_blank(csv, *at);)
        at++;
    if (!ends_record(csv, at) && *at != csv->delimiter)
        return base_fail(
            why, BASE_EFORMAT,
            "%s:%zu: column %zu: text after the closing quote; a quote inside a field is written twice",
            csv->name, csv->next_line, csv->count + 1);
    *next = at;
    return BASE_OK;
}

static enum base_error read_plain(struct train_csv *csv, const char *limit, const char **next,
                                  struct train_csv_field *field, struct base_reason *why)
{
    const char *at = csv->at;
    while (at < limit && *at != csv->delimiter && !ends_record(csv, at)) {
        if (*at == '"')
            return base_fail(
                why, BASE_EFORMAT,
                "%s:%zu: column %zu: a quote inside a field that does not begin with one; put the "
                "field in quotes and write this quote twice",
                csv->name, csv->line, csv->count + 1);
        at++;
    }
    const char *last = at;
    while (last > csv->at && is_blank(csv, last[-1]))
        last--;
    *field = (struct train_csv_field){csv->at, (size_t)(last - csv->at), false};
    *next = at;
    return BASE_OK;
}

// A run of blanks divides once, and those at the ends of a line do not divide.
static const char *skip_run(const struct train_csv *csv, const char *at)
{
    while (csv->delimiter == ' ' && at < csv->end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

// Reads one field and the delimiter or the line end after it; *last: it is the last field of the record.
static enum base_error read_field(struct train_csv *csv, const char *limit, bool *last,
                                  struct base_reason *why)
{
    while (csv->at < limit && is_blank(csv, *csv->at))
        csv->at++;
    csv->at = skip_run(csv, csv->at);
    const char *next = csv->at;
    struct train_csv_field field = {0};
    const bool quoted = csv->at < limit && *csv->at == '"';
    enum base_error error =
        quoted ? read_quoted(csv, limit, &next, &field, why) : read_plain(csv, limit, &next, &field, why);
    if (!error)
        error = add_field(csv, field, why);
    if (error)
        return error;
    if (next == limit && limit < csv->end)
        return base_fail(why, BASE_ELIMIT, "%s:%zu: the line is longer than %u bytes", csv->name, csv->line,
                         LIMIT_TEXT_LINE_BYTES);
    next = skip_run(csv, next);
    *last = ends_record(csv, next);
    if (!*last && csv->delimiter == ' ') {
        csv->at = next;
        return BASE_OK;
    }
    if (!*last) {
        csv->at = next + 1;
        return BASE_OK;
    }
    next += next < csv->end && *next == '\r';
    next += next < csv->end && *next == '\n';
    csv->at = next;
    csv->next_line++;
    return BASE_OK;
}

enum base_error train_csv_next(struct train_csv *csv, bool *more, struct base_reason *why)
{
    csv->count = csv->used = 0;
    csv->line = csv->next_line;
    *more = csv->at < csv->end;
    if (!*more)
        return BASE_OK;
    const size_t left = (size_t)(csv->end - csv->at);
    const char *limit = csv->at + (left < LIMIT_TEXT_LINE_BYTES ? left : LIMIT_TEXT_LINE_BYTES);
    for (bool last = false; !last;) {
        enum base_error error = read_field(csv, limit, &last, why);
        if (error)
            return error;
    }
    return BASE_OK;
}
