// The training loop of one node, one local step at a time: owns the parameters, the optimiser's state, the
// gradient and the place in the data. It does not know peers, rounds or time. One owner (the learner thread).
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/error.h"
#include "train/augment.h"
#include "train/dataset.h"
#include "train/model.h"
#include "train/optimizer.h"
#include <stddef.h>
#include <stdint.h>

#define TRAIN_SCHEDULE_STEPS 8
enum train_decay { TRAIN_DECAY_STEPS, TRAIN_DECAY_COSINE };

// Piecewise constant: rate(step) = rate * factor[i], i the last with at[i] <= step / total. Or a cosine
// (Loshchilov, Hutter 2017, equation 5, without restarts): from 1 at the end of the warm-up to `floor` at the
// last step.
struct train_schedule {
    size_t count;
    double at[TRAIN_SCHEDULE_STEPS];     // fraction of the total number of steps, ascending in [0, 1]
    double factor[TRAIN_SCHEDULE_STEPS]; // of the base rate; factors do not multiply
    enum train_decay decay;
    uint64_t warmup; // steps in which the rate rises evenly from rate / (warmup + 1), whichever decay follows
    double floor;    // [0, 1], of the base rate
};

struct train_options {
    enum train_optimizer_kind optimizer;
    double rate, momentum, weight_decay; // those that it uses (train_optimizer)
    double beta1, beta2, epsilon;
    struct train_schedule schedule;
    uint64_t steps; // total, for the schedule
    size_t batch;
    size_t micro_batch; // at most so many examples of a batch at once; gradients add up. 0: the whole batch
    double clip_norm;   // a gradient with a larger norm is shortened to it (Pascanu, Mikolov, Bengio 2013,
                        // algorithm 1), the weight and the proximal term included; 0: off
    struct train_augment augment; // of images
    uint64_t seed;                // order of the examples, and draws of `augment`
    double weight;                // of the gradient, > 0; 0 stands for 1
    bool uncorrected;             // no step uses a correction: there is no vector for it
    double l1, l2; // >= 0: the model minimises weight * loss + l1 |w| + l2/2 |w|^2, w without the bias; of
                   // models that take rows, with sgd
    size_t blocks; // of features, one a step; 0 and 1: all at once. Cut to the features
    uint64_t block_seed; // of their order: the same on all nodes
    double proximal; // mu >= 0; local steps minimise weight * loss + mu/2 |x - x_round|^2 (FedProx: Li, Sahu,
                     // Zaheer, Sanjabi, Talwalkar, Smith 2020, equation 2)
};

struct train_trainer;

// BASE_EINVAL, naming what was found and what was expected.
enum base_error train_options_check(const struct train_options *options, struct base_reason *why) BASE_CHECK;

// Model and data are borrowed for the trainer's life. `start` [parameters] (host) is copied. A batch larger
// than the data set is cut to it. BASE_EINVAL for an empty data set or shapes that don't fit the model.
enum base_error train_trainer_create(const struct train_options *options, struct train_model *model,
                                     const struct train_dataset *data, const float *start,
                                     struct train_trainer **trainer, struct base_reason *why) BASE_CHECK;
// A trainer whose steps a program of the user's own takes: it holds that program's vectors, [parameters]
// each in host memory and borrowed, for code that asks a trainer for them, and the number of steps. It has
// no data, optimiser or rate; of the functions below it supports steps_done, the vectors, state_vectors,
// cursor, seek and advance. second_moment may be NULL. BASE_ENOMEM.
enum base_error train_trainer_hold(struct train_model *model, float *vector, float *second_moment,
                                   float *correction, struct train_trainer **trainer) BASE_CHECK;
void train_trainer_destroy(struct train_trainer *trainer);

// Between two steps: trains on `data` (borrowed like the first) from now on, with `weight` in the place of
// the option's. Model, optimiser, step and schedule go on; a new epoch begins; the batch that the options ask
// for is cut to the new size. `data` may be the first set again. On error nothing has changed: BASE_EINVAL,
// BASE_ENOMEM.
enum base_error train_trainer_replace(struct train_trainer *trainer, const struct train_dataset *data,
                                      double weight, struct base_reason *why) BASE_CHECK;
const struct train_dataset *train_trainer_data(const struct train_trainer *trainer); // of the next step
const struct train_model *train_trainer_of(const struct train_trainer *trainer); // the model of its creation

// One step on the next batch: epochs are seeded shuffles of the shard, without replacement.
// `use_correction`: subtract the buffer of train_trainer_correction() outside the optimiser. *rows: how many
// labels the loss is a sum over, one an example or, of text, one a token.
void train_trainer_step(struct train_trainer *trainer, bool use_correction, struct kernels_loss *loss,
                        size_t *rows);

// A round begins: the model as it is becomes x_round, which the proximal term pulls back to. Creation and
// seek begin one, too. Nothing happens with proximal 0, which needs no memory for it either.
void train_trainer_round_begin(struct train_trainer *trainer);

// A round's exchange is over: makes the proximal step of l1 and l2 that the latest step left to be made
// behind it, if it did. Where no exchange comes between, the next step makes it.
void train_trainer_settle(struct train_trainer *trainer);
// The model is another one: what the latest step left to be made was not of it.
void train_trainer_waive(struct train_trainer *trainer);
// Behind a seek: the model is as the latest step left it, before its proximal step.
void train_trainer_unsettle(struct train_trainer *trainer);
bool train_trainer_settles(const struct train_trainer *trainer); // whether that ever does anything

uint64_t train_trainer_steps_done(const struct train_trainer *trainer);
// Learning rate of the next step: base rate x factor of the schedule x the factor of train_trainer_scale.
double train_trainer_rate(const struct train_trainer *trainer);
// From the next step on; 1 at first. factor > 0.
void train_trainer_scale(struct train_trainer *trainer, double factor);

// The vectors, each [parameters], in host memory. On a device backend, `fetch` brings model and second moment
// to the host copy and `store` takes them and the correction back (no-ops on the CPU, where these are the
// vectors themselves).
float *train_trainer_model(struct train_trainer *trainer);
// Bytes of all vectors of the trainer, in host memory and on a device.
uint64_t train_trainer_memory(const struct train_trainer *trainer);
// Memory that is free between two steps: the gradient, in the kernels' memory; NULL where it is taken in
// pieces (train_model_give), and of a program of the user's own.
void *train_trainer_scratch(const struct train_trainer *trainer, size_t *bytes);
float *train_trainer_second_moment(struct train_trainer *trainer); // the optimiser's shared state, or NULL
// Zero at start; written by the caller. NULL if uncorrected.
float *train_trainer_correction(struct train_trainer *trainer);
void train_trainer_fetch(struct train_trainer *trainer);
void train_trainer_store(struct train_trainer *trainer);

// State for a checkpoint, beside the model: names as in train/optimizer.c.
struct train_state_vector {
    const char *name;
    float *values; // [parameters], host; borrowed
};
size_t train_trainer_state_vectors(struct train_trainer *trainer,
                                   struct train_state_vector vectors[TRAIN_STATES]);
// Takes back what was written into them; nothing else may have been stepped since they were asked for.
void train_trainer_store_state(struct train_trainer *trainer);
// The place in the data: written to and read from checkpoints as numbers. It always refers to the data set
// that the trainer was created with, because a resumed trainer begins with that one. While another data set
// is in use, the cursor stands at the end of an epoch, and train_trainer_seek begins a new one.
struct train_cursor {
    uint64_t step, epoch, position, seed;
};
struct train_cursor train_trainer_cursor(const struct train_trainer *trainer);
// Between two rounds, after vectors were changed: goes on at `step` of the schedule, wherever it stood. The
// place in the data stays.
void train_trainer_advance(struct train_trainer *trainer, uint64_t step);
// After the model and the state vectors were filled in. BASE_EINVAL if it can't belong to this shard.
enum base_error train_trainer_seek(struct train_trainer *trainer,
                                   const struct train_cursor *cursor) BASE_CHECK;

#endif
