// Follows a file of lines while it grows, from its oldest part on (NAME.2, NAME.1, NAME: node/store/lines.h).
// A line over a limit, or refused by its taker, is counted and skipped. Main thread.
#ifndef LAB_RECORD_LINES_H
#define LAB_RECORD_LINES_H

#include "base/buffer.h"
#include <stdbool.h>

struct lab_lines {
    char *path;
    int file;                // an open part; -1: no file yet
    struct base_buffer line; // the incomplete last line
    uint64_t begin;          // the position of that line in the file
    bool skipping;           // the rest of a line over the limit
    uint64_t good, bad;
};
typedef bool lab_line_taker(void *context, const char *line, size_t bytes); // false: the line is bad

void lab_lines_start(const char *path, struct lab_lines *lines); // copies the path; opens nothing
void lab_lines_read(struct lab_lines *lines, lab_line_taker *take, void *context); // all lines that exist now
// The writer has ended and will be restarted. It then removes a half line that it may have left, so the half
// line is forgotten here, too.
void lab_lines_again(struct lab_lines *lines);
void lab_lines_close(struct lab_lines *lines);

#endif
