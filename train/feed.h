// The batches of one data set: seeded epochs without replacement, gathered into the kernels' memory. Owns the
// order and the buffers; allocates everything at creation. Private to train/. One owner (the trainer).
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H

#include "base/error.h"
#include "kernels/kernels.h"
#include "train/augment.h"
#include "train/dataset.h"
#include <stddef.h>
#include <stdint.h>

struct train_batch {
    void *x;          // [batch, features]: floats, or uint32_t token ids; for sparse examples uint32_t
                      // [batch], their row numbers
    uint32_t *labels; // [batch], or for text [batch, features]; NULL for a regression
};

struct train_feed {
    const struct kernels *kernels;
    const struct train_dataset *data; // borrowed
    size_t batch;                     // examples of a step
    uint64_t seed, epoch, position;   // `position` examples of the epoch have been used
    struct train_batch stage, input;  // in host memory and in the kernels' memory; identical if the kernels
                                      // share host memory
    float *targets;                   // [batch, outputs] in host memory for a regression; else NULL
    uint32_t *order;                  // [examples]: shuffle of this epoch
    size_t phase;                     // offset of this epoch's windows of text
    struct train_augment augment;     // for images
};

// Starts at the beginning of `epoch`. `augment` must be off unless the data are images. BASE_ENOMEM.
enum base_error train_feed_create(const struct kernels *kernels, const struct train_dataset *data,
                                  const struct train_augment *augment, size_t batch, uint64_t seed,
                                  uint64_t epoch, struct train_feed *feed) BASE_CHECK;
void train_feed_destroy(struct train_feed *feed); // leaves {0}; {0} is allowed

// Gathers the next batch into `input`. Batches are always full: if an epoch ends within one, the rest is from
// the next epoch. Call kernels->wait() before gathering the next batch.
void train_feed_next(struct train_feed *feed);
void train_feed_seek(struct train_feed *feed, uint64_t epoch, uint64_t position); // position <= examples

#endif
