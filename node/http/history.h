// The curves of the page: step, round, bytes, loss and test accuracy since the process started, in at most
// NODE_HISTORY_POINTS points. When all are in use, pairs of points are merged, and later points cover twice
// the time. A point has the mean of the losses that were reported in its time, and the latest accuracy. One
// owner.
#ifndef NODE_HTTP_HISTORY_H
#define NODE_HTTP_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_HISTORY_POINTS 512u // even

struct node_history_point {
    uint64_t step, at_ns; // at its end; monotonic
    uint64_t round, bytes_sent;
    double loss, accuracy; // NAN: not measured; R2 of a regression
};

struct node_history { // initially {.lasts_ns = the time that a point covers at first}
    struct node_history_point points[NODE_HISTORY_POINTS];
    size_t count;
    uint64_t lasts_ns;
    double losses; // of the point that is not complete yet
    unsigned n_losses;
};

void node_history_note(struct node_history *history, const struct node_history_point *now);
// {"at": [s before now], "step": [...], "round": [...], "bytes_sent": [...], "loss": [...], "accuracy" or
// "r2": [...]}; malloc'ed, NULL: no memory.
char *node_history_json(const struct node_history *history, bool regression, uint64_t now_ns);

#endif
