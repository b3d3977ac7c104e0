// The lock-step engine of `p2pml sim`: all nodes take a round's local steps, then a method mixes the models,
// round after round, in memory. Bytes are counted and times computed; nothing is sent. It does not support
// membership, partitions and pauses; a killed node is known to be dead at once.
//
// One owner; jobs run on the pool. The result depends on the experiment only, not on the number of threads.
#ifndef LAB_METHODS_ROUNDS_H
#define LAB_METHODS_ROUNDS_H

#include "lab/compute/pool.h"
#include "lab/compute/shard_trainers.h"
#include "lab/record/recorder.h"
#include "lab/record/tail.h"

struct lab_rounds_node {
    bool gone;        // killed by an event
    uint64_t gone_ns; // virtual: when others knew
    // Counted so far. Bytes are those on the wire, all framing included; exchanges: models or deltas received
    // and used. The scores are on the test examples, at the end; NAN with sim.vector.
    struct lab_row row;
};

struct lab_rounds_result {
    size_t nodes;
    struct lab_rounds_node *node; // [nodes]
    uint64_t rounds;              // done in all
    double seconds;               // virtual, from the beginning of training to the end of the last round
    struct lab_sample last;       // the final point, as recorded
    float **models;               // [nodes], each [parameters], at the end; NULL: gone
    size_t parameters;
    uint64_t *edges; // pairs of nodes (2 * n_edges numbers, the lower first) that may meet
    size_t n_edges;
    bool interrupted;
};

struct lab_rounds_options {
    const struct lab_experiment *experiment;
    const struct lab_workbench *bench;         // NULL with sim.vector
    struct lab_shard_trainers *shard_trainers; // NULL with sim.vector
    struct lab_pool *pool;
    struct lab_recorder *recorder; // open
    // Called after each round; may be NULL. False: stop here.
    bool (*progress)(void *context, uint64_t round, uint64_t rounds, const struct lab_sample *latest);
    void *context;
};

// Checks, before anything runs, that this engine can run the experiment. BASE_EINVAL: the reason names file,
// line and key.
enum base_error lab_rounds_check(const struct lab_experiment *experiment, struct base_reason *why) BASE_CHECK;
enum base_error lab_rounds_run(const struct lab_rounds_options *options, struct lab_rounds_result *result,
                               struct base_reason *why) BASE_CHECK;
void lab_rounds_result_free(struct lab_rounds_result *result);

#endif
