// A node that is killed at any moment of a write finds a complete checkpoint when it returns, and no
// temporary files stay. P2PML_SEED chooses the moments; the outcome must not depend on them.
#include "checkpoint_world.h"

#include "base/rng.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define KILLS 50

// Writes a generation for every step, with the step in every element of the model and the outer momentum,
// until it is killed.
static _Noreturn void write_forever(const char *directory, struct learner *learner)
{
    const size_t parameters = train_model_parameters(learner->model);
    struct base_reason why;
    for (;;) {
        learner_train(learner, 1);
        const float mark = (float)train_trainer_steps_done(learner->trainer);
        for (size_t i = 0; i < parameters; i++)
            train_trainer_model(learner->trainer)[i] = learner->outer[i] = mark;
        if (node_checkpoint_write(directory, 3, &learner->parts, &why))
            _exit(1);
    }
}

static void check_whole(const struct learner *learner)
{
    const size_t parameters = train_model_parameters(learner->model);
    const float mark = (float)train_trainer_steps_done(learner->trainer);
    for (size_t i = 0; i < parameters; i++)
        if (train_trainer_model(learner->trainer)[i] != mark || learner->outer[i] != mark)
            fail_msg("element %zu of step %g is of another step", i, (double)mark);
    assert_int_equal(learner->parts.round, train_trainer_steps_done(learner->trainer));
}

static void kill_after(pid_t child, long delay_ns)
{
    const struct timespec delay = {.tv_nsec = delay_ns};
    int status;
    nanosleep(&delay, NULL); // to vary the moment: any moment will do
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); // it did not end with an error before
}

static void a_node_killed_at_any_moment_finds_a_complete_checkpoint(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct base_reason why = {.text = ""};
    struct base_rng rng;
    const char *text = getenv("P2PML_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
    size_t leftovers = 0;
    uint64_t before = 0;
    printf("P2PML_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    base_rng_seed(&rng, seed);
    learner_make(&learner, TRAIN_SGD, 6);
    for (size_t i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_forever(world->directory, &learner);
        kill_after(child, (long)base_rng_below(&rng, 30000000));
        leftovers += count_files(world->directory, ".tmp-");
        enum base_error error = node_checkpoint_resume(world->directory, &learner.parts, NULL, &why);
        if (error == BASE_ENOTFOUND && before == 0)
            continue; // killed before the first one was written
        if (error)
            fail_msg("%s", why.text);
        check_whole(&learner);
        const uint64_t step = train_trainer_steps_done(learner.trainer);
        assert_true(step >= before);
        before = step;
    }
    printf("%" PRIu64 " generations in %d lives, %zu kills in the middle of a file\n", before, KILLS,
           leftovers);
    learner_train(&learner, 1);
    assert_int_equal(node_checkpoint_write(world->directory, 3, &learner.parts, &why), BASE_OK);
    assert_int_equal(count_files(world->directory, ".tmp-"), 0);
    assert_int_equal(count_files(world->directory, ""), before < 2 ? before + 1 : 3);
    learner_free(&learner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_killed_at_any_moment_finds_a_complete_checkpoint, world_set_up,
                                        world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
