// `p2pml run` and `p2pml sim`: an experiment from its file to its summary. Main thread.
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "lab/experiment/options.h"

// Both return the exit status; errors were reported on stderr.
int lab_run(const struct lab_run_options *options);      // with real processes
int lab_simulate(const struct lab_run_options *options); // under virtual time

#endif
