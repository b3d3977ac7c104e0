// The training loop: order of the data, schedule, optimisers, correction, seek, and that it learns.
#include "trainer_world.h"

static void training_is_deterministic(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMISERS; o++) {
        struct setup s;
        open_setup(&s, clusters(40, 6, 3), 9, optimisers[o]);
        struct train_options other_order = *optimisers[o];
        other_order.seed++;
        struct train_trainer *twin = make_trainer(&s, optimisers[o]), *other = make_trainer(&s, &other_order);
        (void)run(s.trainer, 50);
        (void)run(twin, 50);
        (void)run(other, 50);
        assert_same_model(s.trainer, twin, s.count);
        assert_memory_not_equal(train_trainer_model(s.trainer), train_trainer_model(other),
                                s.count * sizeof(float));
        train_trainer_destroy(twin);
        train_trainer_destroy(other);
        close_setup(&s);
    }
}

static void a_seek_continues_bit_for_bit(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMISERS; o++) {
        struct setup s;
        open_setup(&s, clusters(21, 6, 3), 9, optimisers[o]); // an epoch is exactly three batches
        for (size_t stop = 0; stop < 8; stop++) {
            struct train_trainer *copy = restored(&s, optimisers[o]);
            assert_int_equal(train_trainer_steps_done(copy), train_trainer_steps_done(s.trainer));
            (void)run(s.trainer, 23);
            (void)run(copy, 23);
            assert_same_model(s.trainer, copy, s.count);
            train_trainer_destroy(copy);
        }
        close_setup(&s);
    }
}

// Random crops and flips depend only on the position in the data.
static void a_seek_continues_with_the_same_augmented_images(void **state)
{
    (void)state;
    struct train_options augmented = sgd;
    struct train_dataset images = clusters(21, 6, 3);
    struct setup s;
    augmented.augment = (struct train_augment){.crop = 1, .flip = true};
    images.height = 2;
    images.width = 3;
    images.channels = 1;
    open_setup(&s, images, 9, &augmented);
    struct train_trainer *plain = make_trainer(&s, &sgd);
    for (size_t stop = 0; stop < 8; stop++) {
        struct train_trainer *copy = restored(&s, &augmented);
        (void)run(s.trainer, 5);
        (void)run(copy, 5);
        (void)run(plain, 5);
        assert_same_model(s.trainer, copy, s.count);
        train_trainer_destroy(copy);
    }
    assert_memory_not_equal(train_trainer_model(plain), train_trainer_model(s.trainer),
                            s.count * sizeof(float));
    train_trainer_destroy(plain);
    close_setup(&s);
}

static void a_seek_refuses_invalid_cursors(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &sgd);
    struct train_trainer *twin = make_trainer(&s, &sgd);
    const struct train_cursor bad[] = {{.step = 3, .position = 41, .seed = 3},
                                       {.step = 3, .position = 4, .seed = 4}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(train_trainer_seek(s.trainer, &bad[i]), BASE_EINVAL);
    }
    (void)run(s.trainer, 9); // nothing has changed
    (void)run(twin, 9);
    assert_same_model(s.trainer, twin, s.count);
    train_trainer_destroy(twin);
    close_setup(&s);
}

// Example i has the single feature i, so that a step of SGD changes exactly the weights of the rows that it
// used.
static void epochs_show_every_example_once(void **state)
{
    (void)state;
    enum { EXAMPLES = 23, CLASSES = 3, EPOCHS = 7 };
    struct train_dataset data = clusters(EXAMPLES, EXAMPLES, CLASSES);
    for (size_t i = 0; i < EXAMPLES * EXAMPLES; i++) {
        data.x[i] = i / EXAMPLES == i % EXAMPLES ? 1.0f : 0.0f;
    }
    struct train_options options = sgd;
    options.batch = 1;
    struct setup s;
    open_setup(&s, data, 0, &options);
    unsigned first[EXAMPLES] = {0}, moved = 0;
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        unsigned seen[EXAMPLES] = {0};
        for (size_t step = 0; step < EXAMPLES; step++) {
            float before[EXAMPLES * CLASSES];
            memcpy(before, train_trainer_model(s.trainer), sizeof before);
            (void)run(s.trainer, 1);
            for (size_t i = 0; i < EXAMPLES; i++) {
                if (memcmp(before + i * CLASSES, train_trainer_model(s.trainer) + i * CLASSES, CLASSES * 4) !=
                    0) {
                    seen[i]++;
                    moved += epoch > 0 && first[step] != i;
                    first[step] = epoch == 0 ? (unsigned)i : first[step];
                }
            }
        }
        for (size_t i = 0; i < EXAMPLES; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
    assert_true(moved > EXAMPLES); // each epoch has its own order
    close_setup(&s);
}

static void batches_are_full_and_cross_epochs(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(10, 6, 3), 0, &sgd);
    for (uint64_t step = 1; step <= 30; step++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(s.trainer, false, &loss, &rows);
        const struct train_cursor cursor = train_trainer_cursor(s.trainer);
        assert_int_equal(rows, 7);
        assert_int_equal(cursor.step, step);
        assert_int_equal(cursor.epoch * 10 + cursor.position, step * 7);
    }
    close_setup(&s);
    struct setup small;
    open_setup(&small, clusters(5, 6, 3), 0, &sgd); // a batch larger than the shard is cut to its size
    struct kernels_loss loss;
    size_t rows;
    train_trainer_step(small.trainer, false, &loss, &rows);
    assert_int_equal(rows, 5);
    close_setup(&small);
}

static void the_schedule_counts_steps(void **state)
{
    (void)state;
    struct train_options options = sgd;
    options.steps = 20;
    options.schedule = (struct train_schedule){.count = 2, .at = {0.6, 0.85}, .factor = {0.3, 0.1}};
    struct setup s;
    open_setup(&s, clusters(10, 6, 3), 0, &options);
    for (size_t step = 0; step < 25; step++) {
        const double expected = step < 12 ? 0.1 : step < 17 ? 0.03 : 0.01;
        assert_true(fabs(train_trainer_rate(s.trainer) - expected) < 1e-15);
        (void)run(s.trainer, 1);
    }
    close_setup(&s);
}

// x' = x - rate * (step - c): compared with a twin without c, the model moves by rate * c, and the
// optimiser's state not at all.
static void the_correction_acts_outside_the_optimiser(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMISERS; o++) {
        struct setup s;
        open_setup(&s, clusters(40, 6, 3), 9, optimisers[o]);
        (void)run(s.trainer, 11);
        struct train_trainer *twin = restored(&s, optimisers[o]), *ignoring = restored(&s, optimisers[o]);
        float *correction = train_trainer_correction(s.trainer);
        for (size_t i = 0; i < s.count; i++) {
            assert_true(correction[i] == 0.0f);
            correction[i] = (float)i * 0.01f - 0.3f;
            train_trainer_correction(ignoring)[i] = correction[i];
        }
        train_trainer_store(s.trainer);
        const double rate = train_trainer_rate(s.trainer);
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(s.trainer, true, &loss, &rows);
        (void)run(twin, 1);
        (void)run(ignoring, 1);
        assert_same_model(twin, ignoring, s.count);
        for (size_t i = 0; i < s.count; i++) {
            const double x = (double)train_trainer_model(twin)[i], moved = rate * (double)correction[i];
            const double found = (double)train_trainer_model(s.trainer)[i];
            assert_true(fabs(found - (x + moved)) < 1e-6 * (1.0 + fabs(x) + fabs(moved))); // a few roundings
        }
        struct train_state_vector a[4], b[4];
        const size_t vectors = train_trainer_state_vectors(s.trainer, a);
        assert_int_equal(train_trainer_state_vectors(twin, b), vectors);
        for (size_t i = 0; i < vectors; i++) {
            assert_memory_equal(a[i].values, b[i].values, s.count * sizeof(float));
        }
        train_trainer_destroy(twin);
        train_trainer_destroy(ignoring);
        close_setup(&s);
    }
}

// The trainer's rule over many steps compared with the same rule in double, on the gradients that the model
// gives.
static void optimisers_follow_their_rules(void **state)
{
    (void)state;
    for (size_t o = 0; o < ELEMENTWISE; o++) {
        const struct train_options *options = optimisers[o];
        struct train_options all = *options; // one batch is the whole shard: its order only permutes a sum
        all.batch = 20;
        struct setup s;
        open_setup(&s, clusters(20, 6, 3), 0, &all); // no kinks: rounding stays small
        double *m = get(s.count * sizeof *m), *v = get(s.count * sizeof *v), *x = get(s.count * sizeof *x);
        float *g = get(s.count * sizeof *g), *x32 = get(s.count * sizeof *x32);
        for (size_t i = 0; i < s.count; i++) {
            x[i] = (double)s.start[i];
        }
        for (int t = 1; t <= 40; t++) {
            const double rate = train_trainer_rate(s.trainer);
            struct kernels_loss loss;
            for (size_t i = 0; i < s.count; i++) {
                x32[i] = (float)x[i];
            }
            train_model_gradient(s.model, x32, s.data.x, s.data.labels, 20, 1.0f, g, &loss);
            for (size_t i = 0; i < s.count; i++) {
                const double gi = (double)g[i];
                if (options->optimizer == TRAIN_SGD) {
                    m[i] = options->momentum * m[i] + gi + options->weight_decay * x[i];
                    x[i] -= rate * m[i];
                } else if (options->optimizer == TRAIN_LION) {
                    const double mean = options->beta1 * m[i] + (1.0 - options->beta1) * gi;
                    m[i] = options->beta2 * m[i] + (1.0 - options->beta2) * gi;
                    x[i] -= rate * ((mean > 0.0) - (mean < 0.0) + options->weight_decay * x[i]);
                } else {
                    m[i] = options->beta1 * m[i] + (1.0 - options->beta1) * gi;
                    v[i] = options->beta2 * v[i] + (1.0 - options->beta2) * gi * gi;
                    const double mean = m[i] / (1.0 - pow(options->beta1, t));
                    const double square = v[i] / (1.0 - pow(options->beta2, t));
                    x[i] -= rate * (mean / (sqrt(square) + options->epsilon) + options->weight_decay * x[i]);
                }
            }
            (void)run(s.trainer, 1);
        }
        // Rounding of 40 steps, fed back through the gradient: measured below 2e-6; a wrong rule differs by
        // 1e-2.
        for (size_t i = 0; i < s.count; i++) {
            assert_true(fabs((double)train_trainer_model(s.trainer)[i] - x[i]) < 2e-4);
        }
        free(m);
        free(v);
        free(x);
        free(g);
        free(x32);
        close_setup(&s);
    }
}

static void separable_data_are_learned(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMISERS; o++) {
        for (size_t hidden = 0; hidden <= 16; hidden += 16) {
            struct train_options options = *optimisers[o];
            options.batch = 32;
            options.rate = options.optimizer == TRAIN_ADAMW ? 0.02 : options.rate;
            struct setup s;
            open_setup(&s, clusters(600, 8, 4), hidden, &options);
            struct train_score score;
            train_model_evaluate(s.model, train_trainer_model(s.trainer), &s.data, &score);
            assert_true(score.loss > 0.5);
            (void)run(s.trainer, 400);
            train_model_evaluate(s.model, train_trainer_model(s.trainer), &s.data, &score);
            assert_true(score.loss < 0.05);
            assert_true(score.accuracy > 0.98);
            close_setup(&s);
        }
    }
}

static void adamw_and_muon_have_a_second_moment(void **state)
{
    (void)state;
    static const char *const names[OPTIMISERS][2] = {
        {NULL, NULL}, {"sgd.momentum", NULL}, {"adamw.m", "adamw.v"}, {"lion.m", NULL}, {"muon.m", "muon.v"}};
    static const size_t counts[OPTIMISERS] = {0, 1, 2, 1, 2};
    for (size_t o = 0; o < OPTIMISERS; o++) {
        struct setup s;
        open_setup(&s, clusters(40, 6, 3), 0, optimisers[o]);
        struct train_state_vector vectors[4];
        const size_t count = train_trainer_state_vectors(s.trainer, vectors);
        assert_int_equal(count, counts[o]);
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(vectors[i].name, names[o][i]);
        }
        assert_ptr_equal(train_trainer_second_moment(s.trainer), counts[o] == 2 ? vectors[1].values : NULL);
        close_setup(&s);
    }
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &sgd);
    struct train_options bad[14];
    for (size_t i = 0; i < 14; i++) {
        bad[i] = i < 8 ? sgd : adamw;
    }
    bad[0].rate = NAN;
    bad[1].momentum = 1.0;
    bad[2].weight_decay = -1.0;
    bad[3].batch = 0;
    bad[4].batch = 33; // the model was made for 32
    bad[5].schedule.count = TRAIN_SCHEDULE_STEPS + 1;
    bad[6].schedule = (struct train_schedule){.count = 2, .at = {0.5, 0.4}, .factor = {1.0, 1.0}};
    bad[7].schedule = (struct train_schedule){.count = 1, .at = {0.5}, .factor = {NAN}};
    bad[8].beta1 = 1.0;
    bad[9].beta2 = -0.1;
    bad[10].epsilon = 0.0;
    bad[11].steps = 0;
    bad[12].augment.flip = true; // not an image
    bad[13].augment.crop = 1;
    for (size_t i = 0; i < 14; i++) {
        struct train_trainer *trainer = NULL;
        struct base_reason why = {{0}};
        assert_int_equal(train_trainer_create(&bad[i], s.model, &s.data, s.start, &trainer, &why),
                         BASE_EINVAL);
        assert_null(trainer);
        assert_true(strlen(why.text) > 10);
    }
    struct train_dataset wrong[3] = {s.data, s.data, s.data};
    wrong[0].examples = 0;
    wrong[1].features = 5;
    wrong[2].classes = 4;
    for (size_t i = 0; i < 3; i++) {
        struct train_trainer *trainer = NULL;
        struct base_reason why = {{0}};
        assert_int_equal(train_trainer_create(&sgd, s.model, &wrong[i], s.start, &trainer, &why),
                         BASE_EINVAL);
        assert_true(strlen(why.text) > 10);
    }
    close_setup(&s);
}

// A norm that is never reached asks for the whole gradient, and changes nothing else.
static void gradients_in_pieces_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    for (size_t o = 0; o < ELEMENTWISE; o++) {
        for (size_t large = 0; large < 2; large++) {
            struct train_options pieces = *optimisers[o];
            struct setup s;
            pieces.proximal = o % 2 == 0 ? 0.1 : 0.0;
            struct train_options whole = pieces;
            whole.clip_norm = 1e30;
            open_setup(&s, clusters(40, large ? 300 : 6, 3), large ? 301 : 9, &pieces);
            struct train_trainer *twin = make_trainer(&s, &whole);
            size_t bytes;
            assert_non_null(train_trainer_scratch(twin, &bytes));
            if (large == 0) { // large ones are given in pieces only where the processor is fast at it
                assert_null(train_trainer_scratch(s.trainer, &bytes));
                assert_int_equal(bytes, 0);
                assert_true(train_trainer_memory(s.trainer) + s.count * sizeof(float) ==
                            train_trainer_memory(twin));
            }
            for (size_t i = 0; i < s.count; i++) {
                train_trainer_correction(s.trainer)[i] = train_trainer_correction(twin)[i] =
                    0.01f * (float)(i % 7);
            }
            for (size_t step = 0; step < 10; step++) {
                struct kernels_loss a, b;
                size_t rows;
                train_trainer_step(s.trainer, true, &a, &rows);
                train_trainer_step(twin, true, &b, &rows);
                assert_true(a.loss_sum == b.loss_sum);
            }
            assert_same_model(s.trainer, twin, s.count);
            train_trainer_destroy(twin);
            close_setup(&s);
        }
    }
}

// A weighted gradient moves the model `weight` times as far, and does not change the loss.
static void the_weight_scales_the_gradient(void **state)
{
    (void)state;
    struct setup s;
    struct train_options heavy = sgd;
    heavy.weight = 2.5;
    open_setup(&s, clusters(60, 5, 3), 4, &sgd);
    struct train_trainer *weighted = make_trainer(&s, &heavy);
    struct kernels_loss plain_loss, weighted_loss;
    size_t rows;
    train_trainer_step(s.trainer, false, &plain_loss, &rows);
    train_trainer_step(weighted, false, &weighted_loss, &rows);
    assert_true(plain_loss.loss_sum == weighted_loss.loss_sum);
    double moved = 0.0;
    for (size_t i = 0; i < s.count; i++) {
        const double plain = (double)train_trainer_model(s.trainer)[i] - (double)s.start[i];
        const double far = (double)train_trainer_model(weighted)[i] - (double)s.start[i];
        assert_true(fabs(far - 2.5 * plain) <= 1e-5 * fabs(plain) + 1e-6);
        moved += fabs(plain);
    }
    assert_true(moved > 0.0);
    train_trainer_destroy(weighted);
    close_setup(&s);
}

int main(void)
{
    if (open_world() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_deterministic),
        cmocka_unit_test(a_seek_continues_bit_for_bit),
        cmocka_unit_test(a_seek_continues_with_the_same_augmented_images),
        cmocka_unit_test(a_seek_refuses_invalid_cursors),
        cmocka_unit_test(epochs_show_every_example_once),
        cmocka_unit_test(batches_are_full_and_cross_epochs),
        cmocka_unit_test(the_schedule_counts_steps),
        cmocka_unit_test(the_correction_acts_outside_the_optimiser),
        cmocka_unit_test(optimisers_follow_their_rules),
        cmocka_unit_test(gradients_in_pieces_have_the_bits_of_the_whole),
        cmocka_unit_test(the_weight_scales_the_gradient),
        cmocka_unit_test(separable_data_are_learned),
        cmocka_unit_test(adamw_and_muon_have_a_second_moment),
        cmocka_unit_test(invalid_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
