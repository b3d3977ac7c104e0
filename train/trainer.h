// The training loop of one node, one local step at a time: owns the parameters, the state of the optimiser,
// the gradient and the position in the data. It does not know peers, rounds or time. One owner (the learner
// thread).
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/error.h"
#include "train/augment.h"
#include "train/dataset.h"
#include "train/model.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include <stddef.h>
#include <stdint.h>

struct train_options {
    enum train_optimizer_kind optimizer;
    double rate, momentum, weight_decay; // as far as the optimiser uses them (train_optimizer)
    double beta1, beta2, epsilon;
    struct train_schedule schedule;
    uint64_t steps; // total, for the schedule
    size_t batch;
    size_t micro_batch; // at most so many examples pass through the model at once, and their gradients are
                        // added. 0: the whole batch
    double clip_norm;   // a gradient with a larger norm, including the weight and the proximal term, is
                        // scaled down to it (Pascanu, Mikolov, Bengio 2013, algorithm 1); 0: off
    struct train_augment augment; // for images
    uint64_t seed;                // for the order of the examples and for `augment`
    double weight;                // of the gradient, > 0; 0 means 1
    bool uncorrected;             // no step uses a correction, and no vector is allocated for it
    bool holds_back;              // a vector is allocated for what the steps of a round hold back
    double l1, l2; // >= 0: the model minimises weight * loss + l1 |w| + l2/2 |w|^2, w without the bias; only
                   // for models that take rows, with sgd
    size_t blocks; // number of blocks of features, one per step; 0 and 1: all features at once. At most the
                   // number of features
    uint64_t block_seed; // for the order of the blocks: the same on all nodes
    double proximal; // mu >= 0; local steps minimise weight * loss + mu/2 |x - x_round|^2 (FedProx: Li, Sahu,
                     // Zaheer, Sanjabi, Talwalkar, Smith 2020, equation 2)
};

struct train_trainer;
struct train_vectors { // [parameters] each
    float *model, *second_moment, *correction, *held;
};

// BASE_EINVAL; the reason says what was found and what was expected.
enum base_error train_options_check(const struct train_options *options, struct base_reason *why) BASE_CHECK;

// Model and data are borrowed for the trainer's life. `start` [parameters] (host) is copied. A batch larger
// than the data set is cut to it. BASE_EINVAL for an empty data set or shapes that don't fit the model.
enum base_error train_trainer_create(const struct train_options *options, struct train_model *model,
                                     const struct train_dataset *data, const float *start,
                                     struct train_trainer **trainer, struct base_reason *why) BASE_CHECK;
// A trainer whose steps a user's program makes. It holds the vectors of that program, [parameters] each, in
// host memory and borrowed, and the number of steps. It has no data, optimiser or rate; of the functions
// below it supports steps_done, the vectors, state_vectors, cursor, seek, advance, hold_back and add_back. Of
// the vectors only the model may not be NULL. BASE_ENOMEM.
enum base_error train_trainer_hold(struct train_model *model, const struct train_vectors *vectors,
                                   struct train_trainer **trainer) BASE_CHECK;
void train_trainer_destroy(struct train_trainer *trainer);

// Between two steps: trains on `data` (borrowed like the first set) from now on, with `weight` instead of the
// option's. Model, optimiser, step and schedule continue; a new epoch begins; the batch is limited to the new
// number of examples. `data` may be the first set again. On error nothing has changed: BASE_EINVAL,
// BASE_ENOMEM.
enum base_error train_trainer_replace(struct train_trainer *trainer, const struct train_dataset *data,
                                      double weight, struct base_reason *why) BASE_CHECK;
// Between two steps: the weight of the gradient from now on, above 0.
void train_trainer_weigh(struct train_trainer *trainer, double weight);
const struct train_dataset *train_trainer_data(const struct train_trainer *trainer); // for the next step
const struct train_model *
train_trainer_of(const struct train_trainer *trainer); // the model that it was created with

// One step on the next batch: epochs are seeded shuffles of the shard, without replacement. `use_correction`:
// subtract the buffer of train_trainer_correction() outside the optimiser. *rows: the number of labels that
// the loss is a sum over: one per example or, for text, per token.
void train_trainer_step(struct train_trainer *trainer, bool use_correction, struct kernels_loss *loss,
                        size_t *rows);

// A round begins: the current model becomes x_round, towards which the proximal term pulls. Creation and seek
// begin a round, too. With proximal 0 this does nothing, and no memory is allocated.
void train_trainer_round_begin(struct train_trainer *trainer);

// With a vector of what is held back: the steps of a round are taken at x less the vector of
// train_trainer_held(), which is added again after them. Between two rounds the model is x. False: x is not
// finite.
void train_trainer_hold_back(struct train_trainer *trainer);
bool train_trainer_add_back(struct train_trainer *trainer);

// Call this after the exchange of a round: makes the pending proximal step of l1 and l2, if there is one.
// Without an exchange in between, the next step makes it.
void train_trainer_settle(struct train_trainer *trainer);
// Call this after the model was replaced: cancels the pending proximal step, which belonged to the old model.
void train_trainer_waive(struct train_trainer *trainer);
// Call this after a seek: the proximal step of the restored model is pending.
void train_trainer_unsettle(struct train_trainer *trainer);
bool train_trainer_settles(const struct train_trainer *trainer); // whether the options need these functions

uint64_t train_trainer_steps_done(const struct train_trainer *trainer);
// Learning rate of the next step: base rate x factor of the schedule x the factor of train_trainer_scale.
double train_trainer_rate(const struct train_trainer *trainer);
// Between two steps: the base rate, and the weight decay, from now on. NAN: those of its options.
void train_trainer_set_rate(struct train_trainer *trainer, double rate);
void train_trainer_set_weight_decay(struct train_trainer *trainer, double decay);
// Sets a further factor of the rate, from the next step on; initially 1. factor > 0.
void train_trainer_scale(struct train_trainer *trainer, double factor);

// The vectors, each [parameters], in host memory. On a device backend these are copies: `fetch` downloads
// model and second moment, and `store` uploads them, the correction and what is held back. On the CPU both do
// nothing.
float *train_trainer_model(struct train_trainer *trainer);
// Bytes of all vectors of the trainer, in host memory and on a device.
uint64_t train_trainer_memory(const struct train_trainer *trainer);
// Memory that is unused between two steps: the gradient, in the kernels' memory. NULL if the gradient is
// passed in pieces (train_model_give), or if a user's program trains.
void *train_trainer_scratch(const struct train_trainer *trainer, size_t *bytes);
float *train_trainer_second_moment(struct train_trainer *trainer); // the shared state of the optimiser, or
                                                                   // NULL
// Zero at start; written by the caller. NULL if uncorrected.
float *train_trainer_correction(struct train_trainer *trainer);
float *train_trainer_held(struct train_trainer *trainer); // the same; NULL without holds_back
void train_trainer_fetch(struct train_trainer *trainer);
void train_trainer_store(struct train_trainer *trainer);

// The same vectors in the kernels' memory; NULL as above. From this call on they are changed there between
// two steps: host memory holds what the latest `fetch` copied, and `advance` does not store it. (`seek` does,
// because it follows a read of a file.)
struct train_vectors train_trainer_lend(struct train_trainer *trainer);

// State for a checkpoint, in addition to the model; names as in train/optimizer.c.
struct train_state_vector {
    const char *name;
    float *values; // [parameters], host; borrowed
};
size_t train_trainer_state_vectors(struct train_trainer *trainer,
                                   struct train_state_vector vectors[TRAIN_STATES]);
// Takes over the values that were written to these vectors; no step may have been made since
// train_trainer_state_vectors.
void train_trainer_store_state(struct train_trainer *trainer);
// The position in the data, as stored in checkpoints. It always refers to the data set that the trainer was
// created with, because a resumed trainer begins with that one. While another data set is in use, the cursor
// is at the end of an epoch, and train_trainer_seek begins a new one.
struct train_cursor {
    uint64_t step, epoch, position, seed;
};
struct train_cursor train_trainer_cursor(const struct train_trainer *trainer);
// Between two rounds, after the vectors were changed: continues at `step` of the schedule. The position in
// the data stays.
void train_trainer_advance(struct train_trainer *trainer, uint64_t step);
// Call this after the model and the state vectors were filled in. BASE_EINVAL: the cursor cannot belong to
// this shard.
enum base_error train_trainer_seek(struct train_trainer *trainer,
                                   const struct train_cursor *cursor) BASE_CHECK;

#endif
