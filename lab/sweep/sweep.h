// A sweep: many runs of one experiment, each a process of this program, as many at a time as there are cores.
// Complete runs are kept, so that the same command resumes where it was stopped. Main thread.
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include "lab/experiment/options.h"

// Whether the experiment has a sweep or repeats.
bool lab_sweep_is(const struct lab_experiment *experiment);

// `experiment` was loaded from options->source. With `fresh` everything runs again. `simulated`: by p2pml
// sim, as many runs at a time as there are cores; else by p2pml run, one by one. Returns the exit status;
// errors were reported on stderr.
int lab_sweep(const struct lab_run_options *options, const struct lab_experiment *experiment, bool simulated);

#endif
