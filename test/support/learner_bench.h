// A learner thread between its mailboxes. The test plays the worker and answers each rendezvous.
#ifndef TEST_SUPPORT_LEARNER_BENCH_H
#define TEST_SUPPORT_LEARNER_BENCH_H

#include "kernels/kernels.h"
#include "node/learn/learner.h"
#include "test/support/learner_boxes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EXAMPLES = 8, FEATURES = 4, CLASSES = 2, D = FEATURES * CLASSES + CLASSES, STEPS = 100, LOCAL = 5 };

struct bench {
    struct node_config config;
    const struct kernels *kernels;
    struct train_dataset data;
    struct train_model *model;
    struct train_trainer *trainer;
    struct node_metrics *metrics;
    struct node_counters counters;
    struct learner_boxes boxes;
    struct node_learner *learner;
    struct node_built_in trainee;
    float outer[D], round_start[D];
    unsigned offers; // taken by take_round
};

static inline void make_data(struct train_dataset *data)
{
    *data = (struct train_dataset){
        .examples = EXAMPLES, .features = FEATURES, .classes = CLASSES, .whole = EXAMPLES};
    data->x = aligned_alloc(64, 256);
    data->labels = calloc(EXAMPLES, sizeof *data->labels);
    assert_true(data->x && data->labels);
    for (size_t i = 0; i < EXAMPLES * FEATURES; i++)
        data->x[i] = (float)(i % 7) / 7;
    for (size_t i = 0; i < EXAMPLES; i++)
        data->labels[i] = i % CLASSES;
}

static const struct train_dataset *test_set; // for the next bench, or NULL

// `shape` may change the settings of node and trainer.
static inline void bench_create_as(struct bench *bench,
                                   void (*shape)(struct node_config *, struct train_options *))
{
    const struct train_model_spec spec = {.kind = TRAIN_SOFTMAX, .inputs = FEATURES, .classes = CLASSES};
    struct train_options options = {.optimizer = TRAIN_ADAMW,
                                    .rate = 0.01,
                                    .beta1 = 0.9,
                                    .beta2 = 0.99,
                                    .epsilon = 1e-8,
                                    .steps = STEPS,
                                    .batch = 2,
                                    .schedule = {.count = 1, .at = {0.9}, .factor = {0.5}}};
    const float start[D] = {0};
    struct base_reason why;
    *bench = (struct bench){0};
    bench->config.train.steps = STEPS;
    bench->config.average.local_steps = LOCAL;
    bench->config.average.outer_momentum = 0.5;
    if (shape)
        shape(&bench->config, &options);
    make_data(&bench->data);
    assert_int_equal(kernels_open("cpu", 1, &bench->kernels, &why), BASE_OK);
    assert_int_equal(train_model_create(&spec, bench->kernels, EXAMPLES, &bench->model, &why), BASE_OK);
    assert_int_equal(train_trainer_create(&options, bench->model, &bench->data, start, &bench->trainer, &why),
                     BASE_OK);
    assert_int_equal(
        node_metrics_open("/dev/null", "test", (struct node_lines_bounds){0}, &bench->metrics, &why),
        BASE_OK);
    boxes_create(&bench->boxes);
    bench->trainee = (struct node_built_in){.config = &bench->config, .trainer = bench->trainer};
    if (bench->config.average.outer_momentum > 0) {
        bench->trainee.outer = bench->outer;
        bench->trainee.round_start = bench->round_start;
    }
    const struct node_learner_options learner = {
        .config = &bench->config,
        .trainee = &bench->trainee,
        .model = bench->model,
        .resume = {.local_steps = bench->config.average.local_steps,
                   .steps = bench->config.train.steps > 0 ? bench->config.train.steps : UINT64_MAX},
        .test = test_set,
        .metrics = bench->metrics,
        .inbox = bench->boxes.inbox,
        .worker = bench->boxes.worker,
        .loop = bench->boxes.loop,
        .counters = &bench->counters};
    assert_int_equal(node_learner_start(&learner, &bench->learner), BASE_OK);
}

static inline void bench_create(struct bench *bench)
{
    bench_create_as(bench, NULL);
}

static inline void bench_destroy(struct bench *bench)
{
    node_learner_join(bench->learner);
    boxes_destroy(&bench->boxes);
    node_metrics_close(bench->metrics);
    train_trainer_destroy(bench->trainer);
    train_model_destroy(bench->model);
    train_dataset_destroy(&bench->data);
}

static inline void order(struct bench *bench, enum gossip_order_kind kind, bool on)
{
    boxes_order(&bench->boxes, kind, on);
}

static inline void answer(struct bench *bench, struct node_round *round)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND_DONE);
    message->as.round = round;
    boxes_post(&bench->boxes, message);
}

// The next one, without offers, which need an answer only.
static inline struct node_round *take_round(struct bench *bench)
{
    for (;; bench->offers++) {
        struct node_message *message = boxes_take(&bench->boxes, NODE_MESSAGE_ROUND);
        struct node_round *round = message->as.round;
        node_message_free(message);
        if (round->kind != NODE_ROUND_OFFER)
            return round;
        answer(bench, round);
    }
}

// The learner no longer waits for the open round.
static inline void take_give_up(struct bench *bench)
{
    node_message_free(boxes_take(&bench->boxes, NODE_MESSAGE_GIVE_UP));
}

static inline struct node_message *take_told(struct bench *bench, enum node_message_kind kind)
{
    for (;;) {
        struct node_message *message = node_mailbox_take(bench->boxes.loop, UINT64_MAX);
        if (message->kind == kind)
            return message;
        node_message_free(message);
    }
}

#endif
