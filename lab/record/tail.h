// Follows the growing metrics.jsonl of one node. Lines are untrusted: a line that is not a JSON object of a
// round, or longer than a limit, is counted and skipped. Main thread.
#ifndef LAB_RECORD_TAIL_H
#define LAB_RECORD_TAIL_H

#include "lab/record/lines.h"

#define LAB_STATE_BYTES 24u
#define LAB_NOT_COUNTED UINT64_MAX

// The latest value of each key; NAN where no line had a number.
struct lab_row {
    uint64_t round, step;             // progress: the cluster's, also with an adopted model
    uint64_t own_steps, own_examples; // own work: computed by this node. LAB_NOT_COUNTED: not known
    uint64_t bytes_sent, bytes_received, exchanges, delta_bytes, dense_bytes;
    uint64_t returns;    // to the last good model, of this process
    bool diverged;       // the loss is far above what it was
    bool merged;         // the model is that of all nodes
    double own_accuracy; // then: of this node's own final model; NAN: not measured
    double time;         // unix seconds
    double loss, accuracy, test_loss, consensus,
        rmse;                    // accuracy: of a regression R2; only a regression has an rmse
    bool measured;               // the latest line has an accuracy
    bool regression;             // it has the key r2
    char state[LAB_STATE_BYTES]; // of the line; printable ASCII
};

struct lab_tail {
    struct lab_lines file;
    uint64_t lines, bad;         // good lines; bad lines
    struct lab_row row, earlier; // earlier: the counters of earlier processes
};

void lab_tail_start(const char *path, struct lab_tail *tail); // copies the path; opens nothing
void lab_tail_read(struct lab_tail *tail);                    // all lines that exist now
// Before a restart of the node: it appends to the file, and counts from 0.
void lab_tail_again(struct lab_tail *tail);
struct lab_row lab_tail_row(const struct lab_tail *tail); // the latest, with counters over all processes
void lab_tail_close(struct lab_tail *tail);

// Reads a line without its newline into *row. False: not the metrics of a round; *row is unchanged.
bool lab_row_parse(const char *line, size_t bytes, struct lab_row *row);
struct lab_row lab_row_empty(void);

#endif
