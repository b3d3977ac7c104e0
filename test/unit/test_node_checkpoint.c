// Checkpoints: training continues bit for bit, and the configured number of generations is kept.
#include "checkpoint_world.h"

#include <math.h>
#include <sys/resource.h>

#include <cmocka.h>

static void goes_on(struct world *world, enum train_optimizer_kind optimizer)
{
    struct learner first = {0}, second = {0};
    struct base_reason why;
    learner_make(&first, optimizer, 6);
    learner_make(&second, optimizer, 6);
    learner_train(&first, 7); // into the second epoch of 40 examples in batches of 8
    write_generation(world, &first);
    assert_int_equal(resume(world, &second, &why), BASE_OK);
    assert_int_equal(second.parts.round, 7);
    assert_int_equal(train_trainer_steps_done(second.trainer), 7);
    assert_int_equal(learner_hash(&second), learner_hash(&first));
    learner_train(&first, 9);
    learner_train(&second, 9);
    assert_int_equal(learner_hash(&second), learner_hash(&first));
    learner_free(&first);
    learner_free(&second);
}

static void sgd_continues_bit_for_bit(void **state)
{
    goes_on(*state, TRAIN_SGD);
}

static void adamw_continues_bit_for_bit(void **state)
{
    goes_on(*state, TRAIN_ADAMW);
}

static void lion_continues_bit_for_bit(void **state)
{
    goes_on(*state, TRAIN_LION);
}

static void muon_continues_bit_for_bit(void **state)
{
    goes_on(*state, TRAIN_MUON);
}

static void outer_momentum_may_be_switched_off_and_on(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    learner_train(&learner, 1);
    write_generation(world, &learner);
    learner.parts.outer = NULL; // switched off: the file's is ignored
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    learner_train(&learner, 1);
    write_generation(world, &learner);
    learner.parts.outer = learner.outer; // switched on again: from zero
    learner.outer[0] = 8.0f;
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_true(learner.outer[0] == 0.0f);
    learner_free(&learner);
}

static void a_model_that_is_not_finite_is_never_written(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    learner_make(&learner, TRAIN_SGD, 6);
    struct train_state_vector vectors[4];
    assert_int_equal(train_trainer_state_vectors(learner.trainer, vectors), 1);
    struct {
        float *place;
        const char *name;
    } cases[] = {{&train_trainer_model(learner.trainer)[5], "'model.layers.0.weight'"},
                 {&vectors[0].values[7], "'state.sgd.momentum'"},
                 {&learner.outer[9], "'outer.momentum'"}};
    write_generation(world, &learner);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float before = *cases[i].place;
        *cases[i].place = bad[i];
        learner.parts.round++;
        assert_int_equal(node_checkpoint_write(world->directory, 3, &learner.parts, &why), BASE_ESTATE);
        assert_non_null(strstr(why.text, cases[i].name));
        *cases[i].place = before;
    }
    assert_int_equal(count_files(world->directory, ""), 1);
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_int_equal(learner.parts.round, 0); // the older one is unchanged
    learner_free(&learner);
}

// For example from a version that did not check.
static void a_model_that_is_not_finite_is_not_resumed(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    static const char *const names[] = {"model.layers.1.bias", "state.sgd.momentum", "outer.momentum"};
    learner_make(&learner, TRAIN_SGD, 6);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        learner.parts.round = i;
        write_generation(world, &learner);
        poison(path_of(world, "checkpoint-0.safetensors"), names[i], i == 1 ? INFINITY : NAN);
        const uint64_t before = learner_hash(&learner);
        assert_int_equal(resume(world, &learner, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, names[i]));
        assert_int_equal(learner_hash(&learner), before);
    }
    learner_free(&learner);
}

// The exchange of a round is in the model but not yet in the outer momentum, or is still to come.
static void an_unfinished_round_is_restored(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    for (int open = 0; open < 2; open++) {
        learner.parts.open = open;
        learner.parts.unsettled = !open;
        learner.parts.open_scale = 0.3f;
        learner.round_start[4] = 7;
        write_generation(world, &learner);
        learner.parts.open = learner.parts.unsettled = false;
        learner.round_start[4] = 0;
        assert_int_equal(resume(world, &learner, &why), BASE_OK);
        assert_int_equal(learner.parts.open, open);
        assert_int_equal(learner.parts.unsettled, !open);
        assert_true(learner.round_start[4] == 7 && (!open || learner.parts.open_scale == 0.3f));
    }
    learner.parts.open = learner.parts.unsettled = false;
    write_generation(world, &learner);
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_true(learner.round_start[4] == train_trainer_model(learner.trainer)[4]); // a round begins here
    assert_false(learner.parts.open || learner.parts.unsettled);
    rewrite(path_of(world, "checkpoint-0.safetensors"), "seed", "5", NULL);
    static const char *const wrong[] = {"nan", "inf", "-1", "", "1x"};
    learner.parts.open = true;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_generation(world, &learner);
        rewrite(path_of(world, "checkpoint-0.safetensors"), "open", wrong[i], NULL);
        assert_int_equal(resume(world, &learner, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, "'open'"));
    }
    learner_free(&learner);
}

static void the_configured_generations_are_kept(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    char path[256];
    static const char *const bystanders[] = {
        "identity",
        "checkpoint-1.safetensors.bak",
        "checkpoint-01.safetensors",
        "checkpoint-.safetensors",
        "metrics.jsonl",
        "checkpoint-99999999999999999999.safetensors",
    };
    learner_make(&learner, TRAIN_SGD, 6);
    assert_int_equal(node_checkpoint_newest(world->directory, path, sizeof path, &why), BASE_ENOTFOUND);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(base_file_write(path_of(world, bystanders[i]), 0600, NULL, 0, &why), BASE_OK);
    assert_int_equal(
        base_file_write(path_of(world, "checkpoint-9.safetensors.tmp-AbCdEf"), 0600, NULL, 0, &why), BASE_OK);
    for (size_t i = 0; i < 12; i++) {
        learner_train(&learner, 1);
        write_generation(world, &learner);
    }
    assert_int_equal(count_files(world->directory, ""),
                     3 + 6); // neither the temporary file nor older generations
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(access(path_of(world, bystanders[i]), F_OK), 0);
    assert_int_equal(access(path_of(world, "checkpoint-10.safetensors"), F_OK), 0);
    assert_int_equal(node_checkpoint_newest(world->directory, path, sizeof path, &why), BASE_OK);
    assert_string_equal(path, path_of(world, "checkpoint-12.safetensors")); // by number, not alphabetically
    assert_int_equal(node_checkpoint_newest(world->directory, path, strlen(path), &why), BASE_EINVAL);
    assert_int_equal(node_checkpoint_write(world->directory, 1, &learner.parts, &why), BASE_OK);
    assert_int_equal(count_files(world->directory, ""), 1 + 6);
    learner_free(&learner);
}

static void a_new_beginning_sets_later_generations_aside(void **state)
{
    struct world *world = *state;
    struct learner old = {0}, new = {0};
    struct base_reason why;
    learner_make(&old, TRAIN_SGD, 6);
    learner_make(&new, TRAIN_SGD, 6);
    learner_train(&old, 5);
    write_generation(world, &old);
    learner_train(&new, 2);
    write_generation(world, &new);
    assert_int_equal(access(path_of(world, "superseded-5.safetensors"), F_OK), 0);
    assert_int_equal(resume(world, &old, &why), BASE_OK);
    assert_int_equal(train_trainer_steps_done(old.trainer), 2);
    learner_free(&old);
    learner_free(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sgd_continues_bit_for_bit, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(adamw_continues_bit_for_bit, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(lion_continues_bit_for_bit, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(muon_continues_bit_for_bit, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(outer_momentum_may_be_switched_off_and_on, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_is_not_finite_is_never_written, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_is_not_finite_is_not_resumed, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(an_unfinished_round_is_restored, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(the_configured_generations_are_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_new_beginning_sets_later_generations_aside, world_set_up,
                                        world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
