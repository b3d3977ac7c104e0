// The result of a run: summary.json for programs, a table for people.
#ifndef LAB_SUMMARY_H
#define LAB_SUMMARY_H

#include "lab/compute/baselines.h"
#include "lab/record/recorder.h"
#include "lab/summary/goodput.h"
#include "lab/summary/outcome.h"

struct lab_summary {
    const struct lab_experiment *experiment; // all borrowed
    const struct lab_cluster *cluster;
    const struct lab_workbench *bench;
    const struct lab_baselines *baselines;
    const struct lab_history *histories; // [cluster->count]
    struct lab_average average;
    const char *file, *directory, *version;
    const char *status;        // "complete", "incomplete", "interrupted", "failed"
    bool unwritten;            // summary.json could not be written
    char *shortfall;           // own work that is missing: "node-03 took 0 of 1,000 steps"; else NULL
    char *trouble;             // "node-03 has diverged", "node-01 ended with exit status 1"; else NULL
    char *unmerged;            // "node-01 keeps its own model", although all were to hold one; else NULL
    char *unlearned;           // the averaged model is no better than one that knows nothing; else NULL
    double time, seconds;      // unix seconds of the start; total duration
    const char *kind, *engine; // "run", "sim"; "nodes", "rounds", NULL with run
    double virtual_seconds;    // from the first local step to the last round: virtual with sim, else real
    uint64_t steps;            // local steps that all nodes have computed
    size_t threads;            // that took the steps; with run: processes
    const uint64_t *edges;     // [2 * n_edges] pairs that may meet; NULL: those of the plan of all nodes
    size_t n_edges;
    const char *points; // path of rounds.jsonl
};

// Computed from the nodes' rows: scores over the nodes that ended well, sums over all nodes.
struct lab_totals {
    struct lab_score worst, mean, best; // nodes by accuracy; NAN without any
    size_t nodes;                       // nodes that ended well and measured their accuracy
    uint64_t own_steps;                 // computed by all nodes
    uint64_t bytes_sent, bytes_received, delta_bytes, dense_bytes, exchanges;
    double times_less; // dense / sent; NAN when nothing was sent
};
double lab_summary_ratio(const struct lab_summary *summary); // the part of the values that an exchange sends
void lab_totals_of(const struct lab_cluster *cluster, struct lab_totals *totals);

// Over the lone runs that have finished; NAN: none has.
struct lab_spread {
    struct lab_score worst, mean, best;
    size_t runs;
};
void lab_lone_spread(const struct lab_baselines *baselines, struct lab_spread *spread);
const struct lab_baseline_run *lab_baseline_find(const struct lab_baselines *baselines,
                                                 enum lab_baseline kind); // NULL: not planned

enum base_error lab_summary_write(const struct lab_summary *summary, const char *path,
                                  struct base_reason *why) BASE_CHECK;
void lab_summary_print(const struct lab_summary *summary, FILE *out); // text.c
// The effects of the events, in sentences; nothing without events.
// `measure`: "accuracy" or "R2" (lab_workbench_measures).
void lab_events_print(const struct lab_cluster *cluster, const struct lab_history *histories,
                      const char *measure, FILE *out);

// The settings sim.* of the run: "engine nodes, latency 200us, ..."; "" with real processes. malloc'ed; NULL:
// out of memory.
char *lab_simulated_text(const struct lab_summary *summary);
#define LAB_SEEDS_BYTES 160
// The seeds that were used: "experiment 0; model 1, data 1, train 1, topology 1".
void lab_seeds_text(const struct lab_summary *summary, char text[LAB_SEEDS_BYTES]);
// Nodes that have computed fewer steps than train.steps, or made nearly no exchange, although no event of
// theirs explains it: "node-03 took 0 of 1,000 steps, node-05 16, node-06 made 0 exchanges". malloc'ed; NULL:
// there is none.
char *lab_shortfall_text(const struct lab_cluster *cluster, const struct node_config *config);
// Nodes that ended with another status than 0, or with a loss far above what it was. malloc'ed; NULL: none.
char *lab_trouble_text(const struct lab_cluster *cluster);
// Nodes that keep a model of their own, if the final models were to be merged but differ (`consensus`).
// malloc'ed; NULL: none, or they are too many to be merged.
char *lab_unmerged_text(const struct lab_cluster *cluster, const struct node_config *config,
                        double consensus);
// The averaged model's loss is that of a model that knows nothing, or worse. malloc'ed; NULL: it is not.
char *lab_unlearned_text(const struct lab_workbench *bench, const struct lab_score *averaged);
// Whether nodes that were configured to average have not exchanged a byte, so that each trained alone.
bool lab_never_met(const struct lab_summary *summary);

// When a target was first reached: the first point of rounds.jsonl.
struct lab_reached {
    struct lab_sample averaged, worst; // accuracy NAN: never
};
void lab_targets_find(const char *points, const struct lab_targets *targets,
                      struct lab_reached reached[LAB_TARGETS_MAX]);

// Names of the configuration's choices.
const char *lab_choice_name(const char *key, int index, char *text, size_t capacity);
// "digits, dirichlet 0.1"
void lab_data_describe(const struct node_config *config, char *text, size_t capacity);

#endif
