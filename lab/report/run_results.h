// The results of an experiment: the runs of a directory, grouped by their settings. Both the page and the
// pictures are made from it. One owner.
#ifndef LAB_REPORT_RUN_RESULTS_H
#define LAB_REPORT_RUN_RESULTS_H

#include "lab/report/curve.h"
#include "lab/report/record.h"

enum lab_value {
    LAB_VALUE_ACCURACY,
    LAB_VALUE_LOSS,
    LAB_VALUE_WORST,
    LAB_VALUE_MEAN,
    LAB_VALUE_BEST,
    LAB_VALUE_CONSENSUS,
    LAB_VALUE_BYTES,
    LAB_VALUE_DENSE,
    LAB_VALUE_SECONDS,
    LAB_VALUE_WALL,
    LAB_VALUE_ROUND,
    LAB_VALUE_STEP,
    LAB_VALUE_OWN_STEPS,
    LAB_VALUE_OWN_STEPS_LEAST,
    LAB_VALUE_OWN_EXAMPLES,
    LAB_VALUE_EXCHANGES,
    LAB_VALUE_DETECTED,
    LAB_VALUE_REWIRED,
    LAB_VALUE_FALSE_DEATHS,
    LAB_VALUE_WORST_LOSS,
    LAB_VALUE_RMSE, // of the averaged model; of a regression, and in the summary only
    LAB_VALUES
};
const char *lab_value_name(enum lab_value value); // the key in results.jsonl

enum lab_reach { // the cost of a target, as lab_results_costs: of the averaged model, then of the worst node
    LAB_REACH_BYTES,
    LAB_REACH_TIME,
    LAB_REACH_STEP,
    LAB_REACH_WORST_BYTES,
    LAB_REACH_WORST_TIME,
    LAB_REACH_WORST_STEP,
    LAB_REACHES
};

struct lab_target {
    double accuracy;
    size_t of;                         // runs that were to reach it
    struct lab_band cost[LAB_REACHES]; // over the runs that reached it
};

// Values that are compared seed by seed: what a seed does to all cases alike (data, first model) cancels out.
enum lab_against { LAB_AGAINST_ACCURACY, LAB_AGAINST_WORST, LAB_AGAINST };

// All runs that were to reach it have: only then its cost is compared with that of other cases.
bool lab_target_is_reached(const struct lab_target *target, enum lab_reach reach);

// The runs of one setting: its seeds.
struct lab_case {
    char *label;                 // its difference from the others, "ring, ratio 1/32"
    json_t *settings;            // as swept, less the seed; borrowed
    struct lab_record **records; // that count: complete ones, or the only one
    size_t n_records, runs;      // runs: all
    size_t ended;                // of them, complete or not: those that count for a target
    struct lab_band values[LAB_VALUES];
    struct lab_target *targets;
    size_t n_targets;
    struct lab_curve curve;
    struct lab_band against[LAB_AGAINST]; // less that of the reference, over the seeds that both have
};

struct lab_run_results {
    char *title;
    bool sweep;
    bool regression; // "accuracy" is then R2, everywhere below
    struct lab_record *records;
    size_t n_records;
    struct lab_case *cases; // in the order of results.jsonl
    size_t n_cases;
    size_t reference; // the case with the highest mean accuracy; n_cases: none
    json_t *varied;   // keys of settings that differ between cases
    json_t *shared;   // [[key, value], ...]: the settings shared by all runs
    json_t *notes;    // sentences about missing data
};

// Reads the directory of a run or of a sweep. Errors say what was found and expected; then *results is
// zeroed.
enum base_error lab_run_results_read(const char *directory, struct lab_run_results *results,
                                     struct base_reason *why) BASE_CHECK;
void lab_run_results_free(struct lab_run_results *results);

// Lists the target accuracies in accuracies[most], ascending, each once; returns their number.
size_t lab_targets_of(const struct lab_run_results *results, double *accuracies, size_t most);

// Its parts (run_results_*.c), for lab_run_results_read and for tests.
enum base_error lab_run_results_load(const char *directory, struct lab_run_results *results,
                                     struct base_reason *why) BASE_CHECK;          // title, records, notes
enum base_error lab_run_results_group(struct lab_run_results *results) BASE_CHECK; // cases and their labels
enum base_error lab_run_results_share(struct lab_run_results *results) BASE_CHECK; // shared
// reference and against.
enum base_error lab_run_results_compare(struct lab_run_results *results) BASE_CHECK;
// Values, targets, and a curve of at most `most` points.
enum base_error lab_case_measure(struct lab_case *c, size_t most) BASE_CHECK;

#endif
