// The time of one local step of this node: the median over the latest rounds, so that a round in which the
// process was suspended changes nothing. Pure; the learner's.
#ifndef NODE_LEARN_STEP_TIME_H
#define NODE_LEARN_STEP_TIME_H

#include <stddef.h>
#include <stdint.h>

#define NODE_STEP_TIME_ROUNDS 15u

struct node_step_time {                      // zeroed: nothing is known
    uint64_t step_ns[NODE_STEP_TIME_ROUNDS]; // of the latest rounds, in a ring
    size_t count, at;
};

void node_step_time_add(struct node_step_time *step_time, uint64_t elapsed_ns,
                        uint64_t steps);                            // without steps nothing is added
uint64_t node_step_time_ns(const struct node_step_time *step_time); // at least 1; 0: not known yet

#endif
