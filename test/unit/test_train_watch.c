// The watch over the losses of one node: what is far, what has diverged, what is an ordinary training.
#include "base/rng.h"
#include "train/watch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CHANCE 2.302585092994046 // ln(10)

static double unit(struct base_rng *rng)
{
    return (double)base_rng_below(rng, 1000000) / 1e6;
}

// Rounds of 4 steps of 32 labels with this loss, until a verdict or `most`. Returns the rounds taken.
static unsigned rounds_until(struct train_watch *watch, enum train_verdict verdict, double loss,
                             unsigned most)
{
    for (unsigned i = 1; i <= most; i++)
        if (train_watch_round(watch, loss, 128, 4) == verdict)
            return i;
    return 0;
}

static struct train_watch learned(double loss)
{
    struct train_watch watch = {0};
    train_watch_examples(&watch, CHANCE);
    assert_true(isinf(train_watch_bound(&watch)));
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, CHANCE, 16), 0);
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, loss, 400), 0);
    return watch;
}

static void a_node_that_loses_what_it_had_learned_has_diverged(void **state)
{
    (void)state;
    static const double after[] = {1e20, 9, CHANCE}; // the last: a model that has collapsed to one class
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        struct train_watch watch = learned(0.2);
        assert_true(train_watch_bound(&watch) > 0.5 * CHANCE && train_watch_bound(&watch) < 0.7 * CHANCE);
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, after[i], 100), 16); // four windows
        assert_true(watch.recovers);
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_GOOD, 0.2, 100), 4);
        assert_false(watch.recovers);
    }
}

static void one_bad_window_is_an_outlier(void **state)
{
    (void)state;
    struct train_watch watch = learned(0.2);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 50, 12), 0);
        assert_int_equal(watch.far, TRAIN_WATCH_FAR - 1);
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 0.2, 4), 0);
        assert_int_equal(watch.far, 0);
    }
}

// Also a slow rise, by 2% a window, which draws the usual loss with it.
static void a_slow_rise_is_noticed(void **state)
{
    (void)state;
    struct train_watch watch = learned(0.2);
    double loss = 0.2;
    while (rounds_until(&watch, TRAIN_VERDICT_DIVERGED, loss, 4) == 0)
        loss *= 1.02;
    assert_true(loss > 1.3 && loss < 1.8);
}

// It swings between good and bad windows, so that no four in a row are far.
static void a_node_that_swings_has_risen(void **state)
{
    (void)state;
    struct train_watch watch = learned(0.2);
    assert_false(train_watch_has_risen(&watch));
    for (int i = 0; i < 30; i++) {
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 6, 4), 0);
        assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 1.25, 4), 0);
    }
    assert_true(train_watch_has_risen(&watch));
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 0.2, 80), 0);
    assert_false(train_watch_has_risen(&watch));
}

static void a_node_that_never_learned_diverges_at_ten_times_of_nothing(void **state)
{
    (void)state;
    struct train_watch watch = learned(2.0);
    assert_true(fabs(train_watch_bound(&watch) - 10 * CHANCE) < 1e-6);
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, 20, 100), 0);
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_DIVERGED, 30, 100), 16);
}

static void another_model_has_other_losses(void **state)
{
    (void)state;
    struct train_watch watch = learned(0.2);
    train_watch_forget(&watch);
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, 20, 100), 0);
    watch = learned(0.2);
    train_watch_examples(&watch, 100); // the past stays, on another scale
    assert_true(train_watch_bound(&watch) == 60);
    train_watch_examples(&watch, 0); // nothing is known of its loss: no bound
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, 1, 100), 0);
    assert_int_equal(rounds_until(&watch, TRAIN_VERDICT_FAR, 1e30, 100), 0);
}

// A state is worth keeping if the window and its last round are fine.
static void a_state_after_a_bad_round_is_not_good(void **state)
{
    (void)state;
    struct train_watch watch = learned(0.2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(train_watch_round(&watch, 0.01, 1280, 4), TRAIN_VERDICT_OPEN);
    assert_int_equal(train_watch_round(&watch, 5, 32, 4), TRAIN_VERDICT_OPEN);
}

// Losses that fall with noise, of batches of one, with a restart of the rate, of rare events: no alarm.
static void ordinary_trainings_raise_no_alarm(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, 7);
    for (int run = 0; run < 500; run++) {
        struct train_watch watch = {0};
        train_watch_examples(&watch, CHANCE);
        const double rate = 0.001 + 0.05 * unit(&rng), floor = 0.02 + unit(&rng), noise = unit(&rng);
        const double labels = run % 3 ? 32 : 1; // batches of one: a window is 256 steps
        for (unsigned t = 0; t < 3000; t++) {
            const double restart = t % 1000 < 100 && run % 2 ? 0.4 : 0;
            double loss = floor + restart + 2.5 * exp(-rate * t);
            loss *= 1 + noise * (unit(&rng) - 0.5) * 2;
            loss += unit(&rng) < 0.02 ? 5 * unit(&rng) : 0;
            assert_int_not_equal(train_watch_round(&watch, loss, labels, 1), TRAIN_VERDICT_DIVERGED);
        }
    }
}

static void the_loss_of_nothing_follows_from_the_data(void **state)
{
    (void)state;
    float targets[] = {1, -2, 3, 0};
    const struct train_dataset data = {.examples = 2, .outputs = 2, .targets = targets};
    struct train_model_spec spec = {.classes = 10, .loss = TRAIN_CROSS_ENTROPY};
    assert_true(fabs(train_loss_of_nothing(&spec, &data) - CHANCE) < 1e-12);
    spec.loss = TRAIN_MSE;
    assert_true(train_loss_of_nothing(&spec, &data) == 3.5);
    spec.loss = TRAIN_MAE;
    assert_true(train_loss_of_nothing(&spec, &data) == 1.5);
}

static unsigned program_until(struct train_program_watch *program, enum train_verdict verdict, double loss,
                              unsigned most)
{
    for (unsigned i = 1; i <= most; i++)
        if (train_program_round(program, loss, 4) == verdict)
            return i;
    return 0;
}

// Its first losses, whatever they measure, are those of a model that knows nothing.
static void the_losses_of_a_program_are_compared_with_its_first(void **state)
{
    (void)state;
    static const double scales[] = {1e-6, 1, 1e6};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct train_program_watch program = {0};
        const double unit_loss = scales[i];
        assert_int_equal(program_until(&program, TRAIN_VERDICT_FAR, 2 * unit_loss, 8), 0);
        assert_int_equal(program_until(&program, TRAIN_VERDICT_FAR, 0.2 * unit_loss, 400), 0);
        assert_true(train_program_round(&program, (double)NAN, 4) == TRAIN_VERDICT_OPEN); // not told
        assert_int_equal(program_until(&program, TRAIN_VERDICT_DIVERGED, 1.1 * unit_loss, 200), 0);
        assert_int_equal(program_until(&program, TRAIN_VERDICT_DIVERGED, 1.9 * unit_loss, 100), 16);
        assert_true(train_watch_is_diverged(&program.watch));
        assert_int_equal(program_until(&program, TRAIN_VERDICT_GOOD, 0.2 * unit_loss, 200) > 0, 1);
        assert_false(program.watch.recovers);
    }
}

// The first losses of a model that was trained say nothing of one that knows nothing.
static void a_trained_model_has_more_room(void **state)
{
    (void)state;
    struct train_program_watch program = {0};
    train_program_takes(&program);
    assert_int_equal(program_until(&program, TRAIN_VERDICT_FAR, 0.2, 400), 0);
    assert_int_equal(program_until(&program, TRAIN_VERDICT_DIVERGED, 1.0, 100),
                     0); // other data: 5 times as much
    assert_int_equal(program_until(&program, TRAIN_VERDICT_DIVERGED, 3.0, 100), 16);
    train_program_takes(&program); // of another node
    assert_false(program.watch.recovers);
    assert_int_equal(program_until(&program, TRAIN_VERDICT_DIVERGED, 3.0, 100), 0);
}

static void a_loss_without_multiples_is_not_watched(void **state)
{
    (void)state;
    struct train_program_watch program = {0};
    assert_int_equal(program_until(&program, TRAIN_VERDICT_FAR, 0.2, 100), 0);
    assert_int_equal(train_program_round(&program, -0.1, 4), TRAIN_VERDICT_OPEN);
    assert_int_equal(program_until(&program, TRAIN_VERDICT_FAR, 1e9, 100), 0);
    assert_false(train_watch_is_diverged(&program.watch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_loses_what_it_had_learned_has_diverged),
        cmocka_unit_test(one_bad_window_is_an_outlier),
        cmocka_unit_test(a_slow_rise_is_noticed),
        cmocka_unit_test(a_node_that_swings_has_risen),
        cmocka_unit_test(a_node_that_never_learned_diverges_at_ten_times_of_nothing),
        cmocka_unit_test(another_model_has_other_losses),
        cmocka_unit_test(a_state_after_a_bad_round_is_not_good),
        cmocka_unit_test(ordinary_trainings_raise_no_alarm),
        cmocka_unit_test(the_loss_of_nothing_follows_from_the_data),
        cmocka_unit_test(the_losses_of_a_program_are_compared_with_its_first),
        cmocka_unit_test(a_trained_model_has_more_room),
        cmocka_unit_test(a_loss_without_multiples_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
