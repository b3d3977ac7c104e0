// The table of filters and chains of them, by name.
#include "compress/filter.h"

#include <stdio.h>
#include <string.h>

#define FILTER(filter) extern const struct compress_filter filter;
#include "compress/filter_table.h"
#undef FILTER

static const struct compress_filter *const table[] = {
#define FILTER(filter) &filter,
#include "compress/filter_table.h"
#undef FILTER
};

const struct compress_filter *compress_filter_at(size_t place)
{
    return place < sizeof table / sizeof *table ? table[place] : NULL;
}

static const struct compress_filter *filter_find(const char *name)
{
    const struct compress_filter *filter = NULL;
    for (size_t i = 0; (filter = compress_filter_at(i)); i++)
        if (strcmp(filter->name, name) == 0)
            break;
    return filter;
}

static enum base_error fail_unknown(const char *name, struct base_reason *why)
{
    char known[256] = "";
    size_t length = 0;
    const struct compress_filter *filter;
    for (size_t i = 0; (filter = compress_filter_at(i)) && length < sizeof known; i++)
        length +=
            (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", filter->name);
    return base_fail(why, BASE_ENOTFOUND, "there is no filter \"%.64s\"; expected one of: %s", name, known);
}

static bool number_fits(const struct compress_filter *filter, double number)
{
    return number >= filter->least && number <= filter->most &&
           (!filter->whole || number == (double)(uint64_t)number);
}

enum base_error compress_filters_add(struct compress_filters *filters, const char *name, double number,
                                     struct base_reason *why)
{
    const struct compress_filter *filter = filter_find(name);
    if (!filter)
        return fail_unknown(name, why);
    if (!number_fits(filter, number))
        return base_fail(why, BASE_EINVAL, "filter %s: found %g, expected %s from %g to %g: %s", filter->name,
                         number, filter->whole ? "a whole number" : "a number", filter->least, filter->most,
                         filter->number);
    for (size_t i = 0; i < filters->count; i++)
        if (filters->chain[i].filter == filter)
            return base_fail(why, BASE_EINVAL, "filter %s is named twice; name it once", filter->name);
    if (filters->count == LIMIT_FILTERS)
        return base_fail(why, BASE_ELIMIT, "filter %s is one too many; expected at most %u", filter->name,
                         LIMIT_FILTERS);
    filters->chain[filters->count].filter = filter;
    filters->chain[filters->count].number = number;
    filters->count++;
    return BASE_OK;
}

// digits [. digits], at most 15 digits in all, so that the quotient of two exact numbers is the nearest
// double.
static bool number_read(const char *text, size_t length, double *number)
{
    double digits = 0, scale = 1;
    size_t n_digits = 0, n_points = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.') {
            n_points++;
        } else if (text[i] >= '0' && text[i] <= '9') {
            digits = 10 * digits + (text[i] - '0');
            scale *= n_points ? 10 : 1;
            n_digits++;
        } else {
            return false;
        }
    }
    *number = digits / scale;
    return n_digits > 0 && n_digits <= 15 && n_points <= 1;
}

static const char *blanks_skip(const char *text)
{
    return text + strspn(text, " \t");
}

static enum base_error item_add(struct compress_filters *filters, const char *item, size_t length,
                                struct base_reason *why)
{
    char name[65];
    double number;
    const char *colon = memchr(item, ':', length);
    size_t name_bytes = colon ? (size_t)(colon - item) : length;
    if (!colon || name_bytes == 0 || name_bytes >= sizeof name)
        return base_fail(why, BASE_EINVAL, "found \"%.*s\", expected filter:number, like random-skip:0.1",
                         length < 64 ? (int)length : 64, item);
    memcpy(name, item, name_bytes);
    name[name_bytes] = 0;
    const char *digits = blanks_skip(colon + 1);
    size_t n_digits = (size_t)(item + length - digits);
    if (!number_read(digits, n_digits, &number))
        return base_fail(why, BASE_EINVAL,
                         "filter %s: found \"%.*s\", expected a number like 0.1 after \":\"", name,
                         n_digits < 64 ? (int)n_digits : 64, digits);
    return compress_filters_add(filters, name, number, why);
}

double compress_filters_fresh(const struct compress_filters *filters, double ratio)
{
    for (size_t i = 0; i < filters->count; i++)
        if (filters->chain[i].filter->fresh)
            ratio *= filters->chain[i].filter->fresh(filters->chain[i].number);
    return ratio;
}

enum base_error compress_filters_parse(const char *text, struct compress_filters *filters,
                                       struct base_reason *why)
{
    struct compress_filters parsed = {0};
    text = blanks_skip(text);
    while (*text != 0) {
        size_t length = strcspn(text, ","), used = length;
        while (used > 0 && (text[used - 1] == ' ' || text[used - 1] == '\t'))
            used--;
        enum base_error error = item_add(&parsed, text, used, why);
        if (error)
            return error;
        text += length;
        if (*text == ',' && *(text = blanks_skip(text + 1)) == 0)
            return base_fail(why, BASE_EINVAL,
                             "the list of filters ends in a comma; expected another filter");
    }
    *filters = parsed;
    return BASE_OK;
}
