#include "node/schema/private.h"

#include <string.h>

// Shortest form only, no surrogates, at most U+10FFFF (RFC 3629).
size_t node_schema_code_point(const char *text, size_t bytes, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    if (!bytes)
        return 0;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (length > bytes)
        return 0;
    uint32_t value = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (s[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return length;
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

size_t node_schema_bad_byte(const char *text, size_t bytes, const char *allowed)
{
    size_t at = 0;
    while (at < bytes) {
        uint32_t code = 0;
        size_t length = node_schema_code_point(text + at, bytes - at, &code);
        if (!length || code == 0xfffe || code == 0xffff)
            return at;
        if (is_control(code) && (code == 0 || code >= 0x80 || !strchr(allowed, (int)code)))
            return at;
        at += length;
    }
    return bytes;
}

void node_schema_found(const char *text, size_t bytes, char out[SCHEMA_FOUND_BYTES])
{
    static const char more[] = "...";
    size_t used = 0, at = 0;
    out[used++] = '"';
    while (at < bytes) {
        uint32_t code = 0;
        size_t length = node_schema_code_point(text + at, bytes - at, &code);
        bool printable = length && node_schema_bad_byte(text + at, length, "") == length;
        size_t put = printable ? length : 1;
        if (used + put + sizeof more + 1 > SCHEMA_FOUND_BYTES)
            break;
        memcpy(out + used, printable ? text + at : "?", put);
        used += put;
        at += length ? length : 1;
    }
    snprintf(out + used, SCHEMA_FOUND_BYTES - used, "%s\"", at < bytes ? more : "");
}
