// Another data set for the same trainer, and what becomes of cursors.
#include "trainer_world.h"

static void replace(struct train_trainer *trainer, const struct train_dataset *data, double weight)
{
    struct base_reason why = {""};
    if (train_trainer_replace(trainer, data, weight, &why)) {
        fail_msg("%s", why.text);
    }
    assert_ptr_equal(train_trainer_data(trainer), data);
}

// Other examples for the same model: a trainer that had these from the start, with the same model, optimiser
// state and step, at the beginning of the same epoch, takes the same steps bit for bit.
static void replace_keeps_all_but_the_examples(void **state)
{
    (void)state;
    for (size_t o = 0; o < 3; o++) {
        struct setup s, other;
        open_setup(&s, clusters(40, 6, 3), 9, optimisers[o]);
        seed++;
        open_setup(&other, clusters(33, 6, 3), 9, optimisers[o]);
        seed--;
        (void)run(s.trainer, 17); // in the third epoch: 119 = 2 x 40 + 39
        struct train_state_vector from[4], to[4];
        const size_t vectors = train_trainer_state_vectors(s.trainer, from);
        assert_int_equal(train_trainer_state_vectors(other.trainer, to), vectors);
        memcpy(train_trainer_model(other.trainer), train_trainer_model(s.trainer), s.count * sizeof(float));
        for (size_t i = 0; i < vectors; i++) {
            memcpy(to[i].values, from[i].values, s.count * sizeof(float));
        }
        const struct train_cursor cursor = {.step = 17, .epoch = 3, .seed = optimisers[o]->seed};
        assert_int_equal(train_trainer_seek(other.trainer, &cursor), BASE_OK);
        replace(s.trainer, &other.data, 0);
        // over the change of the schedule at step 20, and the end of an epoch
        for (size_t i = 0; i < 20; i++) {
            assert_true(train_trainer_rate(s.trainer) == train_trainer_rate(other.trainer));
            assert_true(run(s.trainer, 1) == run(other.trainer, 1));
        }
        assert_int_equal(train_trainer_steps_done(s.trainer), 37);
        assert_same_model(s.trainer, other.trainer, s.count);
        close_setup(&s);
        close_setup(&other);
    }
}

static size_t rows_of_step(struct train_trainer *trainer)
{
    struct kernels_loss loss;
    size_t rows;
    train_trainer_step(trainer, false, &loss, &rows);
    return rows;
}

// The batch is cut to the number of examples, and is whole again when there are enough.
static void replace_cuts_the_batch(void **state)
{
    (void)state;
    struct setup s;
    struct train_dataset large = clusters(40, 6, 3), tiny = clusters(1, 6, 3);
    open_setup(&s, clusters(5, 6, 3), 0, &sgd);
    assert_int_equal(rows_of_step(s.trainer), 5);
    replace(s.trainer, &large, 1);
    assert_int_equal(rows_of_step(s.trainer), 7);
    replace(s.trainer, &tiny, 1);
    assert_int_equal(rows_of_step(s.trainer), 1);
    replace(s.trainer, &s.data, 1);
    assert_int_equal(rows_of_step(s.trainer), 5);
    close_setup(&s);
    train_dataset_destroy(&large);
    train_dataset_destroy(&tiny);
}

// The gradient has the new weight: with plain SGD a step goes `weight` times as far.
static void replace_changes_the_weight(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(7, 5, 3), 4, &sgd); // one batch is the whole set
    struct train_trainer *weighted = make_trainer(&s, &sgd);
    replace(s.trainer, &s.data, 1);
    replace(weighted, &s.data, 2.5);
    (void)run(s.trainer, 1);
    (void)run(weighted, 1);
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

// A checkpoint from a time with a larger set: a resumed node has only the first set, begins an epoch of it,
// and nothing is refused. With the first set back, cursors are exact again.
static void a_cursor_refers_to_the_first_data_set(void **state)
{
    (void)state;
    for (size_t o = 0; o < 3; o++) {
        struct setup s;
        struct train_dataset large = clusters(90, 6, 3);
        open_setup(&s, clusters(21, 6, 3), 9, optimisers[o]);
        (void)run(s.trainer, 4);
        replace(s.trainer, &large, 1);
        (void)run(s.trainer, 11); // 77 examples: more than the first set has
        const struct train_cursor away = train_trainer_cursor(s.trainer);
        assert_int_equal(away.step, 15);
        assert_int_equal(away.position, 21);
        struct train_trainer *copy = restored(&s, optimisers[o]);
        assert_ptr_equal(train_trainer_data(copy), &s.data);
        replace(s.trainer, &s.data, 1); // the next epoch of the first set, as in the copy
        for (size_t i = 0; i < 8; i++) {
            assert_true(run(s.trainer, 1) == run(copy, 1));
            assert_int_equal(train_trainer_cursor(s.trainer).epoch, train_trainer_cursor(copy).epoch);
            assert_int_equal(train_trainer_cursor(s.trainer).position, train_trainer_cursor(copy).position);
        }
        assert_same_model(s.trainer, copy, s.count);
        train_trainer_destroy(copy);
        close_setup(&s);
        train_dataset_destroy(&large);
    }
}

// A seek while another set replaces the first begins an epoch of that set, whatever the position.
static void a_seek_on_another_data_set_begins_an_epoch(void **state)
{
    (void)state;
    struct setup s;
    struct train_dataset small = clusters(9, 6, 3);
    open_setup(&s, clusters(40, 6, 3), 0, &sgd);
    replace(s.trainer, &small, 1);
    const struct train_cursor far = {.step = 50, .epoch = 6, .position = 39, .seed = 3}, // beyond `small`
        beyond = {.step = 50, .epoch = 6, .position = 41, .seed = 3};
    assert_int_equal(train_trainer_seek(s.trainer, &beyond), BASE_EINVAL);
    assert_int_equal(train_trainer_seek(s.trainer, &far), BASE_OK);
    assert_int_equal(train_trainer_steps_done(s.trainer), 50);
    assert_int_equal(train_trainer_cursor(s.trainer).epoch, 7);
    assert_true(isfinite(run(s.trainer, 10)));
    close_setup(&s);
    train_dataset_destroy(&small);
}

static void replace_refuses_invalid_data(void **state)
{
    (void)state;
    struct setup s;
    open_setup(&s, clusters(40, 6, 3), 0, &momentum);
    struct train_trainer *twin = make_trainer(&s, &momentum);
    (void)run(s.trainer, 3);
    (void)run(twin, 3);
    struct train_dataset wrong[3] = {s.data, s.data, s.data};
    wrong[0].examples = 0;
    wrong[1].features = 5;
    wrong[2].classes = 4;
    struct base_reason why = {""};
    for (size_t i = 0; i < 3; i++) {
        why.text[0] = 0;
        assert_int_equal(train_trainer_replace(s.trainer, &wrong[i], 1, &why), BASE_EINVAL);
        assert_true(strlen(why.text) > 10);
    }
    assert_int_equal(train_trainer_replace(s.trainer, &s.data, (double)NAN, &why), BASE_EINVAL);
    assert_int_equal(train_trainer_replace(s.trainer, &s.data, -1, &why), BASE_EINVAL);
    (void)run(s.trainer, 9); // nothing has changed
    (void)run(twin, 9);
    assert_same_model(s.trainer, twin, s.count);
    train_trainer_destroy(twin);
    close_setup(&s);
}

int main(void)
{
    if (open_world() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replace_keeps_all_but_the_examples),
        cmocka_unit_test(replace_cuts_the_batch),
        cmocka_unit_test(replace_changes_the_weight),
        cmocka_unit_test(replace_refuses_invalid_data),
        cmocka_unit_test(a_cursor_refers_to_the_first_data_set),
        cmocka_unit_test(a_seek_on_another_data_set_begins_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
