// An experiment under virtual time in one process: membership, links, exchange and rounds of every node by
// the object files of the daemon (lab/sim), real gradients by lab/compute/shard_trainers. Main thread.
#ifndef LAB_VIRTUAL_SIMULATE_NODES_H
#define LAB_VIRTUAL_SIMULATE_NODES_H

#include "lab/compute/evaluate.h"
#include "lab/compute/pool.h"
#include "lab/compute/shard_trainers.h"
#include "lab/experiment/links.h"
#include "lab/record/display.h"
#include "lab/record/recorder.h"
#include "lab/term/signals.h"

struct lab_simulate_options {
    const struct lab_experiment *experiment;
    const struct lab_workbench *bench; // loaded and opened
    const char *directory;             // exists; receives node-NN/ and rounds.jsonl
    struct lab_pool *pool;
    struct lab_signals *signals; // a stop: nodes leave in order; a second stop ends the run
    struct lab_display *display;
};

struct lab_simulated {
    struct lab_average average; // its model is the caller's, also after an error
    double virtual_seconds;     // from the first local step to the last round
    uint64_t steps;             // local steps of all nodes
};

// `cluster` is prepared (lab_cluster_pretend); its nodes, events and files are filled in. Errors: a file,
// memory.
enum base_error lab_simulate_nodes(const struct lab_simulate_options *options, struct lab_cluster *cluster,
                                   struct lab_simulated *simulated, struct base_reason *why) BASE_CHECK;

#endif
