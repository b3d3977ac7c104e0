// Options of `p2pml run` and `p2pml sim`, and the exit statuses of both.
#ifndef LAB_EXPERIMENT_OPTIONS_H
#define LAB_EXPERIMENT_OPTIONS_H

#include "lab/experiment/experiment.h"

enum { LAB_EXIT_DONE = 0, LAB_EXIT_FAILED = 1, LAB_EXIT_USAGE = 2, LAB_EXIT_INTERRUPTED = 130 };

struct lab_run_options {
    struct lab_experiment_source source;
    const char *version;
    bool fresh; // also use a directory that is not empty
    bool check; // only read and check
};

#endif
