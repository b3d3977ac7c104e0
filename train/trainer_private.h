// The trainer's state. Private to trainer.c, which trains, and trainer_create.c, which makes and frees it.
#ifndef TRAIN_TRAINER_PRIVATE_H
#define TRAIN_TRAINER_PRIVATE_H

#include "train/feed.h"
#include "train/settle.h"
#include "train/trainer.h"

// A vector in the kernels' memory and its copy in host memory; identical if the kernels share host memory.
struct trainer_vector {
    float *device, *host;
};

struct train_trainer {
    struct train_options options;
    struct {
        double rate, weight_decay;
    } begun; // with these options
    struct train_model *model;
    const struct kernels *kernels;
    const struct train_dataset *home; // the data set that it was made with; cursors refer to it
    size_t count;                     // parameters
    const struct train_optimizer *optimizer;
    struct trainer_vector held;                               // NULL without holds_back
    bool held_back;                                           // x is without it
    struct trainer_vector x, correction, state[TRAIN_STATES]; // state: of the optimiser; NULL if unused
    float *gradient; // in the kernels' memory; NULL if the model passes it in pieces
    float *scratch;  // of the optimiser, in the kernels' memory; NULL if it needs none
    size_t n_scratch;
    float *norm;  // one number, in the kernels' memory; NULL without clipping
    float *round; // the model at the beginning of the round, in the kernels' memory; NULL without a
                  // proximal term
    double scale; // of the learning rate
    struct train_feed feed;
    uint64_t step;
    struct train_settle settle;
    bool holds; // the vectors belong to a user's program; no data, no gradient
    bool lends; // the vectors are changed from outside in the kernels' memory
};

void trainer_send(const struct train_trainer *trainer, const struct trainer_vector *vector); // host to device

#endif
