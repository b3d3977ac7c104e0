// Follows the growing metrics.jsonl of one node. A line is untrusted: one that is not a JSON object of a
// round, or longer than a limit, is counted and left out. Main thread.
#ifndef LAB_RECORD_TAIL_H
#define LAB_RECORD_TAIL_H

#include "lab/record/lines.h"

#define LAB_STATE_BYTES 24u

// The latest value of each key; NAN where no line had a number.
struct lab_row {
    uint64_t round, step, bytes_sent, bytes_received, exchanges, delta_bytes, dense_bytes;
    double time;                                       // unix seconds
    double loss, accuracy, test_loss, consensus, rmse; // accuracy: R2 of a regression, which has an rmse, too
    bool measured;                                     // the latest line has an accuracy
    bool regression;                                   // it has a key r2
    char state[LAB_STATE_BYTES];                       // of the line; printable ASCII
};

struct lab_tail {
    struct lab_lines file;
    uint64_t lines, bad;         // good ones; others
    struct lab_row row, earlier; // earlier: what processes before this one counted
};

void lab_tail_start(const char *path, struct lab_tail *tail); // copies the path; opens nothing
void lab_tail_read(struct lab_tail *tail);                    // all that is there now
// The node is about to be started again: it appends to the file, and counts from 0.
void lab_tail_again(struct lab_tail *tail);
struct lab_row lab_tail_row(const struct lab_tail *tail); // the latest, counted over all processes
void lab_tail_close(struct lab_tail *tail);

// One line without its newline into *row. False, and *row as it was: not the metrics of a round.
bool lab_row_parse(const char *line, size_t bytes, struct lab_row *row);
struct lab_row lab_row_empty(void);

#endif
