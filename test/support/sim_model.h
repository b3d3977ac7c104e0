// A small real learning problem, divided so that no two nodes see the same data: softmax regression with
// weight decay on Gaussian classes; each node has mostly two of them. It is convex, so that the best model is
// known.
#ifndef TEST_SUPPORT_SIM_MODEL_H
#define TEST_SUPPORT_SIM_MODEL_H

#include "base/rng.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_CLASSES = 4,
    SIM_FEATURES = 5, // and a constant
    SIM_PARAMETERS = SIM_CLASSES * (SIM_FEATURES + 1),
    SIM_EXAMPLES = 32, // of each node
    SIM_BATCH = 8,
};

struct sim_shard {
    float feature[SIM_EXAMPLES][SIM_FEATURES + 1];
    uint8_t label[SIM_EXAMPLES];
};

struct sim_model {
    size_t shards;
    struct sim_shard *shard;
};

void sim_model_create(struct sim_model *model, size_t shards, uint64_t seed);
void sim_model_destroy(struct sim_model *model);

// x -= rate * (gradient on a random batch of the shard - correction); correction may be NULL.
void sim_model_step(const struct sim_model *model, size_t shard, struct base_rng *rng, float rate,
                    const float *correction, float *x);
// Mean over the shards for which `in` is true.
double sim_model_loss(const struct sim_model *model, const bool *in, const float *x);
double sim_model_best(const struct sim_model *model, const bool *in, float *x); // its loss; x: the best model

#endif
