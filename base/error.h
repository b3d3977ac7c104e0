// Error codes, and human-readable reasons.
//
// A function that can fail returns enum base_error and is marked BASE_CHECK. On error nothing that the caller
// can see has changed. If a person will read about the error, the function also takes a struct base_reason
// and fills it once, where the error occurs: what was found, what was expected, where, and what to do. Our
// own bugs are not errors: BASE_ASSERT stops the process, in release builds too.
//
// Any thread; no shared state.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

enum base_error {
    BASE_OK = 0,
    BASE_ENOMEM = -1,    // out of memory
    BASE_EINVAL = -2,    // an invalid argument or configuration value
    BASE_EFORMAT = -3,   // bytes that violate their format (files, packets, messages)
    BASE_ELIMIT = -4,    // well formed, but over a limit of base/limits.h or of the model's schema
    BASE_EIO = -5,       // the environment failed: files, sockets, clocks
    BASE_EAUTH = -6,     // a key, a tag or a secret that does not match
    BASE_EMISMATCH = -7, // well formed, but from another model, version or cluster
    BASE_ENOTFOUND = -8, // named, but does not exist
    BASE_ESTATE = -9,    // not possible now (a busy peer, a closed session)
};

#define BASE_CHECK           __attribute__((warn_unused_result))
#define BASE_PRINTF(fmt, va) __attribute__((format(printf, fmt, va)))

// Text of a failure; empty after success. Owned by the caller, usually on its stack. It holds several
// failures of one file as several lines.
struct base_reason {
    char text[2048];
};

// Fills *why (may be NULL) and returns `error`: `return base_fail(why, BASE_EFORMAT, "...");`
enum base_error base_fail(struct base_reason *why, enum base_error error, const char *format, ...)
    BASE_PRINTF(3, 4);
// As base_fail, with the arguments as a va_list.
enum base_error base_fail_list(struct base_reason *why, enum base_error error, const char *format,
                               va_list arguments) BASE_PRINTF(3, 0);

// Puts "context: " before the text of a reason; returns `error`.
enum base_error base_fail_context(struct base_reason *why, enum base_error error, const char *format, ...)
    BASE_PRINTF(3, 4);

// Control characters become '?', so that names from an untrusted file cannot control a terminal. NULL: does
// nothing.
void base_reason_tame(struct base_reason *why);

// A short constant name: "out of memory", "wrong format", ...
const char *base_error_name(enum base_error error);

_Noreturn void base_assert_failed(const char *expression, const char *file, int line);
#define BASE_ASSERT(expression) ((expression) ? (void)0 : base_assert_failed(#expression, __FILE__, __LINE__))

#endif
