#include "base/log.h"
#include "base/limits.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES  1024u // newline included
#define PATIENCE_MS 1000  // with a stderr that nobody reads

#define NAME_WORDS (LIMIT_NODE_NAME_BYTES / sizeof(uint64_t))

// Atomic, because a process that opens a second node changes the settings while threads of the first one
// write lines. Without a lock, because a child that is forked while the lock is held could never take it.
static struct {
    atomic_int least, format;
    _Atomic uint64_t node[NAME_WORDS]; // zero-terminated text
} settings = {.least = BASE_LOG_INFO, .format = BASE_LOG_TEXT};
_Static_assert(LIMIT_NODE_NAME_BYTES % sizeof(uint64_t) == 0, "a name is stored as words");

static atomic_uint lost; // lines since stderr last took one

struct line {
    char bytes[LINE_BYTES];
    size_t used, most; // text stops at `most`: the end of the line needs the rest
};

void base_log_configure(enum base_log_level least, enum base_log_format format, const char *node)
{
    char name[LIMIT_NODE_NAME_BYTES] = "";
    uint64_t words[NAME_WORDS];
    snprintf(name, sizeof name, "%s", node);
    memcpy(words, name, sizeof words);
    atomic_store_explicit(&settings.least, (int)least, memory_order_relaxed);
    atomic_store_explicit(&settings.format, (int)format, memory_order_relaxed);
    for (size_t i = 0; i < NAME_WORDS; i++)
        atomic_store_explicit(&settings.node[i], words[i], memory_order_relaxed);
}

bool base_log_writes(enum base_log_level level)
{
    return (int)level >= atomic_load_explicit(&settings.least, memory_order_relaxed);
}

static void read_name(char name[LIMIT_NODE_NAME_BYTES])
{
    uint64_t words[NAME_WORDS];
    for (size_t i = 0; i < NAME_WORDS; i++)
        words[i] = atomic_load_explicit(&settings.node[i], memory_order_relaxed);
    memcpy(name, words, sizeof words);
    name[LIMIT_NODE_NAME_BYTES - 1] = 0;
}

// Length of the printable UTF-8 sequence at `text`; 0 for a control character (C0, DEL, C1) or broken bytes.
static size_t printable(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f;
    size_t more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool control = s[0] == 0xc2 && s[1] < 0xa0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool outside = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return control || overlong || outside ? 0 : more + 1;
}

static void put_raw(struct line *line, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes > line->most - line->used)
        bytes = line->most - line->used;
    memcpy(line->bytes + line->used, text, bytes);
    line->used += bytes;
}

// Puts text from any source: '?' replaces bytes that are not printable, no character is cut, and in JSON
// quotes and backslashes are escaped.
static void put_text(struct line *line, const char *text, bool json)
{
    while (*text) {
        size_t bytes = printable(text);
        bool escape = json && (*text == '"' || *text == '\\');
        if (line->used + (bytes ? bytes : 1) + escape > line->most)
            return;
        if (escape)
            line->bytes[line->used++] = '\\';
        memcpy(line->bytes + line->used, bytes ? text : "?", bytes ? bytes : 1);
        line->used += bytes ? bytes : 1;
        text += bytes ? bytes : 1;
    }
}

static void put_time(struct line *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    char seconds[32], text[48];
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%03dZ", seconds, (int)(now.tv_nsec / 1000000));
    put_raw(line, text);
}

static void put_json(struct line *line, enum base_log_level level, const char *event, const char *fields,
                     const char *message)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char node[LIMIT_NODE_NAME_BYTES];
    read_name(node);
    put_raw(line, "{\"time\":\"");
    put_time(line);
    put_raw(line, "\",\"level\":\"");
    put_raw(line, names[level]);
    if (node[0]) {
        put_raw(line, "\",\"node\":\"");
        put_text(line, node, true);
    }
    put_raw(line, "\",\"event\":\"");
    put_text(line, event, true);
    put_raw(line, "\"");
    put_raw(line, fields);
    put_raw(line, ",\"text\":\"");
    put_text(line, message, true);
    line->most = LINE_BYTES;
    put_raw(line, "\"}\n");
}

static void put_plain(struct line *line, enum base_log_level level, const char *event, const char *message)
{
    static const char *const names[] = {" debug ", " info  ", " warn  ", " error "};
    char node[LIMIT_NODE_NAME_BYTES];
    read_name(node);
    put_time(line);
    put_raw(line, names[level]);
    if (node[0]) {
        put_text(line, node, false);
        put_raw(line, " ");
    }
    put_text(line, event, false);
    if (message[0])
        put_raw(line, " ");
    put_text(line, message, false);
    line->most = LINE_BYTES;
    put_raw(line, "\n");
}

// A terminal that is stopped (Ctrl-S), or a pipe that nobody reads, must not hold up the node: after one
// wait, lines are lost until there is room again. If stderr has failed, poll returns at once, and write
// fails.
static bool has_room(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int found;
    do
        found = poll(&out, 1, atomic_load(&lost) > 0 ? 0 : PATIENCE_MS);
    while (found < 0 && errno == EINTR);
    return found != 0;
}

static void write_line(enum base_log_level level, const char *event, const char *fields, const char *format,
                       va_list arguments)
{
    int saved = errno;
    char message[LINE_BYTES];
    if (vsnprintf(message, sizeof message, format, arguments) < 0)
        message[0] = 0;
    struct line line = {.most = LINE_BYTES - sizeof "\"}\n"};
    if (atomic_load_explicit(&settings.format, memory_order_relaxed) == BASE_LOG_JSON)
        put_json(&line, level, event, fields, message);
    else
        put_plain(&line, level, event, message);
    if (!has_room()) {
        atomic_fetch_add(&lost, 1);
        errno = saved;
        return;
    }
    const unsigned count = atomic_exchange(&lost, 0);
    if (count > 0)
        base_log(BASE_LOG_WARN, "lines_lost", "%u line%s not written: nothing read from stderr", count,
                 count == 1 ? " was" : "s were");
    // One write per line, so that the lines of several threads do not mix. A line that stderr refuses is
    // lost, because it cannot be reported anywhere.
    while (write(STDERR_FILENO, line.bytes, line.used) < 0 && errno == EINTR)
        ;
    errno = saved;
}

void base_log(enum base_log_level level, const char *event, const char *format, ...)
{
    if (!base_log_writes(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(level, event, "", format, arguments);
    va_end(arguments);
}

void base_log_fields(enum base_log_level level, const char *event, const char *fields, const char *format,
                     ...)
{
    if (!base_log_writes(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(level, event, fields, format, arguments);
    va_end(arguments);
}
