#include "node/store/lines.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "node/store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct node_lines {
    int file;
    bool regular;
    uint64_t size; // of a regular file
    char *path;
    const char *event;
    struct node_lines_bounds bounds;
    uint64_t limit;   // size at which a new file begins
    uint64_t missing; // lines lost since writing failed; 0: writing works
};

// A node that was killed while it wrote may have left half a line: cuts it off.
static bool cut_torn_line(int file, uint64_t *size)
{
    char block[4096];
    struct stat status;
    if (fstat(file, &status))
        return false;
    off_t end = status.st_size;
    while (end > 0) {
        size_t bytes = end < (off_t)sizeof block ? (size_t)end : sizeof block;
        ssize_t got = pread(file, block, bytes, end - (off_t)bytes);
        if (got != (ssize_t)bytes)
            return false;
        const char *newline = memrchr(block, '\n', bytes);
        if (newline) {
            end -= (off_t)bytes - (newline + 1 - block);
            break;
        }
        end -= (off_t)bytes;
    }
    *size = (uint64_t)end;
    return end == status.st_size || ftruncate(file, end) == 0;
}

static enum base_error open_file(struct node_lines *lines, struct base_reason *why)
{
    struct stat status;
    BASE_ASSERT(lines->file < 0);
    int file = open(lines->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
                    NODE_FILE_MODE); // a pipe that nobody empties loses lines; training must not wait for it
    if (file < 0 || fstat(file, &status)) {
        int cause = errno;
        if (file >= 0)
            close(file);
        return base_fail(why, BASE_EIO, "cannot open '%s' to append %s: %s", lines->path, lines->event,
                         base_open_error(cause));
    }
    lines->file = file;
    lines->regular = S_ISREG(status.st_mode);
    lines->size = 0;
    if (lines->regular && !cut_torn_line(file, &lines->size))
        return base_fail(why, BASE_EIO, "cannot repair the last line of '%s': %s", lines->path,
                         strerror(errno));
    return BASE_OK;
}

enum base_error node_lines_open(const char *path, const char *event, struct node_lines_bounds bounds,
                                struct node_lines **out, struct base_reason *why)
{
    BASE_ASSERT(!bounds.bytes || (bounds.files >= 1 && bounds.files <= LIMIT_LINE_FILES));
    struct node_lines *lines = calloc(1, sizeof *lines);
    if (!lines)
        return base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    *lines = (struct node_lines){
        .file = -1, .path = strdup(path), .event = event, .bounds = bounds, .limit = bounds.bytes};
    enum base_error error =
        lines->path ? open_file(lines, why) : base_fail(why, BASE_ENOMEM, "no memory to open '%s'", path);
    if (error)
        node_lines_close(lines);
    else
        *out = lines;
    return error;
}

void node_lines_close(struct node_lines *lines)
{
    if (!lines)
        return;
    if (lines->file >= 0)
        close(lines->file);
    free(lines->path);
    free(lines);
}

// NAME for 0, else NAME.number; malloc'ed. NULL: no memory.
static char *numbered(const char *path, unsigned number)
{
    char *name = NULL;
    int used = number ? asprintf(&name, "%s.%u", path, number) : asprintf(&name, "%s", path);
    return used < 0 ? NULL : name;
}

// Renames NAME.number to the next number. Does nothing if it is missing.
static bool move_up(const char *path, unsigned number)
{
    char *from = numbered(path, number), *to = numbered(path, number + 1);
    bool done = from && to && (rename(from, to) == 0 || errno == ENOENT);
    int cause = from && to ? errno : ENOMEM;
    free(from);
    free(to);
    errno = cause;
    return done;
}

// Removes files that a larger bounds.files has left, or that are one too many.
static void remove_beyond(const struct node_lines *lines)
{
    for (unsigned number = lines->bounds.files; number <= LIMIT_LINE_FILES; number++) {
        char *name = numbered(lines->path, number);
        bool gone = name && unlink(name) != 0;
        free(name);
        if (gone)
            break;
    }
}

// Renames NAME, .1, .2 ... to the next number, from the last on; the last one is overwritten.
static bool move_all(const struct node_lines *lines)
{
    for (unsigned number = lines->bounds.files - 1; number-- > 0;)
        if (!move_up(lines->path, number))
            return false;
    return true;
}

// Begins a new file of the same name, which is made before anything is renamed. After a failure, which is
// logged, the old file stays in use.
static void change_file(struct node_lines *lines)
{
    char *fresh = NULL;
    int file =
        asprintf(&fresh, "%s.new", lines->path) < 0
            ? -1
            : open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, NODE_FILE_MODE);
    BASE_ASSERT(lines->regular && lines->bounds.bytes);
    lines->limit = lines->size + lines->bounds.bytes; // the next attempt, if this one fails
    if (file >= 0 && move_all(lines) && rename(fresh, lines->path) == 0) {
        close(lines->file);
        lines->file = file;
        lines->size = 0;
        lines->limit = lines->bounds.bytes;
        remove_beyond(lines);
    } else {
        base_log(BASE_LOG_ERROR, lines->event,
                 "'%s' has reached its maximum size, but no new file can be begun: %s", lines->path,
                 strerror(errno));
        if (file >= 0) {
            close(file);
            unlink(fresh);
        }
    }
    free(fresh);
}

static void tell_failure(struct node_lines *lines, int cause, bool cut)
{
    BASE_ASSERT(cause > 0);
    if (!lines->missing++)
        base_log(BASE_LOG_ERROR, lines->event, "cannot append to '%s': %s; training continues without it%s",
                 lines->path, strerror(cause), cut ? "" : ", and half a line stays in the file");
}

static void tell_success(struct node_lines *lines)
{
    if (lines->missing)
        base_log(BASE_LOG_INFO, lines->event, "'%s' can be written again; %" PRIu64 " lines are missing",
                 lines->path, lines->missing);
    lines->missing = 0;
}

// A file that was removed takes lines that nobody can read. Without a directory it does so until there is one
// again.
static void begin_again_if_removed(struct node_lines *lines)
{
    struct stat status;
    struct base_reason why;
    const int old = lines->file;
    if (!lines->regular || fstat(old, &status) || status.st_nlink > 0)
        return;
    lines->file = -1;
    if (open_file(lines, &why) == BASE_OK) {
        close(old);
        lines->limit = lines->bounds.bytes;
        return;
    }
    if (lines->file >= 0)
        close(lines->file);
    lines->file = old;
    lines->regular = true;
}

enum base_error node_lines_append(struct node_lines *lines, const char *line)
{
    const size_t length = strlen(line);
    union {
        const char *from;
        void *base;
    } text = {.from = line};
    char newline = '\n';
    BASE_ASSERT(!strchr(line, newline)); // it would be two lines
    begin_again_if_removed(lines);
    const struct iovec parts[] = {{text.base, length}, {&newline, 1}};
    ssize_t put;
    do
        put = writev(lines->file, parts, 2);
    while (put < 0 && errno == EINTR);
    if (put != (ssize_t)length + 1) { // a full disk may have taken a part of the line: it is cut off again
        int cause = put < 0 ? errno : ENOSPC;
        bool cut = put <= 0 || (lines->regular && ftruncate(lines->file, (off_t)lines->size) == 0);
        if (!cut)
            lines->size += (uint64_t)put;
        tell_failure(lines, cause, cut);
        return BASE_EIO;
    }
    tell_success(lines);
    lines->size += (uint64_t)put;
    if (lines->regular && lines->bounds.bytes && lines->size >= lines->limit)
        change_file(lines);
    return BASE_OK;
}
