// The built-in trainer as a learner (gossip/life/learner.h): local steps of train/, outer momentum, the
// place of the proximal term, and what happens to the optimiser when the model is replaced. Daemon and
// simulator use it alike. One owner; `steps` may run in any thread while no other call runs.
#ifndef NODE_LEARN_BUILT_IN_H
#define NODE_LEARN_BUILT_IN_H

#include "gossip/life/learner.h"
#include "node/config/config.h"
#include "node/learn/step_time.h"
#include "train/trainer.h"
#include "train/watch.h"

struct node_built_in {
    bool lends; // true: the exchange works in the memory of the model's kernels, where model, second moment
                // and correction are lent, and there is no outer momentum. false: it works on copies in host
                // memory
    const struct node_config *config; // these six borrowed
    struct train_trainer *trainer;
    float *outer;       // [parameters] V, or NULL without outer momentum
    float *round_start; // [parameters] x0, likewise
    float *kept;        // [node_built_in_kept()] the last good state, or NULL: the losses are not watched
    struct gossip_blob *blob; // sent and stored with the model, or NULL
    struct node_step_time step_time;
    double loss, rate; // mean loss of the latest round that had steps, NAN before; its learning rate
    double loss_sum;   // these four: of the steps since the last boundary
    double rate_sum;
    size_t examples;
    uint64_t steps;
    uint64_t own_steps, own_examples;    // computed since begin(), whatever became of the result
    struct train_watch watch;            // of the losses of these steps
    const struct train_dataset *watched; // the examples to which its bounds belong
    uint64_t looks, looked;              // at neighbours' models; own_examples at the latest one
    uint64_t reset; // optimiser vectors that were not finite and were set to zero, so far
};

// In whose memory the first three vectors are.
const struct kernels *node_built_in_kernels(const struct node_built_in *trainee);

// At process start: sets everything except `lends` and the borrowed fields to its first value. The caller has
// filled the vectors: V with zeroes, x0 with the model, or both from a checkpoint.
void node_built_in_begin(struct node_built_in *trainee, struct gossip_learner_vectors *vectors);
void node_built_in_set(struct node_built_in *trainee, enum gossip_setting_kind kind, double value);
void node_built_in_steps(struct node_built_in *trainee, uint64_t count, double pace);
void node_built_in_boundary(struct node_built_in *trainee, struct gossip_learner_steps *did);
void node_built_in_adopt(struct node_built_in *trainee, enum gossip_learner_change change, uint64_t step);
// struct gossip_learner
struct gossip_learner_verdict node_built_in_judge(struct node_built_in *trainee, const float *model,
                                                  enum gossip_learner_offer offer);
void node_built_in_compare(struct node_built_in *trainee, const float *model, struct gossip_losses *losses);
// The trainer's state beside the vectors (momentum, moments, the place in the data) as bytes, malloc'ed; and
// back, into the same trainer. Aborts when out of memory.
size_t node_built_in_freeze(struct node_built_in *trainee, uint8_t **state);
void node_built_in_thaw(struct node_built_in *trainee, const uint8_t *state, size_t bytes);

// The length of `kept`: the model, and the second moment of a trainer that has one.
size_t node_built_in_kept(struct train_trainer *trainer);

// Updates the host's copies of the vectors, unless the vectors are lent.
void node_built_in_fetch(struct node_built_in *trainee);

// The trainee as a table of functions. `owner` of the learner is the trainee; `which` is ignored.
struct gossip_learner node_built_in_learner(struct node_built_in *trainee);

#endif
