// A file of lines that grows: metrics.jsonl, events.jsonl. A line is appended with one write(2), whole or not
// at all. A file that has reached its maximum size is renamed to NAME.1, that to NAME.2 and so on, between
// two lines, and the last one is deleted. Renaming begins at the last, so that a reader that holds a file
// open finds it, and what follows it, at any moment (lab/record/lines). Owner: one thread.
#ifndef NODE_STORE_LINES_H
#define NODE_STORE_LINES_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct node_lines;

struct node_lines_bounds {
    uint64_t bytes; // of one file, give or take a line; 0: no limit
    unsigned files; // with NAME itself, 1 .. LIMIT_LINE_FILES
};

// Half a line at the end, left by a process that was killed, is cut off. `event` is a constant word, for the
// log. BASE_EIO, BASE_ENOMEM.
enum base_error node_lines_open(const char *path, const char *event, struct node_lines_bounds bounds,
                                struct node_lines **lines, struct base_reason *why) BASE_CHECK;
// `line` without its newline. BASE_EIO (such as a full disk) is logged once, and once more when lines can be
// written again, with the number of missing lines.
enum base_error node_lines_append(struct node_lines *lines, const char *line);
void node_lines_close(struct node_lines *lines); // NULL is fine

#endif
