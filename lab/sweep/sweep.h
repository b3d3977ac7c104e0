// A sweep: many runs of one experiment, each a process of this program, as many at a time as there are cores.
// Complete runs are kept, so that the same command resumes where it was stopped. Main thread.
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include "lab/experiment/experiment.h"

struct lab_sweep_options {
    struct lab_experiment_source source;
    bool simulated; // p2pml sim: as many at a time as there are cores; else p2pml run, one by one
    bool fresh;     // also accepts a directory that is not empty, and runs everything again
    bool check;     // only reads and checks
};

// Whether the experiment has a sweep or repeats.
bool lab_sweep_is(const struct lab_experiment *experiment);

// `experiment` was loaded from options->source. Returns the exit status; errors were reported on stderr.
int lab_sweep(const struct lab_sweep_options *options, const struct lab_experiment *experiment);

#endif
