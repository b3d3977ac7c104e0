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
static void adamw_range(const struct train_update *u, size_t from, size_t to)
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
    u->kernels->adamw_step(to - from, &options, u->gradient + from,
                           u->correction ? u->correction + from : NULL, u->state[0] + from,
                           u->state[1] + from, u->x + from);
}

static void adamw_step(const struct train_update *u)
{
    adamw_range(u, 0, u->count);
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

// Muon (Jordan and others 2024, https://kellerjordan.github.io/posts/muon): the step of a hidden matrix is
// its momentum, made orthogonal, so that all directions get the same length. All other tensors take steps of
// AdamW. With the factor of Liu and others 2025 ("Muon is scalable for LLM training", equation 4) both have
// the same root mean square, and so one rate.
#define MUON_MOMENTUM   0.95f
#define MUON_FACTOR     0.2 // times the root of the longer side
#define MUON_ITERATIONS 5

static size_t muon_side(const struct train_tensor *t) // the shorter one
{
    const size_t cols = t->count / t->hidden_rows;
    return t->hidden_rows < cols ? t->hidden_rows : cols;
}

static size_t muon_scratch(const struct train_tensor *tensors, size_t n_tensors)
{
    size_t most = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        if (tensors[i].hidden_rows > 0) {
            const size_t side = muon_side(&tensors[i]), wanted = tensors[i].count + 2 * side * side;
            most = wanted > most ? wanted : most;
        }
    }
    return most;
}

// to = a X + (b S + c S^2) X, where S = X X^T; for a tall X from the other side. Every singular value s
// becomes a s + b s^3 + c s^5. square, mixed: [side, side].
static void muon_iterate(const struct kernels *k, const struct train_tensor *t, const float *x, float *to,
                         float *square, float *mixed)
{
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    const size_t rows = t->hidden_rows, cols = t->count / rows, side = muon_side(t);
    const bool tall = rows > cols;
    k->gemm(tall, !tall, side, side, t->count / side, 1.0f, x, x, 0.0f, square);
    k->vectors->copy(mixed, square, side * side * sizeof *mixed);
    k->gemm(false, false, side, side, side, c, square, square, b, mixed);
    k->vectors->copy(to, x, t->count * sizeof *to);
    k->gemm(false, false, rows, cols, side, 1.0f, tall ? x : mixed, tall ? mixed : x, a, to);
}

// Replaces x by the nearest matrix whose singular values are about 1 (0.7 to 1.2). Returns it: x or scratch.
static float *muon_orthogonal(const struct kernels *k, const struct train_tensor *t, float *x, float *scratch)
{
    const size_t side = muon_side(t);
    float *other = scratch, *square = scratch + t->count, *mixed = square + side * side;
    k->vectors->scale(t->count, (float)(1.0 / (sqrt(k->vectors->energy(t->count, x, NULL)) + 1e-7)), x);
    for (int i = 0; i < MUON_ITERATIONS; i++) {
        float *from = x;
        muon_iterate(k, t, from, other, square, mixed);
        x = other;
        other = from;
    }
    return x;
}

static void muon_matrix(const struct train_update *u, const struct train_tensor *t)
{
    const struct kernels_vectors *v = u->kernels->vectors;
    const struct kernels_sgd options = {.rate = u->rate, .weight_decay = (float)u->options->weight_decay};
    const size_t cols = t->count / t->hidden_rows, longer = cols > t->hidden_rows ? cols : t->hidden_rows;
    float *m = u->state[0] + t->offset, *direction = u->gradient + t->offset;
    v->scale(t->count, MUON_MOMENTUM, m);
    v->add(t->count, 1.0f - MUON_MOMENTUM, direction, m);
    v->scale(t->count, 1.0f - MUON_MOMENTUM, direction);
    v->add(t->count, MUON_MOMENTUM, m, direction); // Nesterov's: the momentum after the next step
    direction = muon_orthogonal(u->kernels, t, direction, u->scratch);
    v->scale(t->count, (float)(MUON_FACTOR * sqrt((double)longer)), direction);
    u->kernels->sgd_step(t->count, &options, direction, u->correction ? u->correction + t->offset : NULL,
                         NULL, u->x + t->offset);
}

static void muon_step(const struct train_update *u)
{
    size_t from = 0;
    for (size_t i = 0; i < u->n_tensors; i++) {
        const struct train_tensor *t = &u->tensors[i];
        if (t->hidden_rows == 0)
            continue;
        adamw_range(u, from, t->offset);
        muon_matrix(u, t);
        from = t->offset + t->count;
    }
    adamw_range(u, from, u->count);
}

static const struct train_optimizer muon = {
    .name = "muon",
    .uses = TRAIN_USES_BETAS | TRAIN_USES_EPSILON,
    .rate_usual = 0.001,
    .rate_high = 0.05,
    .state = {"muon.m", "muon.v"}, // v stays 0 in hidden matrices
    .shared = 1,
    .scratch = muon_scratch,
    .step = muon_step,
};

static const struct train_optimizer *const optimizers[TRAIN_OPTIMIZERS] = {
    [TRAIN_SGD] = &sgd,
    [TRAIN_ADAMW] = &adamw,
    [TRAIN_LION] = &lion,
    [TRAIN_MUON] = &muon,
};

const struct train_optimizer *train_optimizer(enum train_optimizer_kind kind)
{
    return (unsigned)kind < TRAIN_OPTIMIZERS ? optimizers[kind] : NULL;
}
