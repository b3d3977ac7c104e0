#include "train/optimizer.h"

#include "train/trainer.h"

#include <math.h>

// SGD with heavy-ball momentum: m = momentum * m + g + decay * x, x -= rate * (m - c).
static bool sgd_needs(const struct train_options *options, size_t i)
{
    (void)i;
    return options->momentum != 0.0;
}

static void sgd_step(const struct train_update *u)
{
    const struct kernels_sgd options = {.rate = u->rate,
                                        .momentum = (float)u->options->momentum,
                                        .weight_decay = (float)u->options->weight_decay};
    u->kernels->sgd_step(u->count, &options, u->gradient, u->correction, u->state[0], u->x);
}

static const struct train_optimizer sgd = {
    .name = "sgd",
    .uses = TRAIN_USES_MOMENTUM,
    .rate_usual = 0.1,
    .rate_high = INFINITY,
    .state = {"sgd.momentum"},
    .shared = -1,
    .needs = sgd_needs,
    .step = sgd_step,
};

// AdamW (Loshchilov, Hutter 2019, algorithm 2) with the bias corrections of Adam (Kingma, Ba 2015).
static void adamw_step(const struct train_update *u)
{
    const struct train_options *o = u->options;
    const double t = (double)(u->step + 1);
    const struct kernels_adamw options = {
        .rate = u->rate,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = (float)o->epsilon,
        .weight_decay = (float)o->weight_decay,
        .correction1 = (float)(1.0 - pow(o->beta1, t)),
        .correction2 = (float)(1.0 - pow(o->beta2, t)),
    };
    u->kernels->adamw_step(u->count, &options, u->gradient, u->correction, u->state[0], u->state[1], u->x);
}

static const struct train_optimizer adamw = {
    .name = "adamw",
    .uses = TRAIN_USES_BETAS | TRAIN_USES_EPSILON,
    .rate_usual = 0.001,
    .rate_high = 0.05,
    .state = {"adamw.m", "adamw.v"},
    .shared = 1,
    .step = adamw_step,
};

// Lion (Chen and others 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2). Neighbours share
// none of its state: the momentum may be negative, and only a sign reaches x.
static void lion_step(const struct train_update *u)
{
    const struct kernels_lion options = {.rate = u->rate,
                                         .beta1 = u->options->beta1,
                                         .beta2 = u->options->beta2,
                                         .weight_decay = (float)u->options->weight_decay};
    u->kernels->lion_step(u->count, &options, u->gradient, u->correction, u->state[0], u->x);
}

static bool lion_runs(const struct kernels *kernels)
{
    return kernels->lion_step != NULL;
}

static const struct train_optimizer lion = {
    .name = "lion",
    .uses = TRAIN_USES_BETAS,
    .rate_usual = 0.0001,
    .rate_high = 0.01,
    .state = {"lion.m"},
    .shared = -1,
    .step = lion_step,
    .runs = lion_runs,
};

static const struct train_optimizer *const optimizers[TRAIN_OPTIMIZERS] = {
    [TRAIN_SGD] = &sgd,
    [TRAIN_ADAMW] = &adamw,
    [TRAIN_LION] = &lion,
};

const struct train_optimizer *train_optimizer(enum train_optimizer_kind kind)
{
    return (unsigned)kind < TRAIN_OPTIMIZERS ? optimizers[kind] : NULL;
}
