#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Formats into a separate buffer, because an argument may point into why->text.
enum base_error base_fail_list(struct base_reason *why, enum base_error error, const char *format,
                               va_list arguments)
{
    struct base_reason text;
    if (!why)
        return error;
    if (vsnprintf(text.text, sizeof text.text, format, arguments) < 0)
        text.text[0] = 0;
    *why = text;
    return error;
}

enum base_error base_fail(struct base_reason *why, enum base_error error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    base_fail_list(why, error, format, arguments);
    va_end(arguments);
    return error;
}

enum base_error base_fail_context(struct base_reason *why, enum base_error error, const char *format, ...)
{
    if (!why)
        return error;
    struct base_reason text;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return error;
    size_t used = strlen(text.text);
    size_t old = strnlen(why->text, sizeof why->text - 1);
    const size_t most = sizeof text.text - 1;
    if (old && used + 2 < most) {
        memcpy(text.text + used, ": ", 2);
        used += 2;
        old = old < most - used ? old : most - used;
        memcpy(text.text + used, why->text, old);
        text.text[used + old] = 0;
    }
    *why = text;
    return error;
}

void base_reason_tame(struct base_reason *why)
{
    for (char *at = why ? why->text : ""; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

const char *base_error_name(enum base_error error)
{
    switch (error) {
    case BASE_OK:
        return "ok";
    case BASE_ENOMEM:
        return "out of memory";
    case BASE_EINVAL:
        return "invalid value";
    case BASE_EFORMAT:
        return "wrong format";
    case BASE_ELIMIT:
        return "over a limit";
    case BASE_EIO:
        return "input or output failed";
    case BASE_EAUTH:
        return "not authentic";
    case BASE_EMISMATCH:
        return "mismatch";
    case BASE_ENOTFOUND:
        return "not found";
    case BASE_ESTATE:
        return "not possible now";
    }
    return "unknown error";
}

_Noreturn void base_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: this is a bug in p2pml: assertion failed: %s\n", file, line, expression);
    abort();
}
