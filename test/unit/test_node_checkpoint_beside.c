// Checkpoints beside training: the file holds what stood there when it was begun, whatever training does
// meanwhile; never two at once; how one failed is told, and leaves the older ones.
#include "checkpoint_world.h"
#include "node/store/checkpoint_beside.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void begin(struct world *world, struct learner *learner, struct node_checkpoint_beside *beside)
{
    struct base_reason why = {.text = ""};
    if (node_checkpoint_begin(beside, world->directory, 3, &learner->parts, &why))
        fail_msg("%s", why.text);
    assert_true(beside->pid > 0);
}

static void end_well(struct node_checkpoint_beside *beside)
{
    struct base_reason why = {.text = ""};
    if (node_checkpoint_end(beside, true, &why))
        fail_msg("%s", why.text);
    assert_int_equal(beside->pid, 0);
}

static uint64_t resumed_hash(struct world *world, struct learner *learner)
{
    struct base_reason why = {.text = ""};
    if (node_checkpoint_resume(world->directory, &learner->parts, NULL, &why))
        fail_msg("%s", why.text);
    learner->parts.boot = 4;
    return learner_hash(learner);
}

static bool stops_at_first;

static void stop_child(void)
{
    if (stops_at_first)
        raise(SIGSTOP);
}

static void await_stop(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
}

// Its process stands still before it has done anything, until SIGCONT.
static void begin_stopped(struct world *world, struct learner *learner, struct node_checkpoint_beside *beside)
{
    stops_at_first = true;
    begin(world, learner, beside);
    stops_at_first = false;
    await_stop(beside->pid);
}

static void holds_what_stood_there(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    learner_make(&learner, TRAIN_ADAMW, 6);
    assert_int_equal(node_checkpoint_end(&beside, true, &why), BASE_OK); // none was begun
    learner_train(&learner, 3);
    const uint64_t before = learner_hash(&learner);
    begin_stopped(world, &learner, &beside);
    learner_train(&learner, 4);
    assert_true(learner_hash(&learner) != before);
    assert_int_equal(kill(beside.pid, SIGCONT), 0);
    end_well(&beside);
    assert_int_equal(count_files(world->directory, ""), 1);
    assert_int_equal(resumed_hash(world, &learner), before);
    learner_free(&learner);
}

static void one_at_a_time(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    learner_make(&learner, TRAIN_SGD, 6);
    begin_stopped(world, &learner, &beside);
    const pid_t first = beside.pid;
    assert_int_equal(node_checkpoint_begin(&beside, world->directory, 3, &learner.parts, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "still being written"));
    assert_int_equal(beside.pid, first);
    assert_int_equal(kill(first, SIGCONT), 0);
    end_well(&beside);
    learner_train(&learner, 1);
    begin(world, &learner, &beside);
    end_well(&beside);
    assert_int_equal(count_files(world->directory, ""), 2);
    learner_free(&learner);
}

// While it goes on, a look at it tells nothing and does not wait.
static void a_look_does_not_wait(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    learner_make(&learner, TRAIN_SGD, 6);
    begin_stopped(world, &learner, &beside);
    assert_int_equal(node_checkpoint_end(&beside, false, &why), BASE_OK);
    assert_true(beside.pid > 0);
    assert_int_equal(kill(beside.pid, SIGCONT), 0);
    end_well(&beside);
    learner_free(&learner);
}

static void killed_it_is_told_once(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    learner_make(&learner, TRAIN_SGD, 6);
    begin(world, &learner, &beside);
    end_well(&beside);
    const uint64_t before = learner_hash(&learner);
    learner_train(&learner, 1);
    begin_stopped(world, &learner, &beside);
    assert_int_equal(kill(beside.pid, SIGKILL), 0);
    assert_int_equal(node_checkpoint_end(&beside, true, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "signal 9"));
    assert_int_equal(node_checkpoint_end(&beside, true, &why), BASE_OK);
    assert_int_equal(resumed_hash(world, &learner), before);
    learner_train(&learner, 2);
    begin(world, &learner, &beside);
    end_well(&beside);
    assert_int_equal(count_files(world->directory, ".tmp-"), 0);
    learner_free(&learner);
}

// A file size limit stands for the full disk; in a process of its own, as it can't be lifted again.
static int begin_within(struct world *world, struct learner *learner, rlim_t limit)
{
    const pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit size = {limit, limit};
        struct node_checkpoint_beside beside = {0};
        struct base_reason why = {.text = ""};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &size) ||
            node_checkpoint_begin(&beside, world->directory, 1, &learner->parts, &why))
            _exit(2);
        const enum base_error error = node_checkpoint_end(&beside, true, &why);
        _exit(error == BASE_EIO && strstr(why.text, "no checkpoint of step 2") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_full_disk_is_told(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    learner_make(&learner, TRAIN_SGD, 6);
    learner_train(&learner, 1);
    begin(world, &learner, &beside);
    end_well(&beside);
    const uint64_t before = learner_hash(&learner);
    learner_train(&learner, 1);
    assert_int_equal(begin_within(world, &learner, 4096), 0);
    assert_int_equal(count_files(world->directory, ""), 1);
    assert_int_equal(resumed_hash(world, &learner), before);
    learner_free(&learner);
}

// What is not finite is never written, here neither.
static void what_is_not_finite_is_told(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    learner_make(&learner, TRAIN_SGD, 6);
    learner.outer[3] = 1e30f * 1e30f;
    begin(world, &learner, &beside);
    assert_int_equal(node_checkpoint_end(&beside, true, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "outer.momentum"));
    assert_int_equal(count_files(world->directory, ""), 0);
    learner_free(&learner);
}

static void stop_here(int number)
{
    (void)number;
    raise(SIGSTOP);
}

// Begins one whose process stops at its first write to a file: past all that it prepares.
static void begin_stopped_in_file(struct world *world, struct learner *learner,
                                  struct node_checkpoint_beside *beside)
{
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    signal(SIGXFSZ, stop_here);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    begin(world, learner, beside);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    await_stop(beside->pid);
}

// The other end of a stream sees its end while a checkpoint is being written, and the lock of a node that was
// killed is free: none of its descriptors is held.
static void holds_no_descriptor(void **state)
{
    struct world *world = *state;
    struct learner learner = {0};
    struct node_checkpoint_beside beside = {0};
    struct base_reason why = {.text = ""};
    int ends[2];
    char byte;
    learner_make(&learner, TRAIN_SGD, 6);
    assert_int_equal(pipe(ends), 0);
    begin_stopped_in_file(world, &learner, &beside);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); // waits for ever where the other process has it open
    assert_int_equal(kill(beside.pid, SIGCONT), 0);
    assert_int_equal(node_checkpoint_end(&beside, true, &why), BASE_EIO); // its disk is full
    assert_int_equal(count_files(world->directory, ""), 0);
    assert_int_equal(close(ends[0]), 0);
    learner_free(&learner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(holds_what_stood_there, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(one_at_a_time, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_look_does_not_wait, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(killed_it_is_told_once, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_told, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(holds_no_descriptor, world_set_up, world_tear_down),
    };
    if (pthread_atfork(NULL, NULL, stop_child))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
