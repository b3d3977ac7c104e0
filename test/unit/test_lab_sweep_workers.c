// A sweep whose runs are played by a shell script: which runs are repeated, failures, Ctrl-C, how many run at
// a time, and that no process is left. The script replaces p2pml.
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/sweep/sweep_keep.h"
#include "lab/sweep/sweep_workers.h"
#include "test/support/lab_world.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE 3000 // looks every 10 ms; only a failure needs them all

struct world {
    char directory[TEMPORARY_BYTES];
    char *file, *script, *said;
    size_t said_bytes;
    struct lab_experiment base;
    struct lab_sweep_plan plan;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_sweep_workers workers;
};

static void make_plan(struct world *w)
{
    struct base_reason why = {""};
    const struct lab_experiment_source source = {.path = w->file, .out = w->directory};
    if (lab_experiment_load(&source, &w->base, &why) ||
        lab_sweep_plan_make(&source, &w->base, true, &w->plan, &why))
        fail_msg("%s", why.text);
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why = {""};
    assert_non_null(w);
    temporary_make(w->directory, "workers");
    w->file = lab_path("%s/fake.yaml", w->directory);
    w->script = lab_path("%s/p2pml", w->directory);
    char *runs = lab_path("%s/" LAB_RUNS, w->directory);
    temporary_write(w->file, "experiment: {stop_grace: 0}\nsweep: [{train.steps: [4, 8, 12, 16]}]\n");
    make_plan(w);
    if (base_directory_make(runs, 0777, &why) || lab_signals_open(&w->signals, &why))
        fail_msg("%s", why.text);
    FILE *out = open_memstream(&w->said, &w->said_bytes);
    assert_non_null(out);
    w->display = (struct lab_display){.out = out};
    w->workers = (struct lab_sweep_workers){.program = w->script,
                                            .command = "sim",
                                            .environment = environ,
                                            .directory = w->directory,
                                            .name = "fake",
                                            .at_once = 2,
                                            .plan = &w->plan,
                                            .signals = &w->signals,
                                            .display = &w->display};
    free(runs);
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_signals_close(&w->signals);
    lab_sweep_plan_free(&w->plan);
    lab_experiment_free(&w->base);
    fclose(w->display.out);
    free(w->said);
    free(w->file);
    free(w->script);
    free(w);
    return 0;
}

// `body` has its directory in $dir, the directory of the sweep in $all and its train.steps in $steps; `well`
// leaves the files of a complete run. Every start is a line of $all/starts.
static void play(struct world *w, const char *body)
{
    char *text = lab_path("#!/bin/sh\n[ \"$1\" = sim ] && [ \"$3\" = --out ] || exit 9\n"
                          "dir=$4; all=$(dirname \"$(dirname \"$dir\")\")\n"
                          "steps=$(sed -n 's/^ *steps: //p' \"$2\")\n"
                          "echo $steps >> \"$all/starts\"; mkdir -p \"$dir\"\n"
                          "well() { cp \"$2\" \"$dir/experiment.yaml\"; echo '{\"status\": \"complete\"}' > "
                          "\"$dir/summary.json\"; }\n%s\n",
                          body);
    temporary_write_mode(w->script, text, 0700);
    free(text);
}

static void work(struct world *w)
{
    struct base_reason why = {""};
    if (lab_sweep_workers_work(&w->workers, &why))
        fail_msg("%s", why.text);
    fflush(w->display.out);
}

static void expect_states(const struct world *w, const char *states) // c, f, i, w
{
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(lab_sweep_state_name(w->plan.runs[i].state)[0], states[i]);
}

static void expect_file(const struct world *w, const char *name, const char *text)
{
    char *path = lab_path("%s/%s", w->directory, name);
    uint8_t *data = NULL;
    size_t bytes = 0;
    struct base_reason why = {""};
    if (base_file_read(path, 1u << 20, &data, &bytes, &why))
        fail_msg("%s", why.text);
    if (!strstr((const char *)data, text))
        fail_msg("expected '%s' in %s:\n%s", text, name, (const char *)data);
    free(data);
    free(path);
}

// Another process sends this one SIGINT, `times` times, once that file of the sweep exists.
static pid_t interrupt_when(const struct world *w, const char *name, unsigned times)
{
    pid_t self = getpid(), child = fork();
    const struct timespec moment = {.tv_nsec = 10000000};
    if (child)
        return child;
    char *path = lab_path("%s/%s", w->directory, name);
    for (int look = 0; access(path, F_OK) && look < PATIENCE; look++)
        nanosleep(&moment, NULL);
    for (; times; times--) {
        const struct timespec again = {.tv_sec = 1,
                                       .tv_nsec = 100000000}; // base/stop.h: an earlier one is a repetition
        kill(self, SIGINT);
        if (times > 1)
            nanosleep(&again, NULL);
    }
    _exit(0);
}

static void all_runs_end_well(void **state)
{
    struct world *w = *state;
    play(w, "well \"$@\"");
    work(w);
    expect_states(w, "cccc");
    assert_false(w->workers.interrupted);
    lab_world_expect(w->said, "4 of 4 complete: train.steps=");
    expect_file(w, "starts", "4\n");
    expect_file(w, LAB_SWEEP, "\"keys\": [\n  \"train.steps\"\n ]");
    expect_file(w, LAB_SWEEP, "\"label\": \"train.steps=16,seed=0\"");
    expect_file(w, LAB_SWEEP, "\"status\": \"complete\"");
    lab_world_expect_no_children();
}

// The two runs of a pair wait for each other: if they ran one at a time, neither would end. A third would be
// noticed.
static void two_runs_are_started_at_a_time(void **state)
{
    struct world *w = *state;
    play(w, "touch \"$all/here.$$\"\n"
            "i=0; while [ $(cat \"$all/starts\" | wc -l) -lt 2 ]; do sleep 0.01; i=$((i+1)); "
            "[ $i -lt 3000 ] || exit 3; done\n"
            "sleep 0.05; [ $(ls \"$all\" | grep -c '^here') -le 2 ] || exit 4\n"
            "rm \"$all/here.$$\"; well \"$@\"");
    work(w);
    expect_states(w, "cccc");
    lab_world_expect_no_children();
}

static void a_failure_does_not_stop_the_others(void **state)
{
    struct world *w = *state;
    play(w, "if [ $steps = 8 ]; then echo 'no room here' >&2; exit 3; fi\n"
            "if [ $steps = 12 ]; then exit 0; fi\nwell \"$@\"");
    work(w);
    expect_states(w, "cffc");
    lab_world_expect(w->said, "train.steps=8,seed=0 failed: exit status 3; the end of ");
    lab_world_expect(w->said, "/runs/train.steps=8,seed=0.log:\n    no room here\n");
    lab_world_expect(w->said,
                     "train.steps=12,seed=0 failed: done, but left no complete summary; the end of ");
    assert_null(strstr(w->said, "train.steps=16,seed=0 failed"));
    expect_file(w, LAB_SWEEP, "\"status\": \"failed\"");
    lab_world_expect_no_children();
}

static void a_stop_reaches_the_runs_and_starts_no_more(void **state)
{
    struct world *w = *state;
    play(w,
         "if [ $steps = 4 ]; then well \"$@\"; exit 0; fi\n"
         "trap 'echo stopped > \"$all/stopped.$steps\"; exit 130' TERM\n"
         "touch \"$all/traps.$steps\"\n"
         "[ $steps = 12 ] && { until [ -e \"$all/traps.8\" ]; do sleep 0.01; done; touch \"$all/ready\"; }\n"
         "while :; do sleep 0.01; done");
    w->plan.runs[1].stop_grace_ns = w->plan.runs[2].stop_grace_ns = 60000000000;
    pid_t sender = interrupt_when(w, "ready", 1);
    work(w);
    waitpid(sender, NULL, 0);
    assert_true(w->workers.interrupted);
    expect_states(w, "ciiw");
    lab_world_expect(w->said, "interrupted: stopping the runs; the same command continues the sweep");
    assert_null(strstr(w->said, "failed"));
    expect_file(w, "stopped.8", "stopped");
    expect_file(w, "stopped.12", "stopped");
    lab_world_expect_no_children();
    // The same again: complete runs are not started.
    lab_sweep_plan_free(&w->plan);
    lab_experiment_free(&w->base);
    make_plan(w);
    double seconds;
    for (size_t i = 0; i < 4; i++)
        if (lab_sweep_run_is_complete(&w->plan.runs[i], &seconds))
            w->plan.runs[i].state = LAB_SWEEP_COMPLETE;
    expect_states(w, "cwww");
    w->workers.interrupted = false;
    char *starts = lab_path("%s/starts", w->directory);
    assert_int_equal(unlink(starts), 0);
    free(starts);
    play(w, "[ $steps != 4 ] && well \"$@\"");
    work(w);
    expect_states(w, "cccc");
    lab_world_expect_no_children();
}

static void a_second_stop_kills_the_runs(void **state)
{
    struct world *w = *state;
    play(w, "trap '' TERM; touch \"$all/ready\"; exec sleep 1000");
    w->plan.runs[0].stop_grace_ns = w->plan.runs[1].stop_grace_ns = 600000000000;
    pid_t sender = interrupt_when(w, "ready", 20);
    work(w);
    waitpid(sender, NULL, 0);
    lab_world_expect(w->said, "killing the runs that have not ended");
    assert_int_equal(w->plan.runs[3].state, LAB_SWEEP_WAITING);
    lab_world_expect_no_children();
}

static void a_program_that_cannot_be_executed_is_reported(void **state)
{
    struct world *w = *state;
    struct base_reason why = {""};
    temporary_write(w->script, "no script");
    assert_int_equal(lab_sweep_workers_work(&w->workers, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "cannot execute '"));
    lab_world_expect_no_children();
}

// After kill -9 of the runner the kernel ends the runs.
static void runs_do_not_outlive_the_sweep(void **state)
{
    struct world *w = *state;
    int pipes[2], status = 0;
    char byte;
    assert_int_equal(pipe(pipes), 0);
    play(w, "trap '' TERM HUP INT; [ $steps = 8 ] && touch \"$all/ready\"; exec sleep 1000");
    pid_t runner = fork();
    if (runner == 0) { // the runs inherit the write end: it is closed when the last of them has ended
        struct base_reason why = {""};
        close(pipes[0]);
        _exit(lab_sweep_workers_work(&w->workers, &why) ? 1 : 0);
    }
    close(pipes[1]);
    char *ready = lab_path("%s/ready", w->directory);
    const struct timespec moment = {.tv_nsec = 10000000};
    for (int look = 0; access(ready, F_OK) && look < PATIENCE; look++)
        nanosleep(&moment, NULL);
    free(ready);
    kill(runner, SIGKILL);
    assert_int_equal(read(pipes[0], &byte, 1), 0);
    close(pipes[0]);
    assert_int_equal(waitpid(runner, &status, 0), runner);
    assert_true(WIFSIGNALED(status));
    lab_world_expect_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_runs_end_well, make_world, remove_world),
        cmocka_unit_test_setup_teardown(two_runs_are_started_at_a_time, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_failure_does_not_stop_the_others, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_stop_reaches_the_runs_and_starts_no_more, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_second_stop_kills_the_runs, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_program_that_cannot_be_executed_is_reported, make_world,
                                        remove_world),
        cmocka_unit_test_setup_teardown(runs_do_not_outlive_the_sweep, make_world, remove_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
