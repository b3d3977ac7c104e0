// L1 and L2 of a linear model by proximal steps on blocks of features (delayed block proximal gradient: Li,
// Andersen, Smola, Yu 2014, algorithm 3). train/MODELS.md describes the order of the operations. The weights,
// [features, outputs], come first in the vector; the rest (the bias) belongs to every block and is never
// shrunk. Pure functions over host memory.
#ifndef TRAIN_SHRINK_H
#define TRAIN_SHRINK_H

#include <stddef.h>
#include <stdint.h>

// The part of the threshold that a weight must reach to be sent. Between this part and the threshold, the
// average over the nodes may still move the weight.
#define TRAIN_SHRINK_FILTER 0.9f

// Replaces each z in x[0..count-1] by the minimiser over x of |x - z|^2 / 2 + t1 |x| + t2 x^2 / 2. t1, t2 >=
// 0.
void train_shrink(size_t count, float t1, float t2, float *x);

// The KKT filter: a weight whose shrunk value is zero by more than a small margin becomes zero, so that it is
// not sent. Such a weight is at zero and stays there, so |z| is |direction| times the rate.
void train_shrink_filter(size_t count, float t1, float *z);

struct train_block { // features from .. to-1
    size_t from, to;
};
// The block of a step. The features are divided into `blocks` (1 to features) runs of nearly equal length.
// Each pass of `blocks` steps visits all of them, in an order drawn from (seed, pass), so two steps on one
// block are at most 2 blocks - 1 steps apart. order: [blocks], the order of pass *drawn; the caller keeps
// both between calls. *drawn is UINT64_MAX initially.
struct train_block train_shrink_block(size_t features, size_t blocks, uint64_t seed, uint64_t step,
                                      uint64_t *drawn, uint32_t *order);

#endif
