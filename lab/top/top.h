// p2pml top: a cluster in a terminal, found from any one of its nodes.
#ifndef LAB_TOP_TOP_H
#define LAB_TOP_TOP_H

#include "base/error.h"

#include <stdbool.h>

struct lab_top_options {
    const char *address; // of the pages of one node: "host:port"
    bool once;           // one table to stdout, then end
};

// Runs until the user quits, or with `once` until every node has been asked. BASE_EIO with the reason: no
// answer from the address (once), or stdin and stdout are not a terminal (otherwise). Main thread.
enum base_error lab_top(const struct lab_top_options *options, struct base_reason *why) BASE_CHECK;

#endif
