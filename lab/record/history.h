// The rounds of one node with their times, read from its metrics.jsonl after the run. Main thread.
#ifndef LAB_RECORD_HISTORY_H
#define LAB_RECORD_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#define LAB_MARKS_MAX (1u << 24) // rounds of a node that are read

struct lab_mark {
    uint64_t round;        // done at that time
    double time, accuracy; // unix seconds; NAN: not measured in this round
};
struct lab_history {
    struct lab_mark *marks; // [count], malloc'ed, in the order of the file
    size_t count;
};

void lab_history_read(const char *path, struct lab_history *history); // empty: no such file
void lab_history_free(struct lab_history *history);

#endif
