// Computed by the runner itself: the mean of the nodes' models, their distance from it, and its score on the
// test examples. The workbench is shared by the threads of the baselines and does not change while they run.
#ifndef LAB_COMPUTE_EVALUATE_H
#define LAB_COMPUTE_EVALUATE_H

#include "lab/record/nodes.h"
#include "train/dataset.h"
#include "train/model.h"

struct lab_score {
    double accuracy, loss; // NAN: not known; accuracy: R2 of a regression (lab_workbench_measures)
    double rmse;           // of a regression, in units of its targets
    bool regression;
};
struct lab_score lab_score_unknown(void);

struct lab_workbench {
    struct node_config view; // of the experiment: borrowed
    const struct kernels *kernels;
    struct train_dataset train, test; // all examples
    struct train_model *model;        // for the main thread
    size_t parameters;
    char description[96]; // "mlp 784-256-10"
    size_t threads;       // of baselines; 0: one per core
};

// Load the data before nodes start, so that a bad file is reported at once; open the kernels, which start
// threads, after that.
enum base_error lab_workbench_load(const struct lab_experiment *experiment, struct lab_workbench *bench,
                                   struct base_reason *why) BASE_CHECK;
enum base_error lab_workbench_open(struct lab_workbench *bench, struct base_reason *why) BASE_CHECK;
void lab_workbench_close(struct lab_workbench *bench); // also after one of the above failed

// The meaning of `accuracy`: "accuracy", or "R2" for a regression.
const char *lab_workbench_measures(const struct lab_workbench *bench);

// Measures parameters[bench->parameters], in host memory, on the test examples. `model` has their shape and
// is used by no other thread during the call.
enum base_error lab_score_model(const struct lab_workbench *bench, struct train_model *model,
                                const float *parameters, struct lab_score *score) BASE_CHECK;

// models[count], each [parameters]. The first writes their mean, rounded once, into mean[parameters]. The
// second returns the consensus distance: the RMS distance of the models to `mean` over the norm of `mean`;
// NAN where that norm is zero and the models differ.
void lab_models_mean(const float *const *models, size_t count, size_t parameters, float *mean);
double lab_models_consensus(const float *const *models, size_t count, size_t parameters, const float *mean);

struct lab_average {
    struct lab_score score;
    double consensus; // NAN for fewer than 2 models
    size_t nodes;     // nodes whose final checkpoints were read
    float *model;     // [parameters] the mean, malloc'ed; NULL: no node
};
void lab_average_free(struct lab_average *average); // only its model
// Writes it as <directory>/averaged.safetensors; nothing if it covers no node.
enum base_error lab_average_write(const struct lab_average *average, const struct lab_workbench *bench,
                                  const char *directory, struct base_reason *why) BASE_CHECK;
// Over the nodes that ended well. A checkpoint that cannot be read is reported on stderr and skipped;
// BASE_ENOMEM only.
enum base_error lab_average_nodes(const struct lab_workbench *bench, const struct lab_cluster *cluster,
                                  struct lab_average *average) BASE_CHECK;

#endif
