// The learner (pthread_create in node/learn/learner.c) takes shards over and gives them back, whenever it is
// told. The test plays the worker; while the learner waits for an answer, the test may look at its trainer.
#include "kernels/kernels.h"
#include "node/learn/data.h"
#include "node/learn/learner.h"
#include "node/learn/takeover.h"
#include "test/support/learner_boxes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXAMPLES = 120, SHARDS = 3, STEPS = 1000000, LOCAL = 4, PARAMETERS = 785 * 10 };

struct bench {
    struct node_round *round; // that the learner waits for
    struct node_config config;
    struct train_dataset own;
    struct train_model *model;
    struct train_trainer *trainer;
    struct node_built_in trainee;
    struct node_metrics *metrics;
    struct node_counters counters;
    struct learner_boxes boxes;
    struct node_learner *learner;
};

static void bench_create(struct bench *bench)
{
    const struct train_model_spec spec = {.kind = TRAIN_SOFTMAX, .inputs = 784, .classes = 10};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.05, .momentum = 0.5, .steps = STEPS, .batch = 16};
    static const float start[PARAMETERS];
    const struct kernels *kernels;
    struct base_reason why;
    *bench = (struct bench){0};
    bench->config.train.steps = STEPS;
    bench->config.average.local_steps = LOCAL;
    bench->config.data.train_count = EXAMPLES;
    bench->config.data.shards = SHARDS;
    bench->config.data.shard = 1;
    bench->config.data.takeover = true;
    assert_int_equal(node_data_load(&bench->config, 1, &bench->own, NULL, &why), BASE_OK);
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    assert_int_equal(train_model_create(&spec, kernels, 16, &bench->model, &why), BASE_OK);
    assert_int_equal(train_trainer_create(&options, bench->model, &bench->own, start, &bench->trainer, &why),
                     BASE_OK);
    assert_int_equal(
        node_metrics_open("/dev/null", "test", (struct node_lines_bounds){0}, &bench->metrics, &why),
        BASE_OK);
    boxes_create(&bench->boxes);
    bench->trainee = (struct node_built_in){.config = &bench->config, .trainer = bench->trainer};
    const struct node_learner_options learner = {
        .config = &bench->config,
        .trainee = &bench->trainee,
        .model = bench->model,
        .resume = {.local_steps = bench->config.average.local_steps,
                   .steps = bench->config.train.steps > 0 ? bench->config.train.steps : UINT64_MAX},
        .metrics = bench->metrics,
        .inbox = bench->boxes.inbox,
        .worker = bench->boxes.worker,
        .loop = bench->boxes.loop,
        .counters = &bench->counters};
    assert_int_equal(node_learner_start(&learner, &bench->learner), BASE_OK);
}

static void tell_living(struct bench *bench, const uint32_t *living, size_t count)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_SHARDS);
    message->n_bytes = count * sizeof *living;
    message->bytes = malloc(message->n_bytes);
    assert_non_null(message->bytes);
    memcpy(message->bytes, living, message->n_bytes);
    boxes_post(&bench->boxes, message);
}

static void answer(struct bench *bench)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND_DONE);
    message->as.round = bench->round;
    boxes_post(&bench->boxes, message);
}

// The learner at its next boundary. The test reads what it reports to the loop, so that the mailbox never
// fills.
static void boundary(struct bench *bench)
{
    struct node_message *message;
    for (bool offers = true; offers;) {
        message = boxes_take(&bench->boxes, NODE_MESSAGE_ROUND);
        bench->round = message->as.round;
        node_message_free(message);
        offers = bench->round->kind == NODE_ROUND_OFFER;
        if (offers)
            answer(bench);
    }
    for (message = node_mailbox_take(bench->boxes.loop, 0); message;
         message = node_mailbox_take(bench->boxes.loop, 0)) {
        assert_true(message->kind != NODE_MESSAGE_PROGRESS || !isinf(message->progress.loss));
        assert_true(message->kind != NODE_MESSAGE_PROGRESS || message->progress.step == 0 ||
                    !isnan(message->progress.loss));
        node_message_free(message);
    }
}

static void boundary_with(struct bench *bench, size_t examples)
{
    for (size_t i = 0; i < STEPS / LOCAL - 10; i++) {
        boundary(bench);
        if (train_trainer_data(bench->trainer)->examples == examples)
            return;
        answer(bench);
    }
    fail_msg("%zu examples never came", examples);
}

static size_t examples_of(struct bench *bench, const bool *living)
{
    struct train_dataset data;
    struct base_reason why;
    assert_int_equal(node_data_load_living(&bench->config, 1, living, &data, &why), BASE_OK);
    size_t count = data.examples;
    train_dataset_destroy(&data);
    return count;
}

// At a boundary: stop, and the last rendezvous.
static void bench_end(struct bench *bench)
{
    boxes_order(&bench->boxes, GOSSIP_ORDER_STOP, false);
    answer(bench);
    boundary(bench);
    answer(bench);
    node_learner_join(bench->learner);
    node_mailbox_destroy(bench->boxes.inbox, node_message_free);
    node_mailbox_destroy(bench->boxes.worker, node_message_free);
    node_mailbox_destroy(bench->boxes.loop, node_message_free);
    node_metrics_close(bench->metrics);
    train_trainer_destroy(bench->trainer);
    train_model_destroy(bench->model);
    train_dataset_destroy(&bench->own);
}

// The order comes in the middle of a rendezvous, as any order may.
static void shards_ordered_in_a_rendezvous_are_taken_over(void **state)
{
    static const uint32_t two[] = {1, 2}, three[] = {0, 1, 2};
    static const bool without_0[] = {false, true, true};
    struct bench bench;
    (void)state;
    bench_create(&bench);
    const size_t more = examples_of(&bench, without_0);
    assert_true(more > bench.own.examples);
    boxes_order(&bench.boxes, GOSSIP_ORDER_START, false);
    boundary(&bench);
    tell_living(&bench, two, 2);
    answer(&bench);
    boundary_with(&bench, more);
    tell_living(&bench, three, 3);
    answer(&bench);
    boundary(&bench); // given back at once
    assert_ptr_equal(train_trainer_data(bench.trainer), &bench.own);
    bench_end(&bench);
}

// The orders come before the start and during a pause; of several at once, the last one counts.
static void shards_ordered_while_it_waits_are_taken_over(void **state)
{
    static const uint32_t one[] = {1}, two[] = {0, 1}, three[] = {0, 1, 2};
    static const bool without_2[] = {true, true, false};
    struct bench bench;
    (void)state;
    bench_create(&bench);
    tell_living(&bench, one, 1);
    boxes_order(&bench.boxes, GOSSIP_ORDER_START, false);
    boundary_with(&bench, EXAMPLES);
    boxes_order(&bench.boxes, GOSSIP_ORDER_PAUSE, true);
    node_message_free(boxes_take(&bench.boxes, NODE_MESSAGE_GIVE_UP)); // of the exchange
    answer(&bench);
    boundary(&bench);
    answer(&bench); // it pauses
    tell_living(&bench, three, 3);
    tell_living(&bench, two, 2);
    boxes_order(&bench.boxes, GOSSIP_ORDER_PAUSE, false); // goes on
    boundary_with(&bench, examples_of(&bench, without_2));
    bench_end(&bench);
}

static double train(struct train_trainer *trainer, size_t steps)
{
    struct kernels_loss loss = {0};
    size_t rows = 1;
    double sum = 0;
    for (size_t i = 0; i < steps; i++) {
        train_trainer_step(trainer, false, &loss, &rows);
        sum += loss.loss_sum / (double)rows / (double)steps;
        assert_true(isfinite(loss.loss_sum));
    }
    return sum;
}

// The same without threads, over a whole training: some nodes die, more die, all come back. The weight grows
// with the examples; the loss stays finite and falls.
static void training_goes_on_through_deaths_and_returns(void **state)
{
    static const uint32_t all[] = {1, 0, 2};
    static const size_t living[] = {3, 2, 1, 2, 3};
    struct bench bench;
    struct node_shards *shards;
    double first = 0, loss = 0;
    (void)state;
    bench_create(&bench);
    boxes_order(&bench.boxes, GOSSIP_ORDER_START, false);
    boundary(&bench); // here the learner waits
    assert_int_equal(node_shards_create(&bench.config, &bench.own, &shards), BASE_OK);
    for (size_t k = 0; k < sizeof living / sizeof *living; k++) {
        struct node_shards_set set;
        struct base_reason why;
        node_shards_want(shards, all, living[k]);
        assert_true(node_shards_wait(shards, UINT64_MAX));
        assert_int_equal(node_shards_ready(shards, 1, &set), k > 0);
        if (k > 0) {
            assert_int_equal(train_trainer_replace(bench.trainer, set.data, set.weight, &why), BASE_OK);
            node_shards_commit(shards, true);
        }
        loss = train(bench.trainer, 100);
        first = k == 0 ? loss : first;
        print_message("%zu shards live: %zu examples, loss %.3f\n", living[k],
                      train_trainer_data(bench.trainer)->examples, loss);
    }
    assert_true(loss < first);
    assert_ptr_equal(train_trainer_data(bench.trainer), &bench.own);
    node_shards_destroy(shards, UINT64_MAX);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_ordered_in_a_rendezvous_are_taken_over),
        cmocka_unit_test(shards_ordered_while_it_waits_are_taken_over),
        cmocka_unit_test(training_goes_on_through_deaths_and_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
