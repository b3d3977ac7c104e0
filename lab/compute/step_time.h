// Measures the time of a local step on this machine, for experiments without sim.step_time.
#ifndef LAB_COMPUTE_STEP_TIME_H
#define LAB_COMPUTE_STEP_TIME_H

#include "lab/compute/evaluate.h"

// The median of 200 steps of node 0's trainer, or of as many as fit in a quarter of a second. In processor
// time of the calling thread where that thread does all the work, so that other load does not count. Rounded
// to three digits, at least 1 us. `bench` is loaded and opened. BASE_EINVAL, BASE_ENOMEM with the reason.
enum base_error lab_step_time_measure(const struct lab_workbench *bench, uint64_t *step_ns,
                                      struct base_reason *why) BASE_CHECK;

// Rounds to three digits, at least 1 us.
uint64_t lab_step_time_round(uint64_t ns);

#endif
