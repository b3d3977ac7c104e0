// What the tests of the trainer share: a small data set, a model and a trainer.
#ifndef TEST_UNIT_TRAINER_WORLD_H
#define TEST_UNIT_TRAINER_WORLD_H

#include "base/rng.h"
#include "train/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct kernels *kernels;
static uint64_t seed = 20260131u;

static const struct train_options sgd = {
    .optimizer = TRAIN_SGD, .rate = 0.1, .steps = 100, .batch = 7, .seed = 3};
static const struct train_options momentum = {.optimizer = TRAIN_SGD,
                                              .rate = 0.05,
                                              .momentum = 0.9,
                                              .weight_decay = 1e-3,
                                              .steps = 100,
                                              .batch = 7,
                                              .seed = 3};
static const struct train_options adamw = {.optimizer = TRAIN_ADAMW,
                                           .rate = 0.01,
                                           .weight_decay = 0.01,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .epsilon = 1e-8,
                                           .schedule = {.count = 1, .at = {0.2}, .factor = {0.5}},
                                           .steps = 100,
                                           .batch = 7,
                                           .seed = 3};
static const struct train_options lion = {.optimizer = TRAIN_LION,
                                          .rate = 0.003,
                                          .weight_decay = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .steps = 100,
                                          .batch = 7,
                                          .seed = 3};
static const struct train_options *const optimisers[] = {&sgd, &momentum, &adamw, &lion};
#define OPTIMISERS (sizeof optimisers / sizeof *optimisers)

// One data set, one model, one trainer.
struct setup {
    struct train_dataset data;
    struct train_model *model;
    struct train_trainer *trainer;
    float *start;
    size_t count;
};

static void *get(size_t bytes)
{
    void *memory = calloc(1, bytes);
    assert_non_null(memory);
    return memory;
}

// `classes` clusters of Gaussian points around corners that are 8 apart: separable.
static inline struct train_dataset clusters(size_t examples, size_t features, size_t classes)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    struct train_dataset data = {.examples = examples, .features = features, .classes = classes};
    data.x = get(examples * features * sizeof *data.x);
    data.labels = get(examples * sizeof *data.labels);
    for (size_t i = 0; i < examples; i++) {
        data.labels[i] = (uint32_t)(i % classes);
        for (size_t f = 0; f < features; f++) {
            data.x[i * features + f] = (float)(base_rng_normal(&rng) + (f == i % classes ? 6.0 : 0.0));
        }
    }
    return data;
}

static inline struct train_trainer *make_trainer(const struct setup *s, const struct train_options *options)
{
    struct train_trainer *trainer = NULL;
    struct base_reason why;
    if (train_trainer_create(options, s->model, &s->data, s->start, &trainer, &why)) {
        fail_msg("%s", why.text);
    }
    return trainer;
}

// The trainer borrows s->data: *s must not move.
static inline void open_setup(struct setup *s, struct train_dataset data, size_t hidden,
                              const struct train_options *options)
{
    *s = (struct setup){.data = data};
    const struct train_model_spec spec = {.kind = hidden > 0 ? TRAIN_MLP : TRAIN_SOFTMAX,
                                          .inputs = data.features,
                                          .classes = data.classes,
                                          .hidden = {hidden},
                                          .n_hidden = hidden > 0};
    struct base_reason why;
    if (train_model_create(&spec, kernels, 32, &s->model, &why)) {
        fail_msg("%s", why.text);
    }
    s->count = train_model_parameters(s->model);
    s->start = get(s->count * sizeof *s->start);
    train_model_initialise(s->model, seed, s->start);
    s->trainer = make_trainer(s, options);
}

static inline void close_setup(struct setup *s)
{
    train_trainer_destroy(s->trainer);
    train_model_destroy(s->model);
    free(s->start);
    free(s->data.x);
    free(s->data.labels);
}

static double run(struct train_trainer *trainer, size_t steps)
{
    struct kernels_loss loss = {0};
    size_t rows = 1;
    for (size_t i = 0; i < steps; i++) {
        train_trainer_step(trainer, false, &loss, &rows);
    }
    return loss.loss_sum / (double)rows;
}

static inline void assert_same_model(struct train_trainer *a, struct train_trainer *b, size_t count)
{
    assert_memory_equal(train_trainer_model(a), train_trainer_model(b), count * sizeof(float));
}

// As a checkpoint does: model, state vectors and cursor into a new trainer.
static inline struct train_trainer *restored(const struct setup *s, const struct train_options *options)
{
    struct train_trainer *copy = make_trainer(s, options);
    struct train_state_vector from[4], to[4];
    const size_t vectors = train_trainer_state_vectors(s->trainer, from);
    assert_int_equal(train_trainer_state_vectors(copy, to), vectors);
    memcpy(train_trainer_model(copy), train_trainer_model(s->trainer), s->count * sizeof(float));
    for (size_t i = 0; i < vectors; i++) {
        assert_string_equal(from[i].name, to[i].name);
        memcpy(to[i].values, from[i].values, s->count * sizeof(float));
    }
    const struct train_cursor cursor = train_trainer_cursor(s->trainer);
    assert_int_equal(train_trainer_seek(copy, &cursor), BASE_OK);
    return copy;
}

// Seed from the environment, kernels of the CPU. Returns not 0 if no test can run.
static int open_world(void)
{
    struct base_reason why;
    const char *text = getenv("P2PML_SEED");
    seed = text ? strtoull(text, NULL, 10) : seed;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    if (kernels_open("cpu", 1, &kernels, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    return 0;
}

#endif
