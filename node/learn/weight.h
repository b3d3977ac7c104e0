// The weight of a node among nodes that have examples of their own. Pure.
#ifndef NODE_LEARN_WEIGHT_H
#define NODE_LEARN_WEIGHT_H

#include "base/limits.h"
#include <stddef.h>
#include <stdint.h>

// A node counts at most this many times the (lower) median, whatever it says of itself: one that lies, or has
// a thousand times more, cannot make the others' examples worthless.
#define NODE_WEIGHT_MOST 64u

struct node_weighing {
    uint32_t examples[LIMIT_MEMBERS]; // [count] of each node
    size_t count;
    uint64_t sum; // as they say
};
void node_weighing_add(struct node_weighing *weighing, uint32_t examples);
// The number of examples of a node that was added over the mean of all. Sorts the numbers; the same for the
// same set of them.
double node_weighing_result(struct node_weighing *weighing, uint32_t own);

#endif
