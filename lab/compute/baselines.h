// The baselines of a cluster: lone nodes and central runs. They train in this process with
// the code of a node, as many at a time as there are processors.
#ifndef LAB_COMPUTE_BASELINES_H
#define LAB_COMPUTE_BASELINES_H

#include "lab/compute/evaluate.h"
#include "lab/record/display.h"
#include "lab/term/signals.h"

struct lab_baseline_run {
    enum lab_baseline kind;
    size_t shard;             // of LAB_LONE
    uint64_t steps, examples; // steps to take; training examples
    struct lab_score score;
    double seconds;
    bool done;
    struct base_reason why; // of a failure; "": none
};
struct lab_baselines {
    struct lab_baseline_run runs[LAB_NODES_MAX + 2];
    size_t count;
    double seconds;
};

// Lists the baselines of the experiment, before any has run.
void lab_baselines_plan(const struct lab_experiment *experiment, struct lab_baselines *baselines);
// Runs all of them. When asked to stop (signals), it leaves unfinished runs as they are and returns
// BASE_ESTATE. Any other error is that of the first run that failed.
enum base_error lab_baselines_run(const struct lab_workbench *bench, struct lab_signals *signals,
                                  struct lab_display *display, struct lab_baselines *baselines,
                                  struct base_reason *why) BASE_CHECK;

#endif
