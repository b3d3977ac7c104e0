// The optimisers: a table of functions, and state vectors by name. To add one: its struct in
// train/optimizer.c and its name here; the step over a vector is a function of the kernel table, or made of
// several.
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "base/error.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The order is the same in the choices of the configuration and in train/optimizer.c.
enum train_optimizer_kind { TRAIN_SGD, TRAIN_ADAMW, TRAIN_LION, TRAIN_MUON, TRAIN_OPTIMIZERS };
#define TRAIN_OPTIMIZER_CHOICES "sgd|adamw|lion|muon"

#define TRAIN_STATES 2 // maximum number of state vectors of an optimiser

// The options that an optimiser uses, besides rate and decay.
enum { TRAIN_USES_MOMENTUM = 1, TRAIN_USES_BETAS = 2, TRAIN_USES_EPSILON = 4 };

struct train_options;
struct train_tensor;

// One step: over the whole vector or, if the optimiser takes pieces, over a piece of it. All pointers except
// `tensors` are in the kernels' memory.
struct train_update {
    const struct kernels *kernels;
    const struct train_options *options;
    size_t count;
    uint64_t step; // from 0
    float rate;
    float *gradient;                    // may be overwritten
    const float *correction;            // NULL for none
    float *state[TRAIN_STATES], *x;     // state: NULL if the optimiser has or needs none
    const struct train_tensor *tensors; // of the whole vector
    size_t n_tensors;
    float *scratch; // as many numbers as the optimiser asked for
};

struct train_optimizer {
    const char *name;
    unsigned uses;
    double rate_usual,
        rate_high; // for messages: a usual rate, and a rate above which training almost certainly diverges
    const char *state[TRAIN_STATES]; // names in checkpoints, "adamw.m"; NULL: none
    int shared; // the state that neighbours share by averaging, which is never negative (a second moment);
                // -1: none
    // Whether these options need state[i] at all. NULL: always.
    bool (*needs)(const struct train_options *options, size_t i);
    // One step. `correction` is subtracted from the direction and does not enter the state. Allocates
    // nothing.
    void (*step)(const struct train_update *update);
    // NULL: the step is elementwise, so it takes pieces. Otherwise it takes the whole vector, and this is the
    // number of its scratch floats; 0: it is not for a model with these tensors.
    size_t (*scratch)(const struct train_tensor *tensors, size_t n_tensors);
    // Whether this backend has the kernel. NULL: every backend has it.
    bool (*runs)(const struct kernels *kernels);
};

const struct train_optimizer *train_optimizer(enum train_optimizer_kind kind); // NULL: there is none

#endif
