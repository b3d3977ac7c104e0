// p2pml why: what one round of one node was, in plain sentences.
#ifndef LAB_WHY_WHY_H
#define LAB_WHY_WHY_H

#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct lab_why_options {
    const char *source; // the directory of a node, or HOST:PORT of its pages
    bool latest;        // the latest round that has ended, not `round`
    uint64_t round;
};

// BASE_ENOTFOUND: no such node, or no line of that round; BASE_EIO; BASE_EFORMAT. Main thread.
enum base_error lab_why(const struct lab_why_options *options, FILE *out, struct base_reason *why) BASE_CHECK;

#endif
