// Runs the nodes of a run to their end: starts them, follows and shows their metrics, reports deaths, stops
// the nodes on request. Main thread.
#ifndef LAB_PROCESSES_SUPERVISOR_H
#define LAB_PROCESSES_SUPERVISOR_H

#include "lab/record/display.h"
#include "lab/record/nodes.h"
#include "lab/term/signals.h"

struct lab_supervisor_options {
    const char *program;         // p2pml-node
    char *const *environment;    // for the nodes
    uint64_t time_limit_ns;      // 0: none
    uint64_t stop_grace_ns;      // from SIGTERM to SIGKILL
    struct lab_signals *signals; // a stop: SIGTERM to all; a second one: SIGKILL
    struct lab_display *display;
};

// BASE_EIO when a node cannot be started; the others are stopped. All processes have ended and are reaped
// when it returns. The outcome of each node is in `cluster`.
enum base_error lab_supervisor_run(const struct lab_supervisor_options *options, struct lab_cluster *cluster,
                                   struct base_reason *why) BASE_CHECK;

// The last lines of a log, for people: indented, printable, "" when there is none. `text` becomes at most
// capacity-1 bytes.
void lab_log_end(const char *path, char *text, size_t capacity);

#endif
