// What the learner thread does to the model: larger steps, pulling back, models that are not finite,
// snapshots, and the measurement.
#include "test/support/learner_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// The stop may come while the learner is in the middle of a round or has just passed it to the worker: that
// rendezvous is answered like any other, and the last one follows.
// Returns its last report.
static struct node_progress stop(struct bench *bench)
{
    struct node_progress progress = {0};
    bool last = false;
    order(bench, GOSSIP_ORDER_STOP, false);
    while (!last) {
        struct node_round *round = take_round(bench);
        last = round->at.meet.last;
        answer(bench, round);
    }
    for (bool left = false; !left;) {
        struct node_message *message = node_mailbox_take(bench->boxes.loop, UINT64_MAX);
        left = message->kind == NODE_MESSAGE_LEFT;
        if (message->kind == NODE_MESSAGE_PROGRESS)
            progress = message->progress;
        node_message_free(message);
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

// The rate that follows from the pace of the neighbours applies from the next round on, and the exchange is
// told the rate in use.
static void a_slow_node_takes_larger_steps(void **state)
{
    static const double pace[] = {5, 0.5, 1};
    struct bench bench;
    (void)state;
    for (int scales = 0; scales < 2; scales++) {
        bench_create_as(&bench, scales ? scaled : NULL);
        order(&bench, GOSSIP_ORDER_START, false);
        double expected = LOCAL * 0.01;
        for (size_t i = 0; i < sizeof pace / sizeof *pace; i++) {
            struct node_round *round = take_round(&bench);
            assert_true((double)round->at.meet.step_scale > 0.9999 * expected &&
                        (double)round->at.meet.step_scale < 1.0001 * expected);
            assert_true(round->at.pace_ns > 0);
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

// mu * rate = 1: a step that begins at a distance d from the beginning of the round ends at that place,
// except for the loss. What the exchange changed belongs to the beginning of the new round, and is not pulled
// back.
static void each_round_pulls_back_to_its_own_beginning(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, pulled);
    order(&bench, GOSSIP_ORDER_START, false);
    for (int i = 1; i <= 3; i++) {
        struct node_round *round = take_round(&bench);
        for (size_t j = 0; j < D; j++) {
            assert_true(round->at.vectors.model[j] > 100 * (float)(i - 1) - 2 &&
                        round->at.vectors.model[j] < 100 * (float)(i - 1) + 2);
            round->at.vectors.model[j] += 100;
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
    config->checkpoint.every_ns = 20000000; // two boundaries are much closer together
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

// As the exchange does it: the published model replaces one that is not finite.
static void roll_back(struct bench *bench, struct node_round *round)
{
    for (size_t i = 0; i < D; i++)
        round->at.vectors.model[i] = 0.25f;
    answer(bench, round);
}

// The first example is invalid: every loss and gradient is NaN, and with the gradient the momentum.
static void ten_non_finite_rounds_in_a_row_end_the_node(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, GOSSIP_ORDER_START, false);
    struct node_round *round = take_round(&bench);
    assert_true(round->checkpoint && !round->at.meet.unusable && all_finite(round->at.vectors.model));
    bench.data.x[0] = NAN;
    answer(&bench, round);
    for (unsigned i = 1; i <= GOSSIP_ROUNDS_UNUSABLE_MAX; i++) {
        round = take_round(&bench);
        assert_int_equal(round->at.meet.round, i + 1);
        assert_true(round->at.meet.unusable && round->at.meet.meets && !round->checkpoint);
        roll_back(&bench, round);
    }
    round = take_round(&bench);
    assert_true(round->at.meet.last && round->checkpoint && !round->at.meet.unusable);
    struct train_state_vector vectors[4];
    assert_int_equal(train_trainer_state_vectors(bench.trainer, vectors), 1);
    assert_true(all_finite(round->at.vectors.model) && all_finite(round->at.vectors.outer) &&
                all_finite(vectors[0].values));
    assert_true(round->at.vectors.model[3] == 0.25f && vectors[0].values[3] == 0);
    answer(&bench, round);
    struct node_message *left = take_told(&bench, NODE_MESSAGE_LEFT);
    assert_int_equal(left->as.left.exit_status, 1);
    node_message_free(left);
    bench_destroy(&bench);
}

static void one_round_that_is_not_finite_is_discarded(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, GOSSIP_ORDER_START, false);
    struct node_round *round = take_round(&bench);
    bench.data.x[0] = NAN;
    answer(&bench, round);
    round = take_round(&bench);
    assert_true(round->at.meet.unusable);
    bench.data.x[0] = 0;
    roll_back(&bench, round);
    round = take_round(&bench);
    assert_false(round->at.meet.unusable);
    assert_true(all_finite(round->at.vectors.model) && round->step == 3 * LOCAL); // the schedule has advanced
    answer(&bench, round);
    struct node_progress told = stop(&bench);
    assert_int_equal(told.rollbacks, 1);
    assert_int_equal(told.rollbacks_in_row, 0);
}

static void a_checkpoint_that_failed_is_tried_again_once_and_then_seldom(void **state)
{
    struct bench bench;
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        bench_create_as(&bench, rarely_saved);
        order(&bench, GOSSIP_ORDER_START, false);
        uint64_t number = 0;
        struct node_round *round = take_round(&bench);
        for (; !round->checkpoint; round = take_round(&bench)) {
            assert_int_equal(round->at.meet.round, ++number);
            answer(&bench, round);
        }
        round->checkpoint_error = fails ? BASE_EIO : BASE_OK;
        answer(&bench, round);
        round = take_round(&bench);
        assert_int_equal(round->checkpoint, fails); // otherwise it is due only after a while
        round->checkpoint_error = fails ? BASE_EIO : BASE_OK;
        answer(&bench, round);
        for (int i = 0; i < 100 && fails; i++) { // of a disk that stays full
            round = take_round(&bench);
            assert_false(round->checkpoint);
            answer(&bench, round);
        }
        boxes_post(&bench.boxes, node_message_new(NODE_MESSAGE_SAVE)); // a request is tried at once
        for (number = 0; !(round = take_round(&bench))->checkpoint; number++) {
            assert_true(number < 3);
            answer(&bench, round);
        }
        answer(&bench, round);
        (void)stop(&bench);
    }
}

// Parts that have arrived must not be restored from the last published model.
static void an_incomplete_snapshot_leaves_the_node_unchanged(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    struct node_round *round = take_round(&bench);
    order(&bench, GOSSIP_ORDER_ALONE, true);
    float before[D];
    memcpy(before, round->at.vectors.model, sizeof before);
    answer(&bench, round);
    round = take_round(&bench);
    assert_int_equal(round->kind, NODE_ROUND_FETCH);
    for (size_t i = 0; i < D; i++)
        round->at.vectors.model[i] = round->at.vectors.second_moment[i] = round->at.vectors.outer[i] = NAN;
    answer(&bench, round); // and the donor is gone
    round = take_round(&bench);
    assert_true(round->at.meet.finished && !round->at.meet.meets);
    assert_memory_equal(round->at.vectors.model, before, sizeof before);
    assert_true(all_finite(round->at.vectors.outer) && all_finite(round->at.vectors.second_moment));
    answer(&bench, round);
    node_message_free(take_told(&bench, NODE_MESSAGE_FINISHED));
    order(&bench, GOSSIP_ORDER_LEAVE, false);
    round = take_round(&bench);
    assert_true(round->checkpoint); // its own state is complete
    answer(&bench, round);
    struct node_message *left = take_told(&bench, NODE_MESSAGE_LEFT);
    assert_int_equal(left->as.left.exit_status, 1); // and not that of the cluster
    node_message_free(left);
    bench_destroy(&bench);
}

// The optimiser has only what the donor gave.
static void a_fetched_model_has_no_old_momentum(void **state)
{
    struct bench bench;
    (void)state;
    bench_create_as(&bench, spoiled);
    order(&bench, GOSSIP_ORDER_START, false);
    answer(&bench, take_round(&bench));
    struct node_round *round = take_round(&bench);
    order(&bench, GOSSIP_ORDER_FETCH, false);
    take_give_up(&bench);
    answer(&bench, round);
    round = take_round(&bench);
    assert_int_equal(round->kind, NODE_ROUND_FETCH);
    for (size_t i = 0; i < D; i++) {
        round->at.vectors.model[i] = 0;
        round->at.vectors.outer[i] = 0;
    }
    round->round = 9;
    round->step = 45;
    round->done = true;
    order(&bench, GOSSIP_ORDER_PAUSE, true); // to look before a step is taken
    answer(&bench, round);
    round = take_round(&bench);
    struct train_state_vector vectors[4];
    assert_int_equal(train_trainer_state_vectors(bench.trainer, vectors), 1);
    for (size_t i = 0; i < D; i++)
        assert_true(vectors[0].values[i] == 0 && bench.round_start[i] == 0);
    assert_int_equal(round->at.meet.round, 9);
    answer(&bench, round);
    (void)stop(&bench);
}

static struct train_dataset testing; // no example has the label that a trained model predicts

// A model knows the bias of a class, and is measured on examples that are all of class 0.
static void begin_measured(struct bench *bench)
{
    make_data(&testing);
    for (size_t i = 0; i < EXAMPLES; i++)
        testing.labels[i] = 0;
    memset(testing.x, 0, EXAMPLES * FEATURES * sizeof *testing.x);
    test_set = &testing;
    bench_create_as(bench, measured);
    test_set = NULL;
    order(bench, GOSSIP_ORDER_START, false);
}

static void a_model_is_measured_on_the_test_set(void **state)
{
    struct bench bench;
    (void)state;
    begin_measured(&bench);
    answer(&bench, take_round(&bench));
    struct node_round *round = take_round(&bench); // the first one is measured
    for (size_t i = 0; i < D; i++)
        round->at.vectors.model[i] = 0;
    round->at.vectors.model[D - 1] =
        1; // the bias of class 1: always predicted, never right in the test set, half the time in the other
    answer(&bench, round);
    assert_true(stop(&bench).accuracy == 0);
    train_dataset_destroy(&testing);
}

// Measured on this node's own held-out examples, all of class 0, of which a model knows the bias of a class.
static void a_fetched_model_is_compared_with_the_one_that_it_replaces(void **state)
{
    (void)state;
    for (size_t class = 0; class < CLASSES; class ++) {
        struct bench bench;
        char log[8192];
        FILE *file = tmpfile();
        const int terminal = dup(STDERR_FILENO);
        assert_true(file && terminal >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
        begin_measured(&bench);
        struct node_round *round = take_round(&bench);
        for (size_t i = 0; i < D; i++)
            round->at.vectors.model[i] = i == D - CLASSES;
        order(&bench, GOSSIP_ORDER_FETCH, false);
        take_give_up(&bench);
        answer(&bench, round);
        round = take_round(&bench);
        assert_int_equal(round->kind, NODE_ROUND_FETCH);
        for (size_t i = 0; i < D; i++)
            round->at.vectors.model[i] = i == D - CLASSES + class;
        round->round = 9;
        round->step = 45;
        round->done = true;
        answer(&bench, round);
        (void)stop(&bench);
        assert_true(fflush(stderr) == 0 && dup2(terminal, STDERR_FILENO) >= 0);
        close(terminal);
        rewind(file);
        log[fread(log, 1, sizeof log - 1, file)] = 0;
        fclose(file);
        assert_non_null(strstr(log, class ? "warn  adopted" : "info  adopted"));
        assert_non_null(strstr(log, class ? "100.00%; the adopted one: 1.3133, 0.00%: clearly worse"
                                          : "100.00%; the adopted one: 0.3133, 100.00%\n"));
        train_dataset_destroy(&testing);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_node_takes_larger_steps),
        cmocka_unit_test(each_round_pulls_back_to_its_own_beginning),
        cmocka_unit_test(ten_non_finite_rounds_in_a_row_end_the_node),
        cmocka_unit_test(one_round_that_is_not_finite_is_discarded),
        cmocka_unit_test(a_checkpoint_that_failed_is_tried_again_once_and_then_seldom),
        cmocka_unit_test(an_incomplete_snapshot_leaves_the_node_unchanged),
        cmocka_unit_test(a_fetched_model_has_no_old_momentum),
        cmocka_unit_test(a_model_is_measured_on_the_test_set),
        cmocka_unit_test(a_fetched_model_is_compared_with_the_one_that_it_replaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
