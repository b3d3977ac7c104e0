// The proximal step of l1 and l2 on the block of a step: pending from the gradient step until after the
// exchange (train/MODELS.md). For models that take rows, whose vectors are in host memory. One thread.
#ifndef TRAIN_SETTLE_H
#define TRAIN_SETTLE_H

#include "train/shrink.h"
#include <stdbool.h>

struct train_settle {
    size_t features, outputs, blocks; // blocks: 0: the model takes no rows, and no other function is called
    double l1, l2;
    uint64_t seed;            // of the order of the blocks
    uint32_t *order;          // [blocks]
    uint64_t drawn;           // the pass that `order` belongs to
    bool due;                 // the proximal step after the latest gradient step is pending:
    struct train_block block; // on these places of the vector
    float t1, t2;
};

// `settle` holds features to seed. False: out of memory.
bool train_settle_open(struct train_settle *settle);
void train_settle_close(struct train_settle *settle);

// The weights that a step changes, as places in the vector.
struct train_block train_settle_block(struct train_settle *settle, uint64_t step);
// The proximal step of `step` becomes pending; `length`: how far the step moves with a constant gradient
// of 1.
void train_settle_owe(struct train_settle *settle, uint64_t step, double length);
void train_settle_filter(const struct train_settle *settle, float *x); // the KKT filter, on the pending block
void train_settle_pay(struct train_settle *settle, float *x); // makes the pending step, if there is one

#endif
