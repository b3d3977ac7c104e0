// The time of the local steps of simulated nodes: sim.step_time, sim.step_jitter, sim.stragglers. A pure
// function of seed, node and round, so that both engines use the same times.
#ifndef LAB_EXPERIMENT_STEP_TIMES_H
#define LAB_EXPERIMENT_STEP_TIMES_H

#include "lab/experiment/experiment.h"

struct lab_step_times {
    uint64_t seed;
    double step_ns, jitter;
    double *factor; // [nodes]
};

// The reason names file, line and key.
enum base_error lab_step_times_of(const struct lab_experiment *experiment, struct lab_step_times *step_times,
                                  struct base_reason *why) BASE_CHECK;
void lab_step_times_free(struct lab_step_times *step_times);

// The time of `steps` local steps in a round, at least a tenth of the average.
uint64_t lab_step_times_round_ns(const struct lab_step_times *step_times, size_t node, uint64_t round,
                                 uint64_t steps);

#endif
