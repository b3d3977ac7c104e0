// Log to stderr, one line per event: `2026-01-31T12:00:00.123Z info  node-01 link_up text`, or the same as a
// JSON object. Any thread: a line is one write(2). If nobody reads stderr, a call waits at most a second.
// Then lines are lost until stderr is read again, and the log says how many.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"
#include <stdbool.h>

enum base_log_level { BASE_LOG_DEBUG, BASE_LOG_INFO, BASE_LOG_WARN, BASE_LOG_ERROR };
enum base_log_format { BASE_LOG_TEXT, BASE_LOG_JSON };

// `node` is copied and appears in every line ("" for none). May be called while other threads write lines: a
// line of that moment may have a mixture of both names.
void base_log_configure(enum base_log_level least, enum base_log_format format, const char *node);

// Lines of this level are written: is it worth making their text?
bool base_log_writes(enum base_log_level level);

// `event` is a constant word (link_up); the rest is a human-readable sentence. Lines are cut at 1,024 bytes;
// control characters are replaced, so that nothing a peer sends can forge a line.
void base_log(enum base_log_level level, const char *event, const char *format, ...) BASE_PRINTF(3, 4);

// As base_log, with `fields` for the JSON form: ,"key":value for each, well-formed. Text lines do not contain
// them.
void base_log_fields(enum base_log_level level, const char *event, const char *fields, const char *format,
                     ...) BASE_PRINTF(4, 5);

#endif
