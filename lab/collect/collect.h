// p2pml collect: the report of a running cluster, found from any one of its nodes.
#ifndef LAB_COLLECT_COLLECT_H
#define LAB_COLLECT_COLLECT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct lab_collect_options {
    const char *address; // of the page of one node: "host:port"
    const char *out;     // directory
    const char *version;
    bool fresh; // also replaces a finished result
};

// Writes the files of a run and report.html. *answered: nodes in it. BASE_EIO: no node answers at the
// address; BASE_ESTATE: the directory cannot be used. Main thread, blocking: 3 s for a node that hangs.
enum base_error lab_collect(const struct lab_collect_options *options, size_t *answered,
                            struct base_reason *why) BASE_CHECK;

#endif
