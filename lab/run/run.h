// `p2pml run`: an experiment from its file to its summary. Main thread.
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "lab/experiment/options.h"

// Returns the exit status; errors were reported on stderr.
int lab_run(const struct lab_run_options *options);

#endif
