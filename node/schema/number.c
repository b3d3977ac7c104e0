#include "node/schema/private.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_BYTES 64u // longer texts are not numbers

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_of(const char *text, size_t bytes)
{
    size_t n = 0;
    while (n < bytes && is_digit(text[n]))
        n++;
    return n;
}

bool node_schema_parse_integer(const char *text, size_t bytes, uint64_t *value)
{
    if (!bytes || digits_of(text, bytes) != bytes)
        return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

// [-] digits [. digits] [e [+-] digits]: what else strtod accepts (inf, nan, hex, blanks) is not a number
// here.
static bool is_decimal(const char *text, size_t bytes)
{
    size_t at = bytes && text[0] == '-';
    size_t whole = digits_of(text + at, bytes - at), part = 0;
    at += whole;
    if (at < bytes && text[at] == '.') {
        part = digits_of(text + at + 1, bytes - at - 1);
        at += 1 + part;
    }
    if (!whole && !part)
        return false;
    if (at == bytes || (text[at] != 'e' && text[at] != 'E'))
        return at == bytes;
    at++;
    if (at < bytes && (text[at] == '+' || text[at] == '-'))
        at++;
    return at < bytes && digits_of(text + at, bytes - at) == bytes - at;
}

// strtod and printf follow the locale of the thread, which may have a decimal comma: the C locale is used
// instead.
static double read_double(const char *text)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(text, NULL, c) : strtod(text, NULL);
    if (c)
        freelocale(c);
    return value;
}

bool node_schema_parse_real(const char *text, size_t bytes, double *value)
{
    char copy[NUMBER_BYTES];
    if (bytes >= sizeof copy)
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    char *slash = memchr(copy, '/', bytes);
    double result;
    if (slash) {
        size_t above = (size_t)(slash - copy), below = bytes - above - 1;
        if (!above || !below || digits_of(copy, above) != above || digits_of(slash + 1, below) != below)
            return false;
        *slash = 0;
        result = read_double(copy) / read_double(slash + 1);
    } else {
        if (!is_decimal(copy, bytes))
            return false;
        result = read_double(copy);
    }
    if (!isfinite(result))
        return false;
    *value = result + 0.0; // -0 becomes 0
    return true;
}

// A number in Mbit/s, or one with k, M or G and bit/s, bit or bps behind it, in any case of letters. MB/s are
// bytes, and no rate here.
bool node_schema_parse_rate(const char *text, size_t bytes, double *megabits)
{
    static const char *const ends[] = {"bit/s", "bits/s", "bps", "bit"};
    static const struct {
        char letter;
        double megabits;
    } prefixes[] = {{'k', 1e-3}, {'m', 1}, {'g', 1e3}};
    if (node_schema_parse_real(text, bytes, megabits))
        return true;
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        const size_t end = strlen(ends[e]);
        if (bytes <= end + 1 || strncasecmp(text + bytes - end, ends[e], end) != 0)
            continue;
        size_t number = bytes - end - 1;
        const char letter = text[number];
        while (number > 0 && text[number - 1] == ' ')
            number--;
        for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
            if ((letter | 32) == prefixes[p].letter && node_schema_parse_real(text, number, megabits)) {
                *megabits *= prefixes[p].megabits;
                return isfinite(*megabits);
            }
    }
    return false;
}

static const struct {
    const char *name;
    uint64_t ns;
} units[] = {{"h", 3600000000000u}, {"m", 60000000000u}, {"s", 1000000000u},
             {"ms", 1000000u},      {"us", 1000u},       {"ns", 1u}};

bool node_schema_parse_duration(const char *text, size_t bytes, uint64_t *value_ns)
{
    size_t number = digits_of(text, bytes);
    uint64_t count;
    if (!node_schema_parse_integer(text, number, &count))
        return false;
    if (number == bytes) {
        *value_ns = 0;
        return count == 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != bytes - number ||
            memcmp(units[i].name, text + number, bytes - number) != 0)
            continue;
        if (count > UINT64_MAX / units[i].ns)
            return false;
        *value_ns = count * units[i].ns;
        return true;
    }
    return false;
}

void node_schema_print_duration(uint64_t value_ns, char out[SCHEMA_REAL_BYTES])
{
    if (!value_ns) {
        snprintf(out, SCHEMA_REAL_BYTES, "0");
        return;
    }
    size_t i = 0;
    while (value_ns % units[i].ns)
        i++;
    snprintf(out, SCHEMA_REAL_BYTES, "%" PRIu64 "%s", value_ns / units[i].ns, units[i].name);
}

void node_schema_print_real(double value, char out[SCHEMA_REAL_BYTES])
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c ? uselocale(c) : (locale_t)0;
    double size = fabs(value);
    bool plain = size == 0 || (size >= 1e-7 && size < 1e15); // without an exponent, as people write it
    for (int digits = plain ? 0 : 1; digits <= 25; digits++) {
        snprintf(out, SCHEMA_REAL_BYTES, plain ? "%.*f" : "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    if (c) {
        uselocale(before);
        freelocale(c);
    }
}

uint64_t node_schema_bound(double value, uint64_t unit)
{
    double product = value * (double)unit;
    if (!(product > 0))
        return 0;
    return product >= 0x1p64 ? UINT64_MAX : (uint64_t)product;
}
