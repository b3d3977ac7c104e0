// The learner thread between its mailboxes: what the loop orders and when it takes effect. The worker is
// played by the test, which answers each rendezvous.
#include "kernels/kernels.h"
#include "node/learn/learner.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    struct node_mailbox *inbox, *worker, *loop;
    struct node_learner *learner;
    struct node_built_in trainee;
    float outer[D], round_start[D];
};

static void make_data(struct train_dataset *data)
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

static const struct train_dataset *test_set; // of the next bench, or NULL

// `shape` may change the settings of node and trainer.
static void bench_create_as(struct bench *bench, void (*shape)(struct node_config *, struct train_options *))
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
    assert_int_equal(node_mailbox_create(64, &bench->inbox), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->worker), BASE_OK);
    assert_int_equal(node_mailbox_create(1024, &bench->loop), BASE_OK);
    bench->trainee = (struct node_built_in){.config = &bench->config, .trainer = bench->trainer};
    if (bench->config.average.outer_momentum > 0) {
        bench->trainee.outer = bench->outer;
        bench->trainee.round_start = bench->round_start;
    }
    const struct node_learner_options learner = {.config = &bench->config,
                                                 .trainee = &bench->trainee,
                                                 .model = bench->model,
                                                 .test = test_set,
                                                 .metrics = bench->metrics,
                                                 .inbox = bench->inbox,
                                                 .worker = bench->worker,
                                                 .loop = bench->loop,
                                                 .counters = &bench->counters};
    assert_int_equal(node_learner_start(&learner, &bench->learner), BASE_OK);
}

static void bench_create(struct bench *bench)
{
    bench_create_as(bench, NULL);
}

static void bench_destroy(struct bench *bench)
{
    node_learner_join(bench->learner);
    node_mailbox_destroy(bench->inbox, node_mail_free);
    node_mailbox_destroy(bench->worker, node_mail_free);
    node_mailbox_destroy(bench->loop, node_mail_free);
    node_metrics_close(bench->metrics);
    train_trainer_destroy(bench->trainer);
    train_model_destroy(bench->model);
    train_dataset_destroy(&bench->data);
}

static void order(struct bench *bench, enum node_mail_kind kind, int status)
{
    struct node_mail *mail = node_mail_new(kind);
    mail->status = status;
    assert_int_equal(node_mailbox_post(bench->inbox, mail), BASE_OK);
}

static struct node_round *take_round(struct bench *bench)
{
    struct node_mail *mail = node_mailbox_take(bench->worker, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_ROUND);
    struct node_round *round = mail->round;
    node_mail_free(mail);
    return round;
}

static void answer(struct bench *bench, struct node_round *round)
{
    struct node_mail *mail = node_mail_new(NODE_MAIL_ROUND_DONE);
    mail->round = round;
    assert_int_equal(node_mailbox_post(bench->inbox, mail), BASE_OK);
}

// The learner waits no longer for the round that is out.
static void take_give_up(struct bench *bench)
{
    struct node_mail *mail = node_mailbox_take(bench->worker, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_GIVE_UP);
    node_mail_free(mail);
}

static void pass_round(struct bench *bench, uint64_t number, bool meets, uint64_t step)
{
    struct node_round *round = take_round(bench);
    assert_int_equal(round->meet.round, number);
    assert_int_equal(round->meet.meets, meets);
    assert_int_equal(round->step, step);
    assert_false(round->fetch);
    answer(bench, round);
}

// A snapshot of ones.
static void give_snapshot(struct bench *bench, uint64_t done, uint64_t step)
{
    struct node_round *round = take_round(bench);
    assert_true(round->fetch);
    assert_non_null(round->second_moment);
    assert_ptr_not_equal(round->outer, bench->outer); // half of a snapshot must not be in the node's own
    for (size_t i = 0; i < D; i++)
        round->model[i] = round->second_moment[i] = round->outer[i] = 1;
    round->round = done;
    round->step = step;
    round->fetched = true;
    answer(bench, round);
}

static struct node_mail *take_told(struct bench *bench, enum node_mail_kind kind)
{
    for (;;) {
        struct node_mail *mail = node_mailbox_take(bench->loop, UINT64_MAX);
        if (mail->kind == kind)
            return mail;
        node_mail_free(mail);
    }
}

static void wait_for_state(struct bench *bench, const char *state)
{
    for (bool come = false; !come;) {
        struct node_mail *mail = take_told(bench, NODE_MAIL_PROGRESS);
        come = strcmp(mail->progress.state, state) == 0;
        node_mail_free(mail);
    }
}

// From the last step, which may be an earlier one for who is left alone, to the end.
static void pass_end_at(struct bench *bench, uint64_t done, uint64_t step, bool alone)
{
    pass_round(bench, done, false, step);
    struct node_mail *finished = take_told(bench, NODE_MAIL_FINISHED);
    assert_int_equal(finished->status, alone);
    node_mail_free(finished);
    order(bench, NODE_MAIL_LEAVE, 0);
    struct node_round *round = take_round(bench);
    assert_true(round->checkpoint && round->meet.last && !round->meet.meets);
    assert_int_equal(round->step, step);
    answer(bench, round);
    struct node_mail *left = take_told(bench, NODE_MAIL_LEFT);
    assert_int_equal(left->status, 0);
    node_mail_free(left);
}

static void pass_end(struct bench *bench, uint64_t done)
{
    pass_end_at(bench, done, STEPS, false);
}

static void it_trains_to_the_end(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 0);
    for (uint64_t round = 1; round <= STEPS / LOCAL; round++)
        pass_round(&bench, round, true, LOCAL * round);
    pass_end(&bench, STEPS / LOCAL);
    bench_destroy(&bench);
}

static void a_late_joiner_goes_on_at_the_snapshots_step(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 1);
    wait_for_state(&bench, "fetching");
    give_snapshot(&bench, 31, 90);
    wait_for_state(&bench, "training");
    struct node_round *round = take_round(&bench);
    assert_int_equal(round->meet.round, 32);
    assert_int_equal(round->step, 95);
    assert_true(round->meet.step_scale > 0.0249f &&
                round->meet.step_scale < 0.0251f);                 // at half the rate, by the schedule
    assert_true(round->model[0] > 0.2f && round->model[0] < 0.8f); // 1 - outer momentum * 1, and a few steps
    assert_true(round->second_moment[0] > 0.9f);                   // had it begun anew it would be near 0
    answer(&bench, round);
    pass_round(&bench, 33, true, 100);
    pass_end(&bench, 33);
    bench_destroy(&bench);
}

static void a_snapshot_of_the_end_ends_it(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 1);
    give_snapshot(&bench, 20, STEPS + 7);
    pass_end(&bench, 20);
    bench_destroy(&bench);
}

static void orders_take_effect_at_the_next_boundary(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 0);
    struct node_round *round = take_round(&bench);
    order(&bench, NODE_MAIL_PAUSE, 1); // in the middle of a rendezvous
    answer(&bench, round);
    pass_round(&bench, 1, false, LOCAL);
    wait_for_state(&bench, "paused");
    order(&bench, NODE_MAIL_PAUSE, 0);
    round = take_round(&bench);
    assert_true(round->meet.follows);
    answer(&bench, round);
    round = take_round(&bench);
    assert_int_equal(round->step, 2 * LOCAL);
    order(&bench, NODE_MAIL_PAUSE, 1);
    order(&bench, NODE_MAIL_FETCH_AGAIN, 0);
    take_give_up(&bench);
    answer(&bench, round);
    give_snapshot(&bench, 40, 80); // first, and then the pause
    pass_round(&bench, 40, false, 80);
    wait_for_state(&bench, "paused");
    order(&bench, NODE_MAIL_STOP_AT, 0);
    round = take_round(&bench);
    assert_true(round->checkpoint);
    answer(&bench, round);
    node_mail_free(take_told(&bench, NODE_MAIL_LEFT));
    bench_destroy(&bench);
}

static void who_is_left_alone_ends_at_the_next_boundary(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 0);
    pass_round(&bench, 1, true, LOCAL);
    struct node_round *round = take_round(&bench);
    order(&bench, NODE_MAIL_ALONE, 0); // in the middle of a rendezvous
    answer(&bench, round);
    pass_end_at(&bench, 2, 2 * LOCAL, true);
    bench_destroy(&bench);
}

static void who_fetches_and_is_left_alone_takes_no_step(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 1);
    order(&bench, NODE_MAIL_ALONE, 0);
    give_snapshot(&bench, 18, 90);
    pass_end_at(&bench, 18, 90, true);
    bench_destroy(&bench);
}

static void after_the_last_step_nobody_is_alone(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 0);
    for (uint64_t round = 1; round < STEPS / LOCAL; round++)
        pass_round(&bench, round, true, LOCAL * round);
    struct node_round *last = take_round(&bench);
    order(&bench, NODE_MAIL_ALONE, 0);
    answer(&bench, last);
    pass_end(&bench, STEPS / LOCAL);
    bench_destroy(&bench);
}

static void a_stop_ends_a_fetch_and_leaves_no_checkpoint(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 1);
    struct node_round *round = take_round(&bench);
    order(&bench, NODE_MAIL_STOP_AT, 0);
    struct node_mail *mail = node_mailbox_take(bench.worker, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_FETCH);
    assert_int_equal(mail->status, 0);
    node_mail_free(mail);
    round->fetched = false;
    answer(&bench, round);
    mail = take_told(&bench, NODE_MAIL_LEFT);
    assert_int_equal(mail->status, 0);
    node_mail_free(mail);
    assert_null(node_mailbox_take(bench.worker, 0));
    bench_destroy(&bench);
}

static void a_fetch_that_fails_is_told(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 1);
    answer(&bench, take_round(&bench)); // out of memory, say
    struct node_mail *mail = take_told(&bench, NODE_MAIL_LEFT);
    assert_int_equal(mail->status, 1);
    node_mail_free(mail);
    bench_destroy(&bench);
}

// The stop may come while the learner is in the middle of a round or has just brought it to the worker: that
// one is answered like any other, and the last rendezvous follows.
// Returns what it told last.
static struct node_progress stop(struct bench *bench)
{
    struct node_progress progress = {0};
    bool last = false;
    order(bench, NODE_MAIL_STOP_AT, 0);
    while (!last) {
        struct node_round *round = take_round(bench);
        last = round->meet.last;
        answer(bench, round);
    }
    for (bool left = false; !left;) {
        struct node_mail *mail = node_mailbox_take(bench->loop, UINT64_MAX);
        left = mail->kind == NODE_MAIL_LEFT;
        if (mail->kind == NODE_MAIL_PROGRESS)
            progress = mail->progress;
        node_mail_free(mail);
    }
    bench_destroy(bench);
    return progress;
}

static void scaled(struct node_config *config, struct train_options *options)
{
    config->train.scale_rate = true;
    config->average.outer_momentum = 0.1;
    options->schedule.count = 0;
}

// What the neighbours' pace makes of the rate holds from the next round on, and the exchange is told the rate
// in use.
static void a_slow_node_takes_larger_steps(void **state)
{
    static const double pace[] = {5, 0.5, 1};
    struct bench bench;
    (void)state;
    for (int scales = 0; scales < 2; scales++) {
        bench_create_as(&bench, scales ? scaled : NULL);
        order(&bench, NODE_MAIL_START, 0);
        double expected = LOCAL * 0.01;
        for (size_t i = 0; i < sizeof pace / sizeof *pace; i++) {
            struct node_round *round = take_round(&bench);
            assert_true((double)round->meet.step_scale > 0.9999 * expected &&
                        (double)round->meet.step_scale < 1.0001 * expected);
            assert_true(round->pace_ns > 0);
            round->pace = pace[i];
            expected = LOCAL * 0.01 * (scales ? pace[i] : 1);
            answer(&bench, round);
        }
        (void)stop(&bench);
    }
}

static void pulled(struct node_config *config, struct train_options *options)
{
    config->average.outer_momentum = 0;
    *options = (struct train_options){
        .optimizer = TRAIN_SGD, .rate = 0.1, .steps = STEPS, .batch = EXAMPLES, .proximal = 10};
}

// mu * rate = 1: a step that begins d away from where the round began ends at that place, but for the loss.
// What the exchange brought belongs to the new round's beginning, and nothing pulls at it.
static void each_round_pulls_back_to_its_own_beginning(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, pulled);
    order(&bench, NODE_MAIL_START, 0);
    for (int i = 1; i <= 3; i++) {
        struct node_round *round = take_round(&bench);
        for (size_t j = 0; j < D; j++) {
            assert_true(round->model[j] > 100 * (float)(i - 1) - 2 &&
                        round->model[j] < 100 * (float)(i - 1) + 2);
            round->model[j] += 100;
        }
        answer(&bench, round);
    }
    (void)stop(&bench);
}

static void spoiled(struct node_config *config, struct train_options *options)
{
    config->average.outer_momentum = 0.5;
    config->checkpoint.every_ns = 1; // one at every boundary
    *options = (struct train_options){
        .optimizer = TRAIN_SGD, .rate = 0.1, .momentum = 0.9, .steps = STEPS, .batch = EXAMPLES};
}

static void rarely_saved(struct node_config *config, struct train_options *options)
{
    config->checkpoint.every_ns = 20000000; // two boundaries are much closer
    config->train.steps = options->steps = UINT64_MAX;
    options->schedule.count = 0;
}

static void measured(struct node_config *config, struct train_options *options)
{
    (void)options;
    config->average.outer_momentum = 0;
    config->train.eval_rounds = 1;
}

static bool all_finite(const float *values)
{
    bool finite = true;
    for (size_t i = 0; i < D; i++)
        finite = finite && isfinite(values[i]);
    return finite;
}

// As the exchange does it: the published model comes back instead of one that is not finite.
static void roll_back(struct bench *bench, struct node_round *round)
{
    for (size_t i = 0; i < D; i++)
        round->model[i] = 0.25f;
    answer(bench, round);
}

// The first example is spoiled: every loss and gradient is NaN, and with the gradient the momentum.
static void ten_rounds_that_are_not_finite_end_the_node(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, NODE_MAIL_START, 0);
    struct node_round *round = take_round(&bench);
    assert_true(round->checkpoint && !round->meet.unusable && all_finite(round->model));
    bench.data.x[0] = NAN;
    answer(&bench, round);
    for (unsigned i = 1; i <= GOSSIP_ROUNDS_UNUSABLE_MAX; i++) {
        round = take_round(&bench);
        assert_int_equal(round->meet.round, i + 1);
        assert_true(round->meet.unusable && round->meet.meets && !round->checkpoint);
        roll_back(&bench, round);
    }
    round = take_round(&bench);
    assert_true(round->meet.last && round->checkpoint && !round->meet.unusable);
    struct train_state_vector vectors[4];
    assert_int_equal(train_trainer_state_vectors(bench.trainer, vectors), 1);
    assert_true(all_finite(round->model) && all_finite(round->outer) && all_finite(vectors[0].values));
    assert_true(round->model[3] == 0.25f && vectors[0].values[3] == 0);
    answer(&bench, round);
    struct node_mail *left = take_told(&bench, NODE_MAIL_LEFT);
    assert_int_equal(left->status, 1);
    node_mail_free(left);
    bench_destroy(&bench);
}

static void one_round_that_is_not_finite_is_forgotten(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, NODE_MAIL_START, 0);
    struct node_round *round = take_round(&bench);
    bench.data.x[0] = NAN;
    answer(&bench, round);
    round = take_round(&bench);
    assert_true(round->meet.unusable);
    bench.data.x[0] = 0;
    roll_back(&bench, round);
    round = take_round(&bench);
    assert_false(round->meet.unusable);
    assert_true(all_finite(round->model) && round->step == 3 * LOCAL); // the schedule has gone on
    answer(&bench, round);
    struct node_progress told = stop(&bench);
    assert_int_equal(told.rollbacks, 1);
    assert_int_equal(told.rollbacks_in_row, 0);
}

static void a_checkpoint_that_failed_is_tried_again_at_the_next_boundary(void **state)
{
    struct bench bench;
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        bench_create_as(&bench, rarely_saved);
        order(&bench, NODE_MAIL_START, 0);
        uint64_t number = 0;
        struct node_round *round = take_round(&bench);
        for (; !round->checkpoint; round = take_round(&bench)) {
            assert_int_equal(round->meet.round, ++number);
            answer(&bench, round);
        }
        round->checkpoint_error = fails ? BASE_EIO : BASE_OK;
        answer(&bench, round);
        round = take_round(&bench);
        assert_int_equal(round->checkpoint, fails); // else it is due after a while only
        answer(&bench, round);
        (void)stop(&bench);
    }
}

// What has come must not be taken from the last published model.
static void half_a_snapshot_leaves_the_node_as_it_was(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, NODE_MAIL_START, 0);
    struct node_round *round = take_round(&bench);
    order(&bench, NODE_MAIL_ALONE, 1);
    float before[D];
    memcpy(before, round->model, sizeof before);
    answer(&bench, round);
    round = take_round(&bench);
    assert_true(round->fetch);
    for (size_t i = 0; i < D; i++)
        round->model[i] = round->second_moment[i] = round->outer[i] = NAN;
    answer(&bench, round); // and the donor is gone
    round = take_round(&bench);
    assert_true(round->meet.finished && !round->meet.meets);
    assert_memory_equal(round->model, before, sizeof before);
    assert_true(all_finite(round->outer) && all_finite(round->second_moment));
    answer(&bench, round);
    node_mail_free(take_told(&bench, NODE_MAIL_FINISHED));
    order(&bench, NODE_MAIL_LEAVE, 0);
    round = take_round(&bench);
    assert_true(round->checkpoint); // its own state is whole
    answer(&bench, round);
    struct node_mail *left = take_told(&bench, NODE_MAIL_LEFT);
    assert_int_equal(left->status, 1); // and not the cluster's
    node_mail_free(left);
    bench_destroy(&bench);
}

// Of the optimiser only what the donor gave.
static void a_model_that_is_fetched_has_no_old_momentum(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, NODE_MAIL_START, 0);
    answer(&bench, take_round(&bench));
    struct node_round *round = take_round(&bench);
    order(&bench, NODE_MAIL_FETCH_AGAIN, 0);
    take_give_up(&bench);
    answer(&bench, round);
    round = take_round(&bench);
    assert_true(round->fetch);
    for (size_t i = 0; i < D; i++) {
        round->model[i] = 0;
        round->outer[i] = 0;
    }
    round->round = 9;
    round->step = 45;
    round->fetched = true;
    order(&bench, NODE_MAIL_PAUSE, 1); // to look before a step is taken
    answer(&bench, round);
    round = take_round(&bench);
    struct train_state_vector vectors[4];
    assert_int_equal(train_trainer_state_vectors(bench.trainer, vectors), 1);
    for (size_t i = 0; i < D; i++)
        assert_true(vectors[0].values[i] == 0 && bench.round_start[i] == 0);
    assert_int_equal(round->meet.round, 9);
    answer(&bench, round);
    (void)stop(&bench);
}

static struct train_dataset testing; // no example of it has the label that a trained model says

static void it_is_measured_on_the_test_set(void **state)
{
    struct bench bench;
    (void)state;
    make_data(&testing);
    for (size_t i = 0; i < EXAMPLES; i++)
        testing.labels[i] = 0;
    memset(testing.x, 0, EXAMPLES * FEATURES * sizeof *testing.x);
    test_set = &testing;
    bench_create_as(&bench, measured);
    test_set = NULL;
    order(&bench, NODE_MAIL_START, 0);
    answer(&bench, take_round(&bench));
    struct node_round *round = take_round(&bench); // the first is measured
    for (size_t i = 0; i < D; i++)
        round->model[i] = 0;
    round->model[D - 1] =
        1; // the bias of class 1: always said, never right in the test set, half the time in the other
    answer(&bench, round);
    assert_true(stop(&bench).accuracy == 0);
    train_dataset_destroy(&testing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_trains_to_the_end),
        cmocka_unit_test(a_late_joiner_goes_on_at_the_snapshots_step),
        cmocka_unit_test(a_snapshot_of_the_end_ends_it),
        cmocka_unit_test(orders_take_effect_at_the_next_boundary),
        cmocka_unit_test(who_is_left_alone_ends_at_the_next_boundary),
        cmocka_unit_test(who_fetches_and_is_left_alone_takes_no_step),
        cmocka_unit_test(after_the_last_step_nobody_is_alone),
        cmocka_unit_test(a_stop_ends_a_fetch_and_leaves_no_checkpoint),
        cmocka_unit_test(a_fetch_that_fails_is_told),
        cmocka_unit_test(a_slow_node_takes_larger_steps),
        cmocka_unit_test(each_round_pulls_back_to_its_own_beginning),
        cmocka_unit_test(ten_rounds_that_are_not_finite_end_the_node),
        cmocka_unit_test(one_round_that_is_not_finite_is_forgotten),
        cmocka_unit_test(a_checkpoint_that_failed_is_tried_again_at_the_next_boundary),
        cmocka_unit_test(half_a_snapshot_leaves_the_node_as_it_was),
        cmocka_unit_test(a_model_that_is_fetched_has_no_old_momentum),
        cmocka_unit_test(it_is_measured_on_the_test_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
