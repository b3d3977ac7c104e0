// Nodes that leave and return repeatedly: events at rounds, drawn from a seed. Pure functions.
#ifndef LAB_EXPERIMENT_CHURN_H
#define LAB_EXPERIMENT_CHURN_H

#include "lab/experiment/events.h"

enum lab_churn_how { LAB_CHURN_KILL, LAB_CHURN_LEAVE };
struct lab_churn {
    uint64_t every;              // rounds between two that go; 0: none
    uint64_t back_min, back_max; // rounds until one is started again
    int how;                     // enum lab_churn_how
};

// Adds them to the schedule of so many nodes that train for so many rounds. Nodes that the schedule names are
// left alone, at least two run at any time, and a node that would return after the last round does not go.
enum base_error lab_churn_add(const struct lab_churn *churn, uint64_t seed, size_t nodes, uint64_t rounds,
                              struct lab_schedule *schedule, struct base_reason *why) BASE_CHECK;

#endif
