// The runs of a sweep: every point of its lists, each with several seeds. Main thread; no processes.
#ifndef LAB_SWEEP_PLAN_H
#define LAB_SWEEP_PLAN_H

#include "lab/experiment/experiment.h"

#define LAB_SWEEP_RUNS_MAX    10000u
#define LAB_SWEEP_POINT_BYTES 140u // of file names, with the terminating zero
#define LAB_SWEEP_LABEL_BYTES 168u

// One key and its values, as texts for --set. Keys of one entry of the list advance together.
struct lab_sweep_axis {
    char *key;
    char **values;  // [count]
    char **origins; // [count] "file:line"
    size_t count;
    size_t entry;  // of the list
    size_t stride; // points from one value to the next
};
struct lab_sweep_point {
    char *text;                        // "topology.kind=ring,average.ratio=1/32", exact; "" without keys
    char label[LAB_SWEEP_POINT_BYTES]; // the same for file names; unique
    uint64_t seed;                     // experiment.seed of the first repeat
};

enum lab_sweep_state { // as in sweep.json: "waiting", "complete", "failed", "interrupted"
    LAB_SWEEP_WAITING,
    LAB_SWEEP_COMPLETE,
    LAB_SWEEP_FAILED,
    LAB_SWEEP_INTERRUPTED,
};
struct lab_sweep_run {
    char label[LAB_SWEEP_LABEL_BYTES]; // "topology.kind=ring,average.ratio=1_32,seed=0"
    size_t point;
    uint64_t seed;
    uint64_t threads; // sim.threads
    uint64_t stop_grace_ns;
    char *directory, *file, *output, *log; // OUT/runs/LABEL, .yaml, .txt, .log
    char *text;                            // the experiment of this run, as its own experiment.yaml
    enum lab_sweep_state state;
    double seconds; // it took; NAN: not run yet
};
struct lab_sweep_plan {
    struct lab_sweep_axis *axes; // in the order of the file
    size_t n_axes;
    struct lab_sweep_point *points;
    size_t n_points;
    struct lab_sweep_run *runs; // [n_points * repeats] all points with the first seed, then with the next
    size_t n_runs;
};

// Every run is loaded and checked like an experiment of its own, so that no invalid run starts. `base` was
// loaded from `source`. `simulated`: for p2pml sim, each on one thread unless set otherwise; else for p2pml
// run. Errors name file, line and key; then *plan is empty.
enum base_error lab_sweep_plan_make(const struct lab_experiment_source *source,
                                    const struct lab_experiment *base, bool simulated,
                                    struct lab_sweep_plan *plan, struct base_reason *why) BASE_CHECK;
void lab_sweep_plan_free(struct lab_sweep_plan *plan);

const char *lab_sweep_value(const struct lab_sweep_plan *plan, size_t point, size_t axis);
const char *lab_sweep_state_name(enum lab_sweep_state state);

#endif
