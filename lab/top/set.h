// Changes a setting of a running cluster through the page of one of its nodes.
#ifndef LAB_TOP_SET_H
#define LAB_TOP_SET_H

#include "base/error.h"

#include <stdint.h>

// `assignment`: "key=value". `directory`: node.dir of that node, with its token; NULL: as its page says, for
// one on this host. *answer: what the node says, malloc'ed. BASE_EINVAL: it refuses; BASE_EIO,
// BASE_ENOTFOUND: no token, no answer.
enum base_error lab_set(const char *address, const char *directory, const char *assignment, char **answer,
                        struct base_reason *why) BASE_CHECK;

// The number of the newest list of removed members that this node knows; 0: none. BASE_EIO: no answer.
enum base_error lab_set_removed(const char *address, uint64_t *number, struct base_reason *why) BASE_CHECK;

#endif
