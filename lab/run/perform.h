// The steps of a run that do not depend on whether its nodes are processes or simulated. Private to lab/run.
#ifndef LAB_RUN_PERFORM_H
#define LAB_RUN_PERFORM_H

#include "lab/methods/rounds.h"
#include "lab/record/directory.h"
#include "lab/run/run.h"
#include "lab/summary/summary.h"

#define RUN_PATH_BYTES 4096u

struct run_kind;
struct run {
    const struct lab_run_options *options;
    const struct run_kind *kind;
    struct lab_experiment experiment;
    struct lab_directory directory;
    struct lab_cluster cluster;
    struct lab_workbench bench;
    struct lab_baselines baselines;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_summary summary;
    bool interrupted, failed;
    bool has_nodes;                  // which took their steps one by one, and have files
    char program[RUN_PATH_BYTES];    // of processes: p2pml-node
    struct lab_pool *pool;           // this and the following: of a simulation
    struct lab_rounds_result rounds; // of the rounds engine; the summary borrows its edges
};

// Each step reports its error in *why.
struct run_kind {
    const char *command; // "run", "sim"
    bool simulated;
    enum base_error (*check)(const struct lab_experiment *experiment, struct base_reason *why);
    enum base_error (*load)(struct run *run, struct base_reason *why);  // before the directory is opened
    enum base_error (*train)(struct run *run, struct base_reason *why); // all nodes, to their end
    // Averages the final models; NULL: `train` has done it.
    enum base_error (*average)(struct run *run, struct base_reason *why);
    // Fills in the part of the summary that only this kind knows. `points`: path of rounds.jsonl.
    enum base_error (*sum_up)(struct run *run, const char *points, struct base_reason *why);
};

int run_perform(const struct run_kind *kind, const struct lab_run_options *options); // the exit status

#endif
