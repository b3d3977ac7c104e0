// The nodes of a run: one secret, and for each node a directory with its identity, its configuration and free
// ports in it; its process and the files that it writes. Main thread.
#ifndef LAB_RECORD_NODES_H
#define LAB_RECORD_NODES_H

#include "lab/experiment/experiment.h"
#include "lab/record/journal.h"
#include "lab/record/tail.h"
#include "lab/term/ports.h"
#include "lab/term/process.h"

enum lab_gone { LAB_HERE, LAB_KILLED, LAB_HAS_LEFT }; // by an event
struct lab_node {
    char name[LAB_NODE_NAME_BYTES];                  // "node-00"
    char *directory, *config, *log, *fault, *events; // owned paths
    uint16_t port, http_port;
    struct lab_process process;
    struct lab_tail tail;       // of its metrics.jsonl
    struct lab_journal journal; // of its events.jsonl
    enum lab_gone gone;
    unsigned starts;
    double end_time;       // unix seconds, of the latest process; NAN: it runs
    uint64_t lines_before; // of metrics when it was started
    size_t heard;          // signs of its journal that progress has shown
    bool stopped;          // by an event
    const char *attack;    // its kind (lab/attack): counts in no figure; NULL: honest
    bool untold;           // its fault file has changed since the node read it
};
struct lab_happening { // the outcome of an event
    bool begun, ended;
    const char *instead;    // why it did not happen; NULL: it did, or is pending
    double time, end_time;  // unix seconds; NAN: not begun, not ended
    uint64_t round;         // of the cluster at its beginning
    uint64_t end_round;     // and at its end, if it lasts
    struct lab_set present; // nodes that ran and were not stopped
    bool told;              // progress has shown the nodes that saw it
};
struct lab_cluster {
    struct lab_node *nodes; // [count]
    size_t count;
    struct lab_ports ports; // of processes: two for each
    struct lab_ids ids;
    const struct lab_schedule *schedule; // borrowed from the experiment
    struct lab_happening *happenings;    // [schedule->count]
    double seconds;                      // from the first start to the last end
    double train_time; // unix seconds when all nodes trained: events count from it; NAN: never
    uint64_t round;    // of the cluster: lab_cluster_round() over the nodes that train
    bool interrupted;  // by the user
    bool overtime;     // by experiment.time_limit
};

// Writes <directory>/{experiment.yaml,secret} and <directory>/node-NN/{identity,node.yaml,fault}.
enum base_error lab_cluster_prepare(const struct lab_experiment *experiment, const char *directory,
                                    struct lab_cluster *cluster, struct base_reason *why) BASE_CHECK;
// The same for simulated nodes: writes experiment.yaml and, with `files`, an empty directory for each node.
enum base_error lab_cluster_pretend(const struct lab_experiment *experiment, const char *directory,
                                    bool files, struct lab_cluster *cluster,
                                    struct base_reason *why) BASE_CHECK;
void lab_cluster_free(struct lab_cluster *cluster); // all processes have ended

double lab_unix_seconds(void);

// Starts the node's process; with --resume if it was started before; then follows the lines that it appends
// to its files.
enum base_error lab_node_start(struct lab_node *node, const char *program, char *const *environment,
                               struct base_reason *why) BASE_CHECK;
// Marks a node that has no process as ended.
void lab_node_pretend_end(struct lab_node *node, int status);
// True: it ended by itself, with status 0.
bool lab_node_ended_well(const struct lab_node *node);
// True: it ended well and is honest, so it counts in the result.
bool lab_node_counts(const struct lab_node *node);
// True: it is honest, did not end well, was not ended by an event, and no pending event starts it.
bool lab_node_failed(const struct lab_node *node);
// Writes the ids of the nodes in `cut` into the fault file of `node`, which is informed once it handles
// SIGHUP (lab_acts_tell_faults).
enum base_error lab_node_cut(const struct lab_cluster *cluster, struct lab_node *node,
                             const struct lab_set *cut, struct base_reason *why) BASE_CHECK;

#endif
