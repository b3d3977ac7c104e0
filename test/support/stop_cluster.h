// A cluster of the simulator whose nodes train with the trainer of the daemon: what is left on each node of
// each round, what the trainers gave to the models, and whether an edge began again. For tests of stops.
#ifndef TEST_SUPPORT_STOP_CLUSTER_H
#define TEST_SUPPORT_STOP_CLUSTER_H

#include "lab/sim/sim_node.h"
#include "node/learn/built_in.h"

enum {
    STOP_NODES = 9,
    STOP_LOCAL = 3, // steps of a round
    STOP_ROUNDS = 600,
    STOP_FEATURES = 6,
    STOP_CLASSES = 3,
    STOP_PARAMETERS = STOP_FEATURES * STOP_CLASSES + STOP_CLASSES
};

struct stop_trainer {
    struct train_dataset data;
    struct train_model *model;
    struct node_built_in trainee;
    float outer[STOP_PARAMETERS], round_start[STOP_PARAMETERS], last[STOP_PARAMETERS];
    float before[STOP_PARAMETERS];       // its latest steps
    double unpublished[STOP_PARAMETERS]; // what it has done to its model since the latest boundary
    uint64_t hash[STOP_ROUNDS + 1];      // of its state after each round
    bool finished;
};

struct stop_cluster {
    struct sim_world world;
    struct sim_learner learner;
    struct sim_watch watch;
    struct node_config config;
    struct train_options train;
    float start[STOP_PARAMETERS];
    struct stop_trainer trainer[STOP_NODES];
    double given[STOP_PARAMETERS]; // by all trainers to the published models
    uint64_t round_ns[STOP_NODES]; // of local steps
    uint64_t slow_rounds;          // the first rounds of a process, which take 50 ms
    uint64_t resyncs;              // edges that began again
    size_t resync_host;            // the first of them
    uint64_t resync_ns;
};

// `options`: nodes, topology, exchange ...; learner, watch and steps are filled in. `train`: steps are filled
// in. The times of rounds are 2 ms until the caller sets them.
void stop_cluster_create(struct stop_cluster *cluster, const struct sim_options *options,
                         const struct train_options *train, double outer_momentum);
void stop_cluster_destroy(struct stop_cluster *cluster);

void stop_cluster_start_all(struct stop_cluster *cluster);
void stop_cluster_run(struct stop_cluster *cluster, uint64_t ns);
bool stop_cluster_runs(const struct stop_cluster *cluster); // any process
// Until all processes have ended; false: not within `ns`.
bool stop_cluster_run_out(struct stop_cluster *cluster, uint64_t ns);
bool stop_cluster_trained(const struct stop_cluster *cluster, uint64_t rounds); // all, since they started

// While no boundary is under way and no message: how far the sum of the published models is from the start
// and what the trainers gave, for each element the part of one node.
double stop_cluster_sum_error(const struct stop_cluster *cluster);
// The first round after which a node of the two clusters has another state; 0: none.
uint64_t stop_cluster_differs(const struct stop_cluster *a, const struct stop_cluster *b, size_t *host);

#endif
