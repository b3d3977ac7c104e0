// Checkpoints beside training: the file holds the state at the moment it was begun, whatever training does
// meanwhile; never two at once; a failed one is reported and leaves the older ones.
#include "checkpoint_world.h"
#include "node/queue/clock.h"
#include "node/store/checkpoint_beside.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PATIENCE_NS (300 * NODE_SECOND_NS) // a busy machine

struct node { // the trainer and its checkpoint
    struct world *world;
    struct learner learner;
    struct node_checkpoint_beside beside;
    struct base_reason why;
};

static int make_node(void **state)
{
    static struct node node;
    void *world;
    node = (struct node){.why = {.text = ""}};
    world_set_up(&world);
    node.world = world;
    learner_make(&node.learner, TRAIN_ADAMW, 6);
    *state = &node;
    return 0;
}

static int free_node(void **state)
{
    struct node *node = *state;
    void *world = node->world;
    if (node->beside.pid > 0) // a failed test must not leave a stopped child that holds the output open
        (void)kill(node->beside.pid, SIGKILL);
    learner_free(&node->learner);
    return world_tear_down(&world);
}

static void begin(struct node *node)
{
    if (node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts, &node->why))
        fail_msg("%s", node->why.text);
    assert_true(node->beside.pid > 0);
}

static enum base_error end(struct node *node, uint64_t wait_ns)
{
    return node_checkpoint_end(&node->beside, wait_ns, &node->why);
}

static void end_well(struct node *node)
{
    if (end(node, PATIENCE_NS))
        fail_msg("%s", node->why.text);
    assert_int_equal(node->beside.pid, 0);
}

static void go_on(const struct node *node)
{
    assert_int_equal(kill(node->beside.pid, SIGCONT), 0);
}

static size_t files_of(const struct node *node, const char *part)
{
    return count_files(node->world->directory, part);
}

static uint64_t resumed_hash(struct node *node)
{
    if (node_checkpoint_resume(node->world->directory, &node->learner.parts, NULL, &node->why))
        fail_msg("%s", node->why.text);
    node->learner.parts.resumes = 4;
    return learner_hash(&node->learner);
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

// Begins one whose process is stopped before it has done anything, until SIGCONT.
static void begin_stopped(struct node *node)
{
    stops_at_first = true;
    begin(node);
    stops_at_first = false;
    await_stop(node->beside.pid);
}

static void a_checkpoint_has_the_state_when_it_was_begun(void **state)
{
    struct node *node = *state;
    assert_int_equal(end(node, PATIENCE_NS), BASE_OK); // none was begun
    learner_train(&node->learner, 3);
    const uint64_t before = learner_hash(&node->learner);
    begin_stopped(node);
    learner_train(&node->learner, 4);
    assert_true(learner_hash(&node->learner) != before);
    go_on(node);
    end_well(node);
    assert_int_equal(files_of(node, ""), 1);
    assert_int_equal(resumed_hash(node), before);
}

static bool is_mapped(pid_t process, const void *address)
{
    char path[32], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        char *end;
        const uintptr_t from = (uintptr_t)strtoull(line, &end, 16),
                        to = (uintptr_t)strtoull(end + 1, NULL, 16);
        found = from <= (uintptr_t)address && (uintptr_t)address < to;
    }
    fclose(maps);
    return found;
}

// Linux does; qemu, which runs the tests of other processors, ignores the hint and reports success.
static bool children_lack_pages_as_told(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(madvise(page, 4096, MADV_DONTFORK), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(msync(page, 4096, MS_ASYNC) == 0); // fails where no page is
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(munmap(page, 4096), 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The next step pays for copies of the pages that the child has, too: of the model, which the child reads,
// not of the gradient.
static void the_gradient_is_not_shared(void **state)
{
    if (!children_lack_pages_as_told())
        skip();
    struct node *node = *state;
    struct train_trainer *trainer = node->learner.trainer;
    size_t bytes = 0;
    const char *gradient = (const char *)train_trainer_scratch(trainer, &bytes);
    assert_true(bytes > 3 * 4096);
    begin_stopped(node);
    // Its first and last page have other neighbours.
    for (size_t at = 4096; at < bytes - 4096; at += 4096)
        assert_false(is_mapped(node->beside.pid, gradient + at));
    assert_true(is_mapped(node->beside.pid, train_trainer_model(trainer)));
    go_on(node);
    end_well(node);
    assert_true(is_mapped(getpid(), gradient));
}

static void only_one_checkpoint_is_written_at_a_time(void **state)
{
    struct node *node = *state;
    begin_stopped(node);
    const pid_t first = node->beside.pid;
    assert_int_equal(
        node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts, &node->why),
        BASE_ESTATE);
    assert_non_null(strstr(node->why.text, "still being written"));
    assert_int_equal(node->beside.pid, first);
    go_on(node);
    end_well(node);
    learner_train(&node->learner, 1);
    begin(node);
    end_well(node);
    assert_int_equal(files_of(node, ""), 2);
}

// While it is written, a look at it returns nothing and does not wait.
static void a_look_does_not_wait(void **state)
{
    struct node *node = *state;
    begin_stopped(node);
    assert_int_equal(end(node, 0), BASE_OK);
    assert_true(node->beside.pid > 0);
    go_on(node);
    end_well(node);
}

static void a_killed_writer_is_reported_once(void **state)
{
    struct node *node = *state;
    begin(node);
    end_well(node);
    const uint64_t before = learner_hash(&node->learner);
    learner_train(&node->learner, 1);
    begin_stopped(node);
    assert_int_equal(kill(node->beside.pid, SIGKILL), 0);
    assert_int_equal(end(node, PATIENCE_NS), BASE_EIO);
    assert_non_null(strstr(node->why.text, "signal 9"));
    assert_int_equal(end(node, PATIENCE_NS), BASE_OK);
    assert_int_equal(resumed_hash(node), before);
    learner_train(&node->learner, 2);
    begin(node);
    end_well(node);
    assert_int_equal(files_of(node, ".tmp-"), 0);
}

// A file size limit plays the full disk; in a process of its own, since it cannot be lifted again.
static int begin_within(struct node *node, rlim_t limit)
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
            node_checkpoint_begin(&beside, node->world->directory, 1, &node->learner.parts, &why))
            _exit(2);
        const enum base_error error = node_checkpoint_end(&beside, PATIENCE_NS, &why);
        _exit(error == BASE_EIO && strstr(why.text, "no checkpoint of step 2") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_full_disk_is_reported(void **state)
{
    struct node *node = *state;
    learner_train(&node->learner, 1);
    begin(node);
    end_well(node);
    const uint64_t before = learner_hash(&node->learner);
    learner_train(&node->learner, 1);
    assert_int_equal(begin_within(node, 4096), 0);
    assert_int_equal(files_of(node, ""), 1);
    assert_int_equal(resumed_hash(node), before);
}

// A model that is not finite is never written, also not here.
static void a_model_that_is_not_finite_is_reported(void **state)
{
    struct node *node = *state;
    node->learner.outer[3] = 1e30f * 1e30f;
    begin(node);
    assert_int_equal(end(node, PATIENCE_NS), BASE_ESTATE);
    assert_non_null(strstr(node->why.text, "outer.momentum"));
    assert_int_equal(files_of(node, ""), 0);
}

static void stop_here(int number)
{
    (void)number;
    raise(SIGSTOP);
}

// Begins one whose process stops at its first write to a file, after all preparations.
static void begin_stopped_in_file(struct node *node)
{
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    signal(SIGXFSZ, stop_here);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    begin(node);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    await_stop(node->beside.pid);
}

// The other end of a stream sees its end while a checkpoint is being written, and the lock of a killed node
// is free: the child holds none of its descriptors.
static void the_writer_holds_no_descriptor(void **state)
{
    struct node *node = *state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    begin_stopped_in_file(node);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); // would wait for ever if the other process had it open
    go_on(node);
    assert_int_equal(end(node, PATIENCE_NS), BASE_EIO); // its disk is full
    assert_int_equal(files_of(node, ""), 0);
    assert_int_equal(close(ends[0]), 0);
}

// On a busy machine it may get no processor for minutes, and the last checkpoint replaces it anyway.
static void a_node_that_ends_does_not_wait_for_ever(void **state)
{
    struct node *node = *state;
    begin_stopped_in_file(node);
    const pid_t child = node->beside.pid;
    assert_int_equal(files_of(node, ".tmp-"), 1);
    assert_int_equal(end(node, NODE_MILLISECOND_NS), BASE_EIO);
    assert_non_null(strstr(node->why.text, "given up"));
    assert_true(node->beside.pid == 0 || node->beside.killed);
    while (node->beside.pid) { // it was killed, but dying may take longer
        assert_int_equal(node->beside.pid, child);
        assert_int_equal(end(node, NODE_MILLISECOND_NS), BASE_OK);
    }
    learner_train(&node->learner, 1);
    begin(node);
    end_well(node);
    assert_int_equal(files_of(node, ".tmp-"), 0);
}

// The last checkpoint cannot be written, and the one before it, which it would replace, is still under way:
// that one is kept.
static void a_last_checkpoint_that_fails_loses_no_earlier_one(void **state)
{
    struct node *node = *state;
    const pid_t child = fork(); // a file size limit plays the full disk
    int status;
    assert_true(child >= 0);
    learner_train(&node->learner, 1);
    const uint64_t before = learner_hash(&node->learner);
    if (child == 0) {
        const struct rlimit size = {4096, 4096};
        begin_stopped(node);
        learner_train(&node->learner, 1);
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &size), 0);
        const enum base_error error =
            node_checkpoint_replace(&node->beside, node->world->directory, 1, &node->learner.parts,
                                    NODE_MILLISECOND_NS, PATIENCE_NS, &node->why);
        _exit(error == BASE_EIO && strstr(node->why.text, "no checkpoint of step 2") && node->beside.pid == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(files_of(node, ""), 1);
    assert_int_equal(resumed_hash(node), before);
}

// Once the last one is written, the earlier one writes nothing more and leaves no file.
static void the_last_checkpoint_replaces_one_under_way(void **state)
{
    struct node *node = *state;
    begin_stopped_in_file(node);
    learner_train(&node->learner, 1);
    assert_int_equal(node_checkpoint_replace(&node->beside, node->world->directory, 3, &node->learner.parts,
                                             NODE_MILLISECOND_NS, PATIENCE_NS, &node->why),
                     BASE_OK);
    assert_int_equal(files_of(node, ""), 1);
    assert_int_equal(resumed_hash(node), learner_hash(&node->learner));
}

// One that hangs is killed in the end, and the next one can be written.
static void a_checkpoint_that_hangs_is_killed(void **state)
{
    struct node *node = *state;
    begin_stopped(node);
    const pid_t hangs = node->beside.pid;
    assert_int_equal(
        node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts, &node->why),
        BASE_ESTATE);
    assert_int_equal(node->beside.pid, hangs);
    node->beside.begun_ns -= NODE_CHECKPOINT_LONGEST_NS;
    for (int tries = 0; tries < 3000; tries++) // dying may take longer than training waits
        if (!node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts,
                                   &node->why))
            break;
    assert_int_equal(waitpid(hangs, NULL, WNOHANG), -1); // it is gone, and left no zombie
    assert_int_not_equal(node->beside.pid, hangs);
    end_well(node);
    assert_int_equal(files_of(node, ""), 1);
}

// A killed writer may not die, as in a call to a disk that does not answer: no other one is begun beside it,
// training does not wait for it, and its end is not reported again.
static void a_killed_writer_that_does_not_die_remains_the_only_one(void **state)
{
    struct node *node = *state;
    begin_stopped(node);
    const pid_t hangs = node->beside.pid;
    node->beside.killed = true;
    for (int tries = 0; tries < 2; tries++) {
        assert_int_equal(
            node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts, &node->why),
            BASE_ESTATE);
        assert_non_null(strstr(node->why.text, "does not die"));
        assert_int_equal(end(node, NODE_MILLISECOND_NS), BASE_OK);
        assert_int_equal(node->beside.pid, hangs);
    }
    assert_int_equal(kill(hangs, SIGKILL), 0);
    while (node_checkpoint_begin(&node->beside, node->world->directory, 3, &node->learner.parts, &node->why))
        assert_int_equal(node->beside.pid, hangs);
    assert_int_not_equal(node->beside.pid, hangs);
    end_well(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_checkpoint_has_the_state_when_it_was_begun, make_node, free_node),
        cmocka_unit_test_setup_teardown(the_gradient_is_not_shared, make_node, free_node),
        cmocka_unit_test_setup_teardown(only_one_checkpoint_is_written_at_a_time, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_look_does_not_wait, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_killed_writer_is_reported_once, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_full_disk_is_reported, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_model_that_is_not_finite_is_reported, make_node, free_node),
        cmocka_unit_test_setup_teardown(the_writer_holds_no_descriptor, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_node_that_ends_does_not_wait_for_ever, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_last_checkpoint_that_fails_loses_no_earlier_one, make_node,
                                        free_node),
        cmocka_unit_test_setup_teardown(the_last_checkpoint_replaces_one_under_way, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_hangs_is_killed, make_node, free_node),
        cmocka_unit_test_setup_teardown(a_killed_writer_that_does_not_die_remains_the_only_one, make_node,
                                        free_node),
    };
    if (pthread_atfork(NULL, NULL, stop_child))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
