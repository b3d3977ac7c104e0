// How the rate rises and falls, gradients that are clipped, and batches in parts.
#include "trainer_world.h"

static void a_cosine_schedule_follows_its_warm_up(void **state)
{
    (void)state;
    struct train_options options = sgd;
    options.steps = 31;
    options.schedule = (struct train_schedule){.decay = TRAIN_DECAY_COSINE, .warmup = 10, .floor = 0.1};
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &options);
    double last = 0;
    for (size_t step = 0; step <= 35; step++) {
        const double rate = train_trainer_rate(s.trainer) / options.rate;
        if (step < 10) {
            assert_true(fabs(rate - (double)(step + 1) / 11.0) < 1e-12);
        } else if (step <= 30) {
            assert_true(fabs(rate - (0.1 + 0.45 * (1.0 + cos(acos(-1.0) * (double)(step - 10) / 20.0)))) <
                        1e-12);
        }
        assert_true(step == 0 || (step <= 10 ? rate > last : rate <= last));
        assert_true(step != 10 || rate == 1.0);
        assert_true(step < 30 || fabs(rate - 0.1) < 1e-12); // and stays there
        last = rate;
        (void)run(s.trainer, 1);
    }
    close_setup(&s);
}

static void warm_up_comes_before_steps(void **state)
{
    (void)state;
    struct train_options options = sgd;
    options.steps = 20;
    options.schedule = (struct train_schedule){.count = 1, .at = {0.5}, .factor = {0.25}, .warmup = 3};
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &options);
    for (size_t step = 0; step < 20; step++) {
        const double expected = step < 3 ? (double)(step + 1) / 4.0 : step < 10 ? 1.0 : 0.25;
        assert_true(fabs(train_trainer_rate(s.trainer) / options.rate - expected) < 1e-12);
        (void)run(s.trainer, 1);
    }
    close_setup(&s);
}

static double step_length(const struct train_options *options, size_t hidden)
{
    struct setup s;
    double square = 0;
    open_setup(&s, clusters(40, 6, 3), hidden, options);
    (void)run(s.trainer, 1);
    for (size_t i = 0; i < s.count; i++) {
        const double d = (double)train_trainer_model(s.trainer)[i] - (double)s.start[i];
        square += d * d;
    }
    close_setup(&s);
    return sqrt(square);
}

// A step of plain SGD is rate times the gradient, so its length shows the norm of the gradient.
static void gradients_are_clipped_to_the_bound(void **state)
{
    (void)state;
    for (size_t hidden = 0; hidden <= 40; hidden += 20) {
        struct train_options options = sgd;
        const double norm = step_length(&options, hidden) / options.rate;
        assert_true(norm > 0.1);
        options.clip_norm = 0.25 * norm;
        assert_true(fabs(step_length(&options, hidden) / options.rate / options.clip_norm - 1.0) < 1e-3);
        options.clip_norm = 4.0 * norm;
        assert_true(fabs(step_length(&options, hidden) / options.rate / norm - 1.0) < 1e-6);
    }
}

// The square of its norm is infinite in fp32. Scaled by 1 / infinity it would be a step of zeros, and nobody
// would see that the training has diverged.
static void a_gradient_that_is_too_large_to_be_clipped_stays(void **state)
{
    (void)state;
    struct train_options options = sgd;
    options.clip_norm = 1.0;
    options.weight = 1e25;
    assert_true(step_length(&options, 0) > 1e20);
}

static void a_batch_in_parts_gives_the_same_gradient(void **state)
{
    (void)state;
    for (size_t o = 0; o < 2; o++) {
        for (size_t micro = 1; micro <= 8; micro++) {
            struct train_options options = *optimisers[o], parts = options;
            struct setup s;
            parts.micro_batch = micro;
            open_setup(&s, clusters(21, 6, 3), 9, &options);
            struct train_trainer *other = make_trainer(&s, &parts);
            for (size_t step = 0; step < 20; step++) {
                struct kernels_loss a, b;
                size_t rows_a, rows_b;
                train_trainer_step(s.trainer, false, &a, &rows_a);
                train_trainer_step(other, false, &b, &rows_b);
                assert_true(rows_a == rows_b && fabs(a.loss_sum - b.loss_sum) < 1e-3 * (1.0 + a.loss_sum));
            }
            for (size_t i = 0; i < s.count; i++) {
                assert_true(fabsf(train_trainer_model(s.trainer)[i] - train_trainer_model(other)[i]) < 1e-4f);
            }
            train_trainer_destroy(other);
            close_setup(&s);
        }
    }
}

static void a_seek_continues_bit_for_bit(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMISERS; o++) {
        struct train_options options = *optimisers[o];
        options.schedule = (struct train_schedule){.decay = TRAIN_DECAY_COSINE, .warmup = 5};
        options.clip_norm = 0.3;
        options.micro_batch = 3;
        struct setup s;
        open_setup(&s, clusters(21, 6, 3), 9, &options);
        (void)run(s.trainer, 13);
        struct train_trainer *copy = restored(&s, &options);
        (void)run(s.trainer, 23);
        (void)run(copy, 23);
        assert_same_model(s.trainer, copy, s.count);
        train_trainer_destroy(copy);
        close_setup(&s);
    }
}

static void invalid_schedules_are_refused(void **state)
{
    (void)state;
    struct train_options bad[] = {sgd, sgd, sgd, sgd};
    struct base_reason why;
    bad[0].clip_norm = -1.0;
    bad[1].clip_norm = INFINITY;
    bad[2].schedule.floor = 1.5;
    bad[3].schedule =
        (struct train_schedule){.count = 1, .at = {0.5}, .factor = {1.0}, .decay = TRAIN_DECAY_COSINE};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(train_options_check(&bad[i], &why), BASE_EINVAL);
    }
    assert_int_equal(train_options_check(&sgd, &why), BASE_OK);
}

int main(void)
{
    if (open_world() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cosine_schedule_follows_its_warm_up),
        cmocka_unit_test(warm_up_comes_before_steps),
        cmocka_unit_test(gradients_are_clipped_to_the_bound),
        cmocka_unit_test(a_gradient_that_is_too_large_to_be_clipped_stays),
        cmocka_unit_test(a_batch_in_parts_gives_the_same_gradient),
        cmocka_unit_test(a_seek_continues_bit_for_bit),
        cmocka_unit_test(invalid_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
