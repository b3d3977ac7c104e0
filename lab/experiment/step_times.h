// How long simulated nodes take for their local steps: sim.step_time, sim.step_jitter, sim.stragglers. A
// pure function of seed, node and round: both engines see the same times.
#ifndef LAB_EXPERIMENT_STEP_TIMES_H
#define LAB_EXPERIMENT_STEP_TIMES_H

#include "lab/experiment/experiment.h"

struct lab_paces {
    uint64_t seed;
    double step_ns, jitter;
    double *factor; // [nodes]
};

// The reason names file, line and key.
enum base_error lab_paces_of(const struct lab_experiment *experiment, struct lab_paces *paces,
                             struct base_reason *why) BASE_CHECK;
void lab_paces_free(struct lab_paces *paces);

// Of `steps` local steps of that round: at least a tenth of what it takes on average.
uint64_t lab_paces_round_ns(const struct lab_paces *paces, size_t node, uint64_t round, uint64_t steps);

#endif
