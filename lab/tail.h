// Follows the metrics.jsonl of one node while it grows. A line is untrusted: one that is no JSON object of a
// round, or longer than a limit, is counted and left out. Main thread.
#ifndef LAB_TAIL_H
#define LAB_TAIL_H

#include "base/buffer.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define LAB_STATE_BYTES 24u

// The latest of each: NAN where a line had null and none before had a number.
struct lab_row {
    uint64_t round, step, bytes_sent, bytes_received, exchanges, delta_bytes, dense_bytes;
    double loss, accuracy, test_loss, consensus;
    char state[LAB_STATE_BYTES]; // of the line; printable ASCII
};

struct lab_tail {
    char *path;
    int file;                // -1: not there yet
    struct base_buffer line; // without its end so far
    bool skipping;           // the rest of a line over the limit
    uint64_t lines, bad;     // good ones; others
    struct lab_row row;
};

void lab_tail_start(const char *path, struct lab_tail *tail); // copies the path; opens nothing
void lab_tail_read(struct lab_tail *tail);                    // all that is there now
void lab_tail_close(struct lab_tail *tail);

// One line without its newline into *row. False, and *row as it was: not the metrics of a round.
bool lab_row_parse(const char *line, size_t bytes, struct lab_row *row);
struct lab_row lab_row_empty(void);

#endif
