// The state of a sweep on disk: which runs are complete, and the list of all. Main thread.
#ifndef LAB_SWEEP_KEEP_H
#define LAB_SWEEP_KEEP_H

#include "lab/sweep/sweep_plan.h"

// True: its directory holds the summary of a complete run of exactly this experiment; *seconds: its duration
// (NAN: not in the summary).
bool lab_sweep_run_is_complete(const struct lab_sweep_run *run, double *seconds);

// Writes the file that the run is started with.
enum base_error lab_sweep_run_prepare(const struct lab_sweep_run *run, struct base_reason *why) BASE_CHECK;

// DIRECTORY/sweep.json: keys, and of each run label, settings, seed and status.
enum base_error lab_sweep_list_write(const struct lab_sweep_plan *plan, const char *directory,
                                     const char *name, struct base_reason *why) BASE_CHECK;

#endif
