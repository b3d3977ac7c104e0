// How long one local step of this node takes: the median over the latest rounds, so that a round in which the
// process stood still changes nothing. Pure; the learner's.
#ifndef NODE_LEARN_PACE_H
#define NODE_LEARN_PACE_H

#include <stddef.h>
#include <stdint.h>

#define NODE_PACE_ROUNDS 15u

struct node_pace {                      // zeroed: nothing is known
    uint64_t step_ns[NODE_PACE_ROUNDS]; // of the latest rounds, in a ring
    size_t count, at;
};

void node_pace_add(struct node_pace *pace, uint64_t elapsed_ns,
                   uint64_t steps);                  // no steps: nothing was learned
uint64_t node_pace_ns(const struct node_pace *pace); // at least 1; 0: not known yet

#endif
