// Follows a file of lines while it grows, from its oldest part on (NAME.2, NAME.1, NAME: node/store/lines.h).
// A line that is over a limit or that its taker refuses is counted and left out. Main thread.
#ifndef LAB_RECORD_LINES_H
#define LAB_RECORD_LINES_H

#include "base/buffer.h"
#include <stdbool.h>

struct lab_lines {
    char *path;
    int file;                // -1: not there yet; one of the parts
    struct base_buffer line; // without its end so far
    uint64_t begin;          // where that line begins in the file
    bool skipping;           // the rest of a line over the limit
    uint64_t good, bad;
};
typedef bool lab_line_taker(void *context, const char *line, size_t bytes); // false: the line is bad

void lab_lines_start(const char *path, struct lab_lines *lines); // copies the path; opens nothing
void lab_lines_read(struct lab_lines *lines, lab_line_taker *take, void *context); // all that is there now
// The writer has ended and is about to be started again. It then cuts off the half line that it may have
// left, so that is forgotten here.
void lab_lines_again(struct lab_lines *lines);
void lab_lines_close(struct lab_lines *lines);

#endif
