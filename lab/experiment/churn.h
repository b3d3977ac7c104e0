// Nodes that go down and return repeatedly: events at rounds, drawn from a seed. Pure functions.
#ifndef LAB_EXPERIMENT_CHURN_H
#define LAB_EXPERIMENT_CHURN_H

#include "lab/experiment/events.h"

enum lab_churn_how { LAB_CHURN_KILL, LAB_CHURN_LEAVE };
struct lab_churn {
    uint64_t every;              // rounds between two departures; 0: no churn
    uint64_t back_min, back_max; // rounds until a departed node is started again
    int how;                     // enum lab_churn_how
};

// Adds these events to the schedule of `nodes` nodes that train for `rounds` rounds. Nodes that the schedule
// already names are not chosen, at least two nodes run at any time, and a node that would return after the
// last round does not leave.
enum base_error lab_churn_add(const struct lab_churn *churn, uint64_t seed, size_t nodes, uint64_t rounds,
                              struct lab_schedule *schedule, struct base_reason *why) BASE_CHECK;

#endif
