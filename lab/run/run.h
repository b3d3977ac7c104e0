// `p2pml run`: an experiment from its file to its summary. Main thread.
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "lab/experiment.h"

enum { LAB_EXIT_DONE = 0, LAB_EXIT_FAILED = 1, LAB_EXIT_USAGE = 2, LAB_EXIT_INTERRUPTED = 130 };

struct lab_run_options {
    struct lab_experiment_source source;
    const char *version;
    bool fresh; // take a directory that is not empty
    bool check; // only read and check
};

// Returns the exit status; what went wrong was said on stderr.
int lab_run(const struct lab_run_options *options);

#endif
