#include "lab/model/rows.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_BYTES 64

enum end { AT_COMMA, AT_LINE, AT_FILE };
struct field {
    char text[FIELD_BYTES]; // without surrounding blanks; truncated to this size
    bool whole;             // not truncated, and without a zero byte
    enum end end;
};

static void read_field(FILE *in, struct field *field)
{
    size_t used = 0;
    int byte;
    field->whole = true;
    while ((byte = getc_unlocked(in)) != EOF && byte != ',' && byte != '\n') {
        if (used == 0 && (byte == ' ' || byte == '\t'))
            continue;
        if (used < FIELD_BYTES - 1 && byte)
            field->text[used++] = (char)byte;
        else if (!isspace(byte))
            field->whole = false;
    }
    field->end = byte == EOF ? AT_FILE : byte == ',' ? AT_COMMA : AT_LINE;
    while (used &&
           (field->text[used - 1] == ' ' || field->text[used - 1] == '\t' || field->text[used - 1] == '\r'))
        used--;
    field->text[used] = 0;
}

// Decimal only: strtod accepts more.
static bool parse(const struct field *field, double *value)
{
    char *end;
    if (!field->whole || strspn(field->text, "0123456789.eE+-") != strlen(field->text))
        return false;
    *value = strtod(field->text, &end);
    return end != field->text && !*end;
}

static enum base_error at(const struct lab_rows *rows, size_t column, struct base_reason *why)
{
    base_reason_tame(why);
    return base_fail_context(why, BASE_EFORMAT, "%s: line %zu, column %zu", rows->name, rows->line, column);
}

static enum base_error take(const struct lab_rows *rows, size_t column, const struct field *field,
                            double *value, struct base_reason *why)
{
    if (!parse(field, value)) {
        (void)base_fail(why, BASE_EFORMAT, "found %s%.40s%s, expected a number%s", field->text[0] ? "'" : "",
                        field->text[0] ? field->text : "nothing", field->text[0] ? "'" : "",
                        rows->line == 1 ? "; rows contain only numbers, without a header line" : "");
        return at(rows, column, why);
    }
    if (fabs(*value) > (double)FLT_MAX) {
        (void)base_fail(why, BASE_EFORMAT, "found '%.40s', which is too large for a 32-bit float",
                        field->text);
        return at(rows, column, why);
    }
    return BASE_OK;
}

static enum base_error check_length(const struct lab_rows *rows, size_t column, enum end end,
                                    struct base_reason *why)
{
    if (column < rows->columns && end != AT_COMMA)
        (void)base_fail(why, BASE_EFORMAT,
                        "the row ends early, expected %zu numbers, the number of the model's inputs",
                        rows->columns);
    else if (column == rows->columns && end == AT_COMMA)
        (void)base_fail(why, BASE_EFORMAT,
                        "found one more number, expected %zu, the number of the model's inputs",
                        rows->columns);
    else
        return BASE_OK;
    return at(rows, column + (end == AT_COMMA), why);
}

static bool is_end(FILE *in)
{
    int byte = getc_unlocked(in);
    if (byte != EOF)
        ungetc(byte, in);
    return byte == EOF;
}

enum base_error lab_rows_next(struct lab_rows *rows, double *values, bool *more, struct base_reason *why)
{
    enum base_error error = BASE_OK;
    *more = !is_end(rows->in);
    rows->line += *more;
    for (size_t column = 1; *more && !error && column <= rows->columns; column++) {
        struct field field;
        read_field(rows->in, &field);
        if (ferror(rows->in))
            break;
        error = take(rows, column, &field, &values[column - 1], why);
        if (!error)
            error = check_length(rows, column, field.end, why);
    }
    if (ferror(rows->in))
        return base_fail(why, BASE_EIO, "%s: cannot be read: %s", rows->name, strerror(errno));
    return error;
}
