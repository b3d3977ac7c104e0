// `p2pml sim`: an experiment under virtual time, from its file to its summary. Main thread.
#ifndef LAB_VIRTUAL_SIMULATE_H
#define LAB_VIRTUAL_SIMULATE_H

#include "lab/experiment/options.h"

// Returns the exit status; errors were reported on stderr.
int lab_simulate(const struct lab_run_options *options);

#endif
