// The learning rate over the steps of a training. Pure.
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#define TRAIN_SCHEDULE_STEPS 8
enum train_decay { TRAIN_DECAY_STEPS, TRAIN_DECAY_COSINE };

// Piecewise constant: rate(step) = rate * factor[i] with the last i for which at[i] <= step / total. Or a
// cosine (Loshchilov, Hutter 2017, equation 5, without restarts): from 1 at the end of the warm-up to `floor`
// at the last step.
struct train_schedule {
    size_t count;
    double at[TRAIN_SCHEDULE_STEPS];     // fraction of the total number of steps, ascending in [0, 1]
    double factor[TRAIN_SCHEDULE_STEPS]; // of the base rate; factors do not multiply
    enum train_decay decay;
    uint64_t warmup; // number of steps in which the rate rises linearly from rate / (warmup + 1), with
                     // either decay
    double floor;    // [0, 1], of the base rate
};

// The rate at a step of `steps` in total; `rate`: the base rate.
double train_schedule_rate(const struct train_schedule *schedule, double rate, uint64_t step, uint64_t steps);

#endif
