// The optimisers: a table of functions and state vectors by name. Adding one: its struct in train/optimizer.c
// and its name here; the step over a vector is a function of the kernel table.
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "base/error.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// In this order in the configuration's choices and in train/optimizer.c.
enum train_optimizer_kind { TRAIN_SGD, TRAIN_ADAMW, TRAIN_LION, TRAIN_OPTIMIZERS };
#define TRAIN_OPTIMIZER_CHOICES "sgd|adamw|lion"

#define TRAIN_STATES 2 // state vectors of an optimiser, at most

// Which options an optimiser looks at, rate and decay apart.
enum { TRAIN_USES_MOMENTUM = 1, TRAIN_USES_BETAS = 2, TRAIN_USES_EPSILON = 4 };

struct train_options;

struct train_update { // one step over the whole vector; all pointers in the kernels' memory
    const struct kernels *kernels;
    const struct train_options *options;
    size_t count;
    uint64_t step; // from 0
    float rate;
    const float *gradient, *correction; // correction: NULL for none
    float *state[TRAIN_STATES], *x;     // state: NULL where the optimiser has none or needs none
};

struct train_optimizer {
    const char *name;
    unsigned uses;
    double rate_usual,
        rate_high; // for people: a usual rate, and one above which it is all but sure to diverge
    const char *state[TRAIN_STATES]; // names in checkpoints, "adamw.m"; NULL: none
    int shared; // the state whose mean over neighbours helps and is never negative (a second moment); -1:
                // none
    // Whether these options need state[i] at all. NULL: always.
    bool (*needs)(const struct train_options *options, size_t i);
    // correction is subtracted from the direction, outside the state. Allocates nothing.
    void (*step)(const struct train_update *update);
    // Whether this backend has the kernel. NULL: every backend has.
    bool (*runs)(const struct kernels *kernels);
};

const struct train_optimizer *train_optimizer(enum train_optimizer_kind kind); // NULL: there is none

#endif
