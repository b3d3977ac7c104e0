#include "lab/record/lines.h"

#include "base/limits.h"
#include "lab/record/directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX   65536u
#define READ_BYTES 16384u

void lab_lines_start(const char *path, struct lab_lines *lines)
{
    *lines = (struct lab_lines){.path = lab_path("%s", path), .file = -1};
}

static void end_line(struct lab_lines *lines, lab_line_taker *take, void *context)
{
    const char *line = (const char *)base_buffer_head(&lines->line);
    size_t bytes = base_buffer_length(&lines->line);
    if (!lines->skipping && line && take(context, line, bytes))
        lines->good++;
    else
        lines->bad++;
    lines->skipping = false;
    base_buffer_consume(&lines->line, bytes);
}

// `at`: the position of these bytes in the file.
static void take_bytes(struct lab_lines *lines, const char *bytes, size_t count, uint64_t at,
                       lab_line_taker *take, void *context)
{
    while (count) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline ? (size_t)(newline - bytes) : count, whole = part + (newline ? 1 : 0);
        if (!lines->skipping && base_buffer_append(&lines->line, bytes, part, LINE_MAX)) {
            lines->skipping = true;
            base_buffer_consume(&lines->line, base_buffer_length(&lines->line));
        }
        bytes += whole;
        count -= whole;
        at += whole;
        if (newline) {
            lines->begin = at;
            end_line(lines, take, context);
        }
    }
}

// NAME for 0, else NAME.number. -1: missing.
static int open_part(const struct lab_lines *lines, unsigned number)
{
    char *path = number ? lab_path("%s.%u", lines->path, number) : lab_path("%s", lines->path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    return file;
}

static bool is_part(const struct lab_lines *lines, unsigned number)
{
    struct stat ours, there;
    char *path = number ? lab_path("%s.%u", lines->path, number) : lab_path("%s", lines->path);
    bool same = fstat(lines->file, &ours) == 0 && stat(path, &there) == 0 && ours.st_dev == there.st_dev &&
                ours.st_ino == there.st_ino;
    free(path);
    return same;
}

static int open_oldest(const struct lab_lines *lines)
{
    int oldest = open_part(lines, 0);
    unsigned holes = 0; // there is one while the writer renames
    for (unsigned number = 1; number <= LIMIT_LINE_FILES && holes < 2; number++) {
        int file = open_part(lines, number);
        holes = file < 0 ? holes + 1 : 0;
        if (file < 0)
            continue;
        if (oldest >= 0)
            close(oldest);
        oldest = file;
    }
    return oldest;
}

static void read_part(struct lab_lines *lines, lab_line_taker *take, void *context)
{
    char bytes[READ_BYTES];
    for (ssize_t got; (got = read(lines->file, bytes, sizeof bytes)) > 0;) {
        off_t end = lseek(lines->file, 0, SEEK_CUR);
        take_bytes(lines, bytes, (size_t)got, (uint64_t)(end - got), take, context);
    }
}

// A part that has been renamed receives no more lines: its rest is read, then the next newer one is opened.
// -1: it is the newest, or its number is unknown at this moment. Parts are renamed from the oldest on, so
// while the open part has `number`, the file opened as number - 1 is its successor.
static int open_next(const struct lab_lines *lines)
{
    struct stat ours;
    if (is_part(lines, 0))
        return -1;
    for (unsigned number = 1; number <= LIMIT_LINE_FILES; number++)
        if (is_part(lines, number)) {
            int file = open_part(lines, number - 1);
            if (file < 0 || is_part(lines, number))
                return file;
            close(file); // renamed meanwhile
            return -1;
        }
    if (fstat(lines->file, &ours) == 0 && ours.st_nlink == 0) // deleted, perhaps with some of its successors
        return open_oldest(lines);
    return -1;
}

void lab_lines_read(struct lab_lines *lines, lab_line_taker *take, void *context)
{
    if (lines->file < 0)
        lines->file = open_oldest(lines);
    if (lines->file < 0)
        return;
    for (int next;;) {
        read_part(lines, take, context);
        next = open_next(lines);
        if (next < 0)
            return;
        read_part(lines, take, context); // the lines that were written before the rename
        close(lines->file);
        lines->file = next;
        lines->begin = 0;
        lines->skipping = false;
        base_buffer_consume(&lines->line, base_buffer_length(&lines->line));
    }
}

void lab_lines_again(struct lab_lines *lines)
{
    base_buffer_consume(&lines->line, base_buffer_length(&lines->line));
    lines->skipping = false;
    if (lines->file >= 0 && lseek(lines->file, (off_t)lines->begin, SEEK_SET) < 0)
        lines->begin = 0;
}

void lab_lines_close(struct lab_lines *lines)
{
    if (lines->file >= 0)
        close(lines->file);
    free(lines->path);
    base_buffer_free(&lines->line);
    lines->file = -1;
    lines->path = NULL;
}
