// One YAML file describes an experiment: the keys of a node, which hold for all nodes, and those of the
// section experiment.*. Keys that the runner sets for each node are not allowed there. To be called before
// threads start.
#ifndef LAB_EXPERIMENT_EXPERIMENT_H
#define LAB_EXPERIMENT_EXPERIMENT_H

#include "lab/experiment/attackers.h"
#include "lab/experiment/churn.h"
#include "node/config/config.h"

#define LAB_EXPERIMENT_NODES_MAX 10000u // with sim.vector; else LAB_NODES_MAX
#define LAB_PROCESSES_MAX        64u    // nodes of `p2pml run`
#define LAB_TARGETS_MAX          16u
#define LAB_NODE_NAME_BYTES      16u

enum lab_baseline { LAB_LONE, LAB_CENTRAL, LAB_CENTRAL_TOTAL, LAB_BASELINES };
const char *lab_baseline_name(enum lab_baseline baseline); // as in the file: "central_total"

enum lab_engine { LAB_ENGINE_AUTO, LAB_ENGINE_NODES, LAB_ENGINE_ROUNDS };
enum lab_membership { LAB_MEMBERSHIP_GOSSIP, LAB_MEMBERSHIP_KNOWN };

struct lab_experiment {
    struct node_config node; // first: the keys of a node are first in the table, with the same offsets
    struct {                 // experiment.*
        char *name;          // set by loading: never empty
        char *out;           // the same
        uint64_t nodes, seed;
        struct node_texts baselines;
        uint64_t time_limit_ns; // 0: none
        uint64_t stop_grace_ns;
        uint64_t repeats;          // seeds of every point of a sweep
        uint64_t group_size;       // nodes of a group (hierarchical); 0: no groups
        struct node_texts targets; // accuracies, "0.93"
    } experiment;
    struct {            // sim.*: virtual time only
        int engine;     // enum lab_engine
        int membership; // enum lab_membership
        uint64_t latency_ns, jitter_ns;
        double loss, bandwidth; // chance of a packet; Mbit/s of a host each way, 0: no bound
        struct node_tree links; // exceptions for single links or groups of links
        uint64_t step_time_ns;
        double step_jitter;          // relative standard deviation of one step's time
        struct node_tree stragglers; // {node: 3, factor: 5}
        uint64_t threads;            // 0: one per core
        uint64_t vector;             // 0: train; else only average Gaussian vectors of so many elements
    } sim;
    struct lab_churn churn;
    struct node_tree sweep;     // list of maps: key: [values]; those of one map vary together, maps multiply
    struct node_tree events;    // as in the file
    struct node_tree attackers; // {node: 3, kind: sign}
    struct lab_attackers hostile; // the attackers, read; set by loading
    struct lab_schedule schedule; // the events, read; set by loading
    struct lab_targets {          // the same
        double items[LAB_TARGETS_MAX];
        size_t count;
    } targets;
    struct node_schema schema; // owned: the table of both
};

struct lab_experiment_source {
    const char *path;
    const char *const *settings; // "key=value" of --set
    const char *const *origins;  // [n_settings] where each comes from, for messages; NULL: --set
    size_t n_settings;
    const char *out; // of --out; NULL: none
    char *const *environment;
};

// Reads, checks and completes an experiment. Errors name file, line and key; then *experiment is zeroed.
enum base_error lab_experiment_load(const struct lab_experiment_source *source,
                                    struct lab_experiment *experiment, struct base_reason *why) BASE_CHECK;
void lab_experiment_free(struct lab_experiment *experiment);

// Prefixes the reason with the place of the key.
enum base_error lab_experiment_at(const struct lab_experiment *experiment, const char *key,
                                  struct base_reason *why, enum base_error error);
// The same for a part of a list of maps, such as one event.
enum base_error lab_experiment_at_part(const struct lab_experiment *experiment, const char *key,
                                       const struct node_tree *part, struct base_reason *why,
                                       enum base_error error);
// The value of a key is wrong: what was found and what was expected. Returns BASE_EINVAL.
enum base_error lab_experiment_refuse(const struct lab_experiment *experiment, const char *key,
                                      struct base_reason *why, const char *format, ...) BASE_PRINTF(4, 5);

// Further checks of `p2pml run`, and of `p2pml sim`. Errors as above.
enum base_error lab_experiment_check_run(const struct lab_experiment *experiment,
                                         struct base_reason *why) BASE_CHECK;
enum base_error lab_experiment_check_sim(const struct lab_experiment *experiment,
                                         struct base_reason *why) BASE_CHECK;
// Logs the keys that were set but have no effect with `p2pml run` (virtual: false) or with
// `p2pml sim`.
void lab_experiment_warn_ignored(const struct lab_experiment *experiment, bool is_virtual);
// The engine of `p2pml sim` for it: NODES or ROUNDS.
enum lab_engine lab_experiment_engine(const struct lab_experiment *experiment);

// "node-07", "node-1023"; returns `name`.
const char *lab_node_name(size_t node, char name[LAB_NODE_NAME_BYTES]);
// The name of a node's group, "group-00" and so on, or "" without groups; returns `name`.
const char *lab_group_name(const struct lab_experiment *experiment, size_t node,
                           char name[LAB_NODE_NAME_BYTES]);

bool lab_experiment_wants(const struct lab_experiment *experiment, enum lab_baseline baseline);

// The configuration that all nodes share: seeds are shifted by experiment.seed, data.shards and the keys that
// average.method decides are filled in. A view: it borrows everything and is not to be freed; the texts of
// single nodes are set in it as pointers.
void lab_experiment_view(const struct lab_experiment *experiment, struct node_config *view);
// The same without the keys that average.method decides, for the checks.
void lab_experiment_shift_seeds(const struct lab_experiment *experiment, struct node_config *view);

// topology.file, with the names of this experiment's nodes, each of which must be in it; NULL for other
// kinds. Owned by the caller.
struct topology_graph;
enum base_error lab_experiment_graph(const struct lab_experiment *experiment, struct topology_graph **graph,
                                     struct base_reason *why) BASE_CHECK;
enum base_error lab_experiment_check_graph(const struct lab_experiment *experiment,
                                           struct base_reason *why) BASE_CHECK;

// The keys as text (--help), and the experiment as YAML, which reads back unchanged; malloc'ed, NULL: out
// of memory.
char *lab_experiment_help(void);
char *lab_experiment_write(const struct lab_experiment *experiment);

#endif
