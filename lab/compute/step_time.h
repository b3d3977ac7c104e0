// What a local step of an experiment takes on this machine, for experiments that do not say it.
#ifndef LAB_COMPUTE_STEP_TIME_H
#define LAB_COMPUTE_STEP_TIME_H

#include "lab/compute/evaluate.h"

// The median of some hundred steps of node 0's trainer, or of those that a quarter of a second gives, in
// processor time of the calling thread where that thread makes them all, so that other load does not count.
// Rounded to three digits, at least 1 us. `bench` is loaded and opened. BASE_EINVAL, BASE_ENOMEM with the
// reason.
enum base_error lab_step_time_measure(const struct lab_workbench *bench, uint64_t *step_ns,
                                      struct base_reason *why) BASE_CHECK;

// Three digits of it, at least 1 us.
uint64_t lab_step_time_round(uint64_t ns);

#endif
