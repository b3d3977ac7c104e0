// The nodes of a run on disk: one secret, and for each node a directory with its configuration and free ports
// in it. Main thread.
#ifndef LAB_NODES_H
#define LAB_NODES_H

#include "lab/experiment.h"
#include "lab/process.h"
#include "lab/tail.h"

#define LAB_NODE_NAME_BYTES 16u

struct lab_node {
    char name[LAB_NODE_NAME_BYTES]; // "node-00"
    char *directory, *config, *log; // owned paths
    uint16_t port, http_port;
    struct lab_process process;
    struct lab_tail tail; // of its metrics.jsonl
};
struct lab_swarm {
    struct lab_node nodes[LAB_NODES_MOST];
    size_t count;
    double seconds;   // from the first start to the last end
    bool interrupted; // by the user
    bool overtime;    // by experiment.time_limit
};

// Writes <directory>/{experiment.yaml,secret} and <directory>/node-NN/node.yaml.
enum base_error lab_swarm_prepare(const struct lab_experiment *experiment, const char *directory,
                                  struct lab_swarm *swarm, struct base_reason *why) BASE_CHECK;
void lab_swarm_free(struct lab_swarm *swarm); // no process may run any more

#endif
