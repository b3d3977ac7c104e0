// Runs an experiment in the lock-step engine (lab/methods) and returns its result in the form of any other
// run. Main thread.
#ifndef LAB_VIRTUAL_SIMULATE_ROUNDS_H
#define LAB_VIRTUAL_SIMULATE_ROUNDS_H

#include "lab/methods/rounds.h"
#include "lab/virtual/simulate_nodes.h"

// `cluster` is prepared (lab_cluster_pretend, without files). With sim.vector the bench holds a view and the
// parameters only. *result holds data of the summary: free it after the summary is written, also after an
// error.
enum base_error lab_simulate_rounds(const struct lab_simulate_options *options, struct lab_cluster *cluster,
                                    struct lab_simulated *simulated, struct lab_rounds_result *result,
                                    struct base_reason *why) BASE_CHECK;

#endif
