#include "lab/record/lines.h"

#include "lab/record/directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

// `at`: where these bytes stand in the file.
static void take_bytes(struct lab_lines *lines, const char *bytes, size_t count, uint64_t at,
                       lab_line_taker *take, void *context)
{
    while (count) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline ? (size_t)(newline - bytes) : count, whole = part + (newline ? 1 : 0);
        if (!lines->skipping && base_buffer_append(&lines->line, bytes, part, LINE_MAX) != BASE_OK) {
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

void lab_lines_read(struct lab_lines *lines, lab_line_taker *take, void *context)
{
    char bytes[READ_BYTES];
    if (lines->file < 0)
        lines->file = open(lines->path, O_RDONLY | O_CLOEXEC);
    if (lines->file < 0)
        return;
    for (ssize_t got; (got = read(lines->file, bytes, sizeof bytes)) > 0;) {
        off_t end = lseek(lines->file, 0, SEEK_CUR);
        take_bytes(lines, bytes, (size_t)got, (uint64_t)(end - got), take, context);
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
