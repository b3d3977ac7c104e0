// Runs the waiting runs of a sweep: starts and watches processes, watches for Ctrl-C, reports failures. Main
// thread.
#ifndef LAB_SWEEP_SWEEP_WORKERS_H
#define LAB_SWEEP_SWEEP_WORKERS_H

#include "lab/record/display.h"
#include "lab/sweep/sweep_plan.h"
#include "lab/term/signals.h"

struct lab_sweep_workers {
    const char *program;      // p2pml
    const char *command;      // "run", "sim"
    char *const *environment; // for the runs
    const char *directory;    // of the sweep
    const char *name;         // of the experiment
    size_t at_once;           // runs
    struct lab_sweep_plan *plan;
    struct lab_signals *signals; // a stop: SIGTERM to all; a second one: SIGKILL
    struct lab_display *display;
    bool interrupted; // result: by the user
};

// Runs every run that is not complete yet. Their states become complete, failed or interrupted; runs that a
// stop prevents from starting stay waiting. All processes have ended and are reaped when it returns. An error
// is one of this program, such as a full disk, and starts no more runs.
enum base_error lab_sweep_workers_work(struct lab_sweep_workers *workers, struct base_reason *why) BASE_CHECK;

#endif
