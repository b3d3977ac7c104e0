// Checkpoints: a damaged one, or one that does not match, changes nothing.
#include "checkpoint_world.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

// Three generations, steps 1 to 3.
static void write_three(struct world *world, struct learner *learner)
{
    for (size_t i = 0; i < 3; i++) {
        learner_train(learner, 1);
        write_generation(world, learner);
    }
}

static void damage_falls_back_to_the_next_older(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    write_three(world, &learner);
    static const long places[] = {0, 7, 8, 9, 30, 60, 300, -1, -5000};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(path_of(world, "checkpoint-3.safetensors"), places[i]);
        char log_path[128];
        snprintf(log_path, sizeof log_path, "%s/log", world->directory);
        int stream = capture_begin(2, log_path);
        enum base_error error = resume(world, &learner, &why);
        char *log = capture_end(2, stream, log_path);
        assert_int_equal(error, BASE_OK);
        assert_int_equal(train_trainer_steps_done(learner.trainer), 2);
        assert_int_equal(learner.parts.round, 2);
        assert_non_null(strstr(log, "warn"));
        assert_non_null(strstr(log, "checkpoint-3.safetensors"));
        free(log);
        flip(path_of(world, "checkpoint-3.safetensors"), places[i]);
    }
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_int_equal(train_trainer_steps_done(learner.trainer), 3);
    learner_free(&learner);
}

static void truncation_falls_back_to_the_next_older(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    uint8_t *bytes;
    size_t count;
    learner_make(&learner, TRAIN_SGD, 6);
    write_three(world, &learner);
    assert_int_equal(
        base_file_read(path_of(world, "checkpoint-3.safetensors"), 1 << 24, &bytes, &count, &why), BASE_OK);
    const size_t header = 8 + (size_t)(bytes[0] | bytes[1] << 8);
    const size_t lengths[] = {0,      1,          7,         8,           9,         header / 2, header - 1,
                              header, header + 1, count / 2, count - 100, count - 4, count - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(truncate(path_of(world, "checkpoint-3.safetensors"), (off_t)lengths[i]), 0);
        assert_int_equal(resume(world, &learner, &why), BASE_OK);
        assert_int_equal(train_trainer_steps_done(learner.trainer), 2);
        const struct base_span whole = {bytes, count};
        assert_int_equal(base_file_write(world->path, 0600, &whole, 1, &why), BASE_OK);
    }
    free(bytes);
    learner_free(&learner);
}

static void if_all_are_damaged_the_error_says_what_to_do(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    write_three(world, &learner);
    flip(path_of(world, "checkpoint-1.safetensors"), -1);
    flip(path_of(world, "checkpoint-2.safetensors"), 40);
    rewrite(path_of(world, "checkpoint-3.safetensors"), "format", "something else",
            NULL); // complete, but not a checkpoint
    learner_train(&learner, 1);
    const uint64_t before = learner_hash(&learner);
    assert_int_equal(resume(world, &learner, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "none of the 3"));
    assert_non_null(strstr(why.text, "checkpoint-3.safetensors"));
    assert_non_null(strstr(why.text, "without --resume"));
    assert_int_equal(learner_hash(&learner), before);
    learner_free(&learner);
}

static void an_empty_directory_has_no_checkpoint(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    assert_int_equal(resume(world, &learner, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, world->directory));
    assert_int_equal(node_checkpoint_resume(path_of(world, "nowhere"), &learner.parts, NULL, &why),
                     BASE_ENOTFOUND);
    learner_free(&learner);
}

static void expect_mismatch(struct world *world, struct learner *learner, const char *one, const char *two)
{
    struct base_reason why;
    const uint64_t before = learner_hash(learner);
    assert_int_equal(resume(world, learner, &why), BASE_EMISMATCH);
    if (!strstr(why.text, one) || !strstr(why.text, two))
        fail_msg("expected '%s' and '%s' in: %s", one, two, why.text);
    assert_int_equal(learner_hash(learner), before);
}

static void a_checkpoint_that_does_not_match_changes_nothing(void **state)
{
    struct world *world = *state;
    struct learner learner = {0}, wider = {0}, adam = {0};
    learner_make(&learner, TRAIN_SGD, 6);
    learner_make(&wider, TRAIN_SGD, 7);
    learner_make(&adam, TRAIN_ADAMW, 6);
    write_three(world, &learner);
    learner_train(&learner, 1);
    expect_mismatch(world, &wider, "mlp 784-6-10", "mlp 784-7-10");
    expect_mismatch(world, &adam, "optimiser", "adamw.m");
    const char *path = path_of(world, "checkpoint-3.safetensors");
    rewrite(path, NULL, NULL, "model.layers.1.bias");
    expect_mismatch(world, &learner, "[1, 10]", "[10]");
    write_three(world, &learner);
    path = path_of(world, "checkpoint-7.safetensors");
    rewrite(path, NULL, NULL, "state.sgd.momentum");
    expect_mismatch(world, &learner, "state.sgd.momentum", "expected F32 [");
    write_generation(world, &learner);
    rewrite(path, "position", "41", NULL);
    expect_mismatch(world, &learner, "example 41", "shard");
    rewrite(path, "version", "1", NULL);
    expect_mismatch(world, &learner, "version 1", "version 2");
    learner_free(&learner);
    learner_free(&wider);
    learner_free(&adam);
}

// The order of the examples is of a node and train.seed: in another one a new epoch begins.
static void the_order_of_another_node_is_left(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    learner_train(&learner, 1);
    write_generation(world, &learner);
    const struct train_cursor before = train_trainer_cursor(learner.trainer);
    rewrite(path_of(world, "checkpoint-1.safetensors"), "seed", "6", NULL);
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    const struct train_cursor after = train_trainer_cursor(learner.trainer);
    assert_true(after.seed == before.seed && after.position == 0 && after.epoch > before.epoch);
    learner_free(&learner);
}

static void numbers_are_parsed_strictly(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    static const char *const wrong[] = {"", " 1", "1 ", "-1", "0x1", "1.0", "18446744073709551616", NULL};
    learner_make(&learner, TRAIN_SGD, 6);
    learner_train(&learner, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_generation(world, &learner);
        rewrite(path_of(world, "checkpoint-1.safetensors"), "round", wrong[i], NULL);
        assert_int_equal(resume(world, &learner, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, "round"));
    }
    write_generation(world, &learner);
    rewrite(world->path, "round", "18446744073709551615", NULL);
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_true(learner.parts.round == UINT64_MAX);
    learner_free(&learner);
}

static void the_model_alone_can_be_read(void **state)
{
    struct world *world = *state;
    struct learner learner = {0}, wider = {0};
    struct base_reason why;
    const struct node_model_about about = {.input_divisor = 255, .first_label = 1};
    struct node_model_file file;
    learner_make(&learner, TRAIN_SGD, 6);
    learner_make(&wider, TRAIN_SGD, 7);
    learner.parts.about = &about;
    write_three(world, &learner);
    const size_t bytes = train_model_parameters(learner.model) * sizeof(float);
    const char *path = path_of(world, "checkpoint-3.safetensors");
    assert_int_equal(node_model_read(path, NULL, &file, &why), BASE_OK);
    assert_memory_equal(file.parameters, train_trainer_model(learner.trainer), bytes);
    assert_true(file.about.input_divisor == 255 && file.about.first_label == 1);
    node_model_free(&file);
    assert_int_equal(node_model_read(path, train_model_spec(wider.model), &file, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "'model.layers.0.weight' is F32 [784, 6], expected F32 [784, 7]"));
    flip(path, -1);
    assert_int_equal(node_model_read(path, NULL, &file, &why), BASE_EFORMAT);
    learner_free(&learner);
    learner_free(&wider);
}

static void a_checkpoint_of_another_identity_causes_a_warning(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    char log_path[128];
    learner_make(&learner, TRAIN_SGD, 6);
    write_three(world, &learner);
    learner.parts.id.bytes[0] ^= 1;
    snprintf(log_path, sizeof log_path, "%s/log", world->directory);
    int stream = capture_begin(2, log_path);
    enum base_error error = resume(world, &learner, &why);
    char *log = capture_end(2, stream, log_path);
    assert_int_equal(error, BASE_OK);
    assert_non_null(strstr(log, "checkpoint_of_other"));
    free(log);
    learner_free(&learner);
}

static void an_unwritable_directory_is_reported(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    assert_int_equal(base_file_write(path_of(world, "file"), 0600, NULL, 0, &why), BASE_OK);
    why.text[0] = 0;
    assert_true(node_checkpoint_write(path_of(world, "file/below"), 3, &learner.parts, &why) != BASE_OK);
    assert_non_null(strstr(why.text, "file/below"));
    assert_non_null(strstr(why.text, "no checkpoint"));
    assert_true(node_checkpoint_resume(path_of(world, "file"), &learner.parts, NULL, &why) == BASE_EIO);
    // A missing directory is made.
    assert_int_equal(node_checkpoint_write(path_of(world, "a/b"), 3, &learner.parts, &why), BASE_OK);
    assert_int_equal(count_files(path_of(world, "a/b"), "checkpoint-0.safetensors"), 1);
    learner_free(&learner);
}

// A file size limit plays the full disk: write(2) takes a part, then fails.
static int write_within(struct world *world, struct learner *learner, rlim_t limit)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit size = {limit, limit};
        struct base_reason why = {.text = ""};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &size))
            _exit(2);
        enum base_error error = node_checkpoint_write(world->directory, 1, &learner->parts, &why);
        bool clear = strstr(why.text, "no checkpoint of step 4") && strstr(why.text, world->directory);
        _exit(error == BASE_EIO && clear ? 0 : !error ? 1 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_full_disk_changes_nothing(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why;
    learner_make(&learner, TRAIN_SGD, 6);
    write_three(world, &learner);
    const uint64_t before = learner_hash(&learner);
    learner_train(&learner, 1);
    static const rlim_t limits[] = {0, 5, 500, 4096, 30000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        assert_int_equal(write_within(world, &learner, limits[i]), 0);
    assert_int_equal(count_files(world->directory, ""), 3); // no temporary file either
    assert_int_equal(resume(world, &learner, &why), BASE_OK);
    assert_int_equal(learner_hash(&learner), before);
    learner_free(&learner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damage_falls_back_to_the_next_older, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(truncation_falls_back_to_the_next_older, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(if_all_are_damaged_the_error_says_what_to_do, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(an_empty_directory_has_no_checkpoint, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_does_not_match_changes_nothing, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(the_order_of_another_node_is_left, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_parsed_strictly, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(the_model_alone_can_be_read, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_identity_causes_a_warning, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(an_unwritable_directory_is_reported, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_changes_nothing, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
