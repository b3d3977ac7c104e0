// The runner against nodes that misbehave, played by shell scripts: what it says, whom it ends, and that
// nobody is left. Also the directory of a run.
#include "base/file.h"
#include "gossip/session/identity.h"
#include "lab/processes/supervisor.h"
#include "lab/record/directory.h"
#include "lab/term/environment.h"
#include "lab/term/ports.h"
#include "test/support/lab_world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE 3000 // looks at 10 ms; only a failure needs them all

struct world {
    char directory[TEMPORARY_BYTES];
    char *script, *said; // what was shown
    size_t said_bytes;
    struct lab_experiment experiment;
    struct lab_cluster cluster;
    struct lab_signals signals;
    struct lab_display display;
    struct lab_supervisor_options options;
};

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why = {""};
    assert_non_null(w);
    temporary_make(w->directory, "cluster");
    char *file = lab_path("%s/fake.yaml", w->directory);
    w->script = lab_path("%s/node", w->directory);
    temporary_write(file, "experiment:\n  nodes: 3\n");
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_cluster_prepare(&w->experiment, w->directory, &w->cluster, &why) ||
        lab_signals_open(&w->signals, &why))
        fail_msg("%s", why.text);
    FILE *out = open_memstream(&w->said, &w->said_bytes);
    assert_non_null(out);
    w->display = (struct lab_display){.out = out};
    w->options = (struct lab_supervisor_options){.program = w->script,
                                                 .environment = environ,
                                                 .stop_grace_ns = 60000000000,
                                                 .signals = &w->signals,
                                                 .display = &w->display};
    free(file);
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_signals_close(&w->signals);
    lab_cluster_free(&w->cluster);
    lab_experiment_free(&w->experiment);
    fclose(w->display.out);
    free(w->said);
    free(w->script);
    free(w);
    return 0;
}

// The same world with these events, a YAML list.
static void with_events(struct world *w, const char *events)
{
    struct base_reason why = {""};
    char *file = lab_path("%s/fake.yaml", w->directory), *command = lab_path("rm -r %s/*", w->directory);
    char *text = lab_path("experiment:\n  nodes: 3\nevents: %s\n", events);
    lab_cluster_free(&w->cluster);
    lab_experiment_free(&w->experiment);
    assert_int_equal(system(command), 0);
    temporary_write(file, text);
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_cluster_prepare(&w->experiment, w->directory, &w->cluster, &why))
        fail_msg("%s", why.text);
    free(text);
    free(command);
    free(file);
}

// `body` finds the node's directory in $dir and its name in $name.
static void play(struct world *w, const char *body)
{
    char *text = lab_path("#!/bin/sh\ndir=$(dirname \"$2\")\nname=$(basename \"$dir\")\n%s\n", body);
    temporary_write_mode(w->script, text, 0700);
    free(text);
}

static void run(struct world *w)
{
    struct base_reason why = {""};
    if (lab_supervisor_run(&w->options, &w->cluster, &why))
        fail_msg("%s", why.text);
    fflush(w->display.out);
    for (size_t i = 0; i < w->cluster.count; i++)
        assert_false(w->cluster.nodes[i].process.running);
}

// Another process sends this one `signal` as soon as all nodes have made the file `ready`. Returns its pid.
static pid_t signal_when_ready(const struct world *w, int signal)
{
    pid_t self = getpid(), child = fork();
    const struct timespec moment = {.tv_nsec = 10000000};
    size_t ready = 0;
    if (child)
        return child;
    for (int look = 0; ready < w->cluster.count && look < PATIENCE; look++, nanosleep(&moment, NULL)) {
        ready = 0;
        for (size_t i = 0; i < w->cluster.count; i++) {
            char *path = lab_path("%s/ready", w->cluster.nodes[i].directory);
            ready += access(path, F_OK) == 0;
            free(path);
        }
    }
    kill(self, signal);
    _exit(0);
}

static void nodes_that_end_well(void **state)
{
    struct world *w = *state;
    play(w,
         "echo '{\"round\":3,\"step\":12,\"loss\":0.5,\"accuracy\":0.75,\"test_loss\":1,\"bytes_sent\":5000,"
         "\"bytes_received\":1,\"exchanges\":2,\"consensus\":null,\"delta_bytes\":3,\"dense_bytes\":4,"
         "\"state\":\"finished\"}' > \"$dir/metrics.jsonl\"; echo hello >&2; test \"$1\" = --config");
    run(w);
    for (size_t i = 0; i < 3; i++) {
        assert_true(lab_process_succeeded(&w->cluster.nodes[i].process));
        assert_true(w->cluster.nodes[i].tail.lines == 1 && w->cluster.nodes[i].tail.row.step == 12);
        char end[64];
        lab_log_end(w->cluster.nodes[i].log, end, sizeof end);
        assert_string_equal(end, "    hello\n");
    }
    lab_world_expect(w->said,
                     "node-02  round 3  step 12  loss 0.5000  accuracy 75.00%  consensus -  5 kB sent  done");
    assert_null(strstr(w->said, "ended:"));
    assert_false(w->cluster.interrupted);
    lab_world_nobody_is_left();
}

static void a_node_that_dies_at_once(void **state)
{
    struct world *w = *state;
    play(w,
         "if [ $name = node-01 ]; then for i in 1 2 3 4 5 6 7; do echo \"reason $i\" >&2; done; exit 3; fi");
    run(w);
    lab_world_expect(w->said, "node-01 ended: exit status 3; the end of ");
    lab_world_expect(
        w->said,
        "node-01/log:\n    reason 2\n    reason 3\n    reason 4\n    reason 5\n    reason 6\n    reason 7\n");
    assert_null(strstr(w->said, "reason 1\n"));
    assert_null(strstr(w->said, "node-00 ended"));
    assert_true(lab_process_succeeded(&w->cluster.nodes[0].process) &&
                !lab_process_succeeded(&w->cluster.nodes[1].process));
    lab_world_nobody_is_left();
}

static void a_node_that_is_killed_and_said_nothing(void **state)
{
    struct world *w = *state;
    play(w, "if [ $name = node-02 ]; then kill -9 $$; fi");
    run(w);
    lab_world_expect(w->said, "node-02 ended: killed by signal 9 (Killed); the end of ");
    lab_world_expect(w->said, "    (it is empty)\n");
    lab_world_nobody_is_left();
}

static void garbage_in_metrics_and_log(void **state)
{
    struct world *w = *state;
    play(
        w,
        "head -c 200000 /dev/zero | tr '\\0' 'x' > \"$dir/metrics.jsonl\"; printf '\\n{}\\n[1\\n\\377\\n' >> "
        "\"$dir/metrics.jsonl\"; printf 'bad \\033[2J log' >&2; exit 1");
    run(w);
    for (size_t i = 0; i < 3; i++)
        assert_true(w->cluster.nodes[i].tail.lines == 0 && w->cluster.nodes[i].tail.bad == 4);
    lab_world_expect(w->said, "    bad ?[2J log\n");
    assert_null(strchr(w->said, '\033'));
    lab_world_nobody_is_left();
}

static void a_stop_reaches_all(void **state)
{
    struct world *w = *state;
    play(w, "trap 'echo stopped >&2; exit 0' TERM; touch \"$dir/ready\"; while :; do sleep 0.01; done");
    pid_t sender = signal_when_ready(w, SIGTERM);
    run(w);
    waitpid(sender, NULL, 0);
    assert_true(w->cluster.interrupted && !w->cluster.overtime);
    lab_world_expect(w->said, "interrupted: stopping the nodes");
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_process_succeeded(&w->cluster.nodes[i].process));
    lab_world_nobody_is_left();
}

static void who_does_not_stop_is_killed(void **state)
{
    struct world *w = *state;
    play(w, "trap '' TERM; touch \"$dir/ready\"; exec sleep 1000");
    w->options.stop_grace_ns = 200000000;
    pid_t sender = signal_when_ready(w, SIGINT);
    run(w);
    waitpid(sender, NULL, 0);
    lab_world_expect(w->said, "experiment.stop_grace is over: killing the nodes that still run");
    for (size_t i = 0; i < 3; i++)
        assert_true(WIFSIGNALED(w->cluster.nodes[i].process.status) &&
                    WTERMSIG(w->cluster.nodes[i].process.status) == SIGKILL);
    lab_world_nobody_is_left();
}

static void the_time_limit_stops_all(void **state)
{
    struct world *w = *state;
    play(w, "trap 'exit 0' TERM; while :; do sleep 0.01; done");
    w->options.time_limit_ns = 1;
    run(w);
    assert_true(w->cluster.overtime && !w->cluster.interrupted);
    lab_world_expect(w->said, "experiment.time_limit is over: stopping the nodes");
    lab_world_nobody_is_left();
}

static void a_program_that_cannot_be_executed(void **state)
{
    struct world *w = *state;
    struct base_reason why = {""};
    temporary_write(w->script, "no script");
    assert_int_equal(lab_supervisor_run(&w->options, &w->cluster, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "cannot execute '"));
    assert_non_null(strstr(why.text, "Permission denied"));
    lab_world_nobody_is_left();
}

// kill -9 of the runner: the kernel ends the node.
static void nodes_do_not_outlive_the_runner(void **state)
{
    struct world *w = *state;
    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    play(w, "trap '' TERM HUP INT; touch \"$dir/ready\"; exec sleep 1000");
    pid_t runner = fork();
    if (runner == 0) { // the write end goes on to the nodes: it is closed when the last of them has ended
        struct base_reason why = {""};
        close(pipes[0]);
        if (lab_supervisor_run(&w->options, &w->cluster, &why))
            _exit(1);
        _exit(0);
    }
    close(pipes[1]);
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        pid_t waiter = signal_when_ready(w, SIGURG); // ignored here: this only waits for the nodes
        waitpid(waiter, NULL, 0);
        kill(runner, SIGKILL);
        _exit(self == getppid() ? 0 : 1);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 0); // the end: no node holds it any more
    close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(runner, &status, 0), runner);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(sender, &status, 0), sender);
    lab_world_nobody_is_left();
}

// A stand-in that trains: `round` appends the metrics of one, `rounds_until` does so until a command is true.
#define TRAINS                                                                                               \
    "round() { echo '{\"round\":1,\"step\":1,\"loss\":1,\"accuracy\":null,\"test_loss\":null,"               \
    "\"bytes_sent\":10,\"bytes_received\":1,\"exchanges\":1,\"consensus\":null,\"delta_bytes\":1,"           \
    "\"dense_bytes\":1,\"state\":\"training\"}' >> \"$dir/metrics.jsonl\"; sleep 0.01; }\n"                  \
    "rounds_until() { while ! \"$@\"; do round; done; }\n"                                                   \
    "run=$dir/..\n"

static void a_node_is_killed_and_started_again(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 50ms, kill: 1}, {at: 100ms, start: 1}]");
    play(w, TRAINS "echo \"life $3\" >&2\n"
                   "if [ \"$3\" = --resume ]; then round; touch \"$run/done\"; exit 0; fi\n"
                   "if [ $name = node-01 ]; then printf '{\"rou' >> \"$dir/metrics.jsonl\"; fi\n"
                   "rounds_until [ -e \"$run/done\" ]");
    run(w);
    lab_world_expect(w->said, "event at 0.05 s: node-01 killed\n");
    lab_world_expect(w->said, "event at 0.1 s: node-01 started again\n");
    assert_null(strstr(w->said, "ended:"));
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]) && !lab_node_failed(&w->cluster.nodes[i]));
    const struct lab_node *node = &w->cluster.nodes[1];
    char end[64];
    assert_int_equal(node->starts, 2);
    assert_true(lab_tail_row(&node->tail).bytes_sent == 10 * 2 || node->tail.lines > 1);
    lab_log_end(node->log, end, sizeof end);
    assert_string_equal(end, "    life \n    life --resume\n"); // of both lives
    assert_true(w->cluster.happenings[0].time >= w->cluster.train_time &&
                w->cluster.happenings[1].time >= w->cluster.happenings[0].time);
    assert_int_equal(w->cluster.happenings[0].present.words[0], 7);
    assert_int_equal(w->cluster.happenings[1].present.words[0], 5);
    lab_world_nobody_is_left();
}

// Rounds count up to what the first argument says; then it waits for the others.
#define COUNTS                                                                                               \
    "n=0; [ \"$3\" = --resume ] && n=3\n"                                                                    \
    "one() { n=$((n + 1)); echo \"{\\\"round\\\":$n,\\\"step\\\":$n,\\\"loss\\\":1,\\\"accuracy\\\":null,\"" \
    "\"\\\"test_loss\\\":null,\\\"bytes_sent\\\":10,\\\"bytes_received\\\":1,\\\"exchanges\\\":1,\""         \
    "\"\\\"consensus\\\":null,\\\"delta_bytes\\\":1,\\\"dense_bytes\\\":1,\\\"state\\\":\\\"training\\\"}\"" \
    " >> \"$dir/metrics.jsonl\"; sleep 0.01; }\n"

static void events_happen_at_rounds_of_the_cluster(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: {round: 10}, kill: 1}, {at: {round: 30}, start: 1},"
                   " {at: {round: 20}, stop: 2, for: {rounds: 40}}]");
    play(w, COUNTS "while [ $n -lt 100 ]; do one; done\n");
    run(w);
    lab_world_expect(w->said, "event at round 10: node-01 killed\n");
    lab_world_expect(w->said, "event at round 20: node-02 stopped\n");
    lab_world_expect(w->said, "event at round 30: node-01 started again\n");
    lab_world_expect(w->said, "event: node-02 goes on\n");
    const struct lab_happening *h = w->cluster.happenings;
    assert_true(h[0].round >= 10 && h[1].round >= 20 && h[2].round >= 30 && h[2].round < 90);
    assert_true(h[0].time < h[1].time && h[1].time < h[2].time && h[1].end_time > h[2].time);
    // It comes back at round 3, when the others are at 30: the cluster's round does not go back.
    assert_true(w->cluster.round >= 90);
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]));
    lab_world_nobody_is_left();
}

// The last of them runs no more: nobody waits for a round that never comes.
static void a_round_that_never_comes(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 100ms, kill: [0, 2]}, {at: {round: 400}, kill: 1}]");
    play(w, COUNTS "while [ $n -lt 20 ]; do one; done\nif [ $name != node-01 ]; then sleep 100; fi\n");
    run(w);
    assert_string_equal(w->cluster.happenings[2].instead, "the run was over before");
    lab_world_nobody_is_left();
}

static void a_killed_node_is_no_failure(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 10ms, kill: 2}, {at: 20ms, leave: 1}]");
    play(w, TRAINS "trap 'touch \"$run/left\"; exit 0' TERM\nrounds_until [ -e \"$run/left\" ]");
    run(w);
    lab_world_expect(w->said, "node-02 killed\n");
    lab_world_expect(w->said, "node-01 asked to leave\n");
    assert_null(strstr(w->said, "ended:"));
    assert_true(lab_node_ended_well(&w->cluster.nodes[0]));
    for (size_t i = 1; i < 3; i++)
        assert_true(!lab_node_ended_well(&w->cluster.nodes[i]) && !lab_node_failed(&w->cluster.nodes[i]));
    lab_world_expect(w->said, "killed by an event");
    lab_world_nobody_is_left();
}

static void a_node_is_stopped_for_a_while(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 10ms, stop: 1, for: 1s}]");
    play(w, TRAINS
         "echo $$ > \"$dir/pid\"\n"
         "stands() { grep -q '^State:.*T' /proc/$(cat \"$run/node-01/pid\")/status; }\n"
         "goes() { ! stands; }\n"
         "if [ $name = node-00 ]; then round; rounds_until stands; touch \"$run/stood\"; rounds_until goes;"
         " touch \"$run/done\"; fi\n"
         "rounds_until [ -e \"$run/done\" ]");
    run(w);
    lab_world_expect(w->said, "event at 0.01 s: node-01 stopped\n");
    lab_world_expect(w->said, "event: node-01 goes on\n");
    assert_true(w->cluster.happenings[0].end_time >=
                w->cluster.train_time + 1); // on a busy machine it begins late
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]));
    lab_world_nobody_is_left();
}

static void a_stop_of_the_run_wakes_the_stopped(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 0s, stop: [0, 1, 2], for: 1h}, {at: 2h, kill: 0}]");
    play(w, TRAINS "trap 'exit 0' TERM\nround\ntouch \"$dir/ready\"\nrounds_until false");
    w->options.time_limit_ns = 1000000000;
    run(w);
    assert_true(w->cluster.overtime);
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]));
    assert_true(isnan(w->cluster.happenings[3].time));
    assert_string_equal(w->cluster.happenings[3].instead, "the run was stopped before");
    lab_world_nobody_is_left();
}

static void a_network_falls_apart(void **state)
{
    struct world *w = *state;
    char all[2 * GOSSIP_ID_HEX + 4];
    with_events(w, "[{at: 10ms, partition: [[0], [1]], for: 100ms}]");
    play(w, TRAINS "trap 'cat \"$dir/fault\" >> \"$dir/told\"; echo . >> \"$dir/told\"' HUP\n"
                   "healed() { [ \"$(grep -c '^[.]' \"$run/$1/told\" 2>&1)\" = 2 ]; }\n"
                   "rounds_until healed node-00; rounds_until healed node-01");
    run(w);
    lab_world_expect(w->said, "event at 0.01 s: the network falls apart\n");
    lab_world_expect(w->said, "event: the network is whole again\n");
    for (size_t i = 0; i < 2; i++) {
        struct base_reason why = {""};
        uint8_t *told = NULL;
        size_t bytes = 0;
        char *path = lab_path("%s/told", w->cluster.nodes[i].directory);
        if (base_file_read(path, 1000, &told, &bytes, &why))
            fail_msg("%s", why.text);
        snprintf(all, sizeof all, "%s\n.\n.\n", w->cluster.ids.hex[1 - i]);
        assert_string_equal((char *)told, all);
        free(told);
        free(path);
    }
    char *path = lab_path("%s/told", w->cluster.nodes[2].directory); // in no group
    assert_int_equal(access(path, F_OK), -1);
    free(path);
    lab_world_nobody_is_left();
}

static void all_may_be_down_for_a_while(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 10ms, kill: [0, 1, 2]}, {at: 300ms, start: [0, 1, 2]}]");
    play(w, TRAINS "round\n[ \"$3\" = --resume ] || rounds_until false");
    run(w);
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]) && w->cluster.nodes[i].starts == 2);
    lab_world_nobody_is_left();
}

static void a_late_node_is_not_there_before(void **state)
{
    struct world *w = *state;
    struct node_config config = {0};
    struct base_reason why = {""};
    with_events(w, "[{at: 10ms, start: 1}, {at: 1h, kill: 0}]");
    if (node_schema_defaults(&node_config_schema, &config, &why) ||
        node_schema_read_file(&node_config_schema, w->cluster.nodes[1].config, &config, &why))
        fail_msg("%s", why.text);
    assert_true(config.node.start_members == 2 && config.peers.count == 2);
    node_schema_free(&node_config_schema, &config);
    play(w, TRAINS "if [ $name = node-01 ]; then [ \"$3\" = '' ] && touch \"$run/done\"; fi\n"
                   "rounds_until [ -e \"$run/done\" ]");
    run(w);
    lab_world_expect(w->said, "event at 0.01 s: node-01 started\n");
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]) && w->cluster.nodes[i].starts == 1);
    assert_string_equal(w->cluster.happenings[1].instead, "the run was over before");
    lab_world_nobody_is_left();
}

static void a_node_that_ended_by_itself_is_not_killed(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 0s, kill: 1}, {at: 50ms, start: 1}, {at: 100ms, kill: 0}]");
    // Node 0 makes its round only when node 1 has ended, so that training is seen after that.
    play(w, TRAINS
         "echo $$ > \"$dir/pid\"\n"
         "case $name in node-00) sleep 0.2; round; rounds_until false;; node-01) round; exit 0;; esac");
    run(w);
    lab_world_expect(w->said, "event at 0 s: kill of node-01 did not happen: it had ended before\n");
    lab_world_expect(w->said, "start of node-01 did not happen: it had ended by itself\n");
    lab_world_expect(w->said, "node-00 killed\n");
    assert_true(lab_node_ended_well(&w->cluster.nodes[1]) && w->cluster.nodes[1].starts == 1);
    lab_world_nobody_is_left();
}

// What the nodes write in their events.jsonl is said in one line when all have seen it.
static void progress_says_who_saw_it(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 10ms, kill: 2}]");
    play(w, TRAINS "sees() { echo \"{\\\"time\\\":$(date +%s.%N),\\\"event\\\":\\\"dead\\\","
                   "\\\"member\\\":\\\"node-02\\\"}\" >> \"$dir/events.jsonl\"; }\n"
                   "gone() { ! kill -0 $(cat \"$run/node-02/pid\"); }\n"
                   "echo $$ > \"$dir/pid\"\n"
                   "[ $name = node-02 ] && rounds_until false\n"
                   "round; while [ ! -s \"$run/node-02/pid\" ]; do round; done\n"
                   "rounds_until gone; sees; round");
    run(w);
    lab_world_expect(w->said, "node-02 dead: seen by 2 of 2 after ");
    assert_null(strstr(w->said, "which no event explains"));
    lab_world_nobody_is_left();
}

static void a_node_gets_what_it_needs(void **state)
{
    struct world *w = *state;
    struct node_config config = {0};
    struct base_reason why = {""};
    struct stat status;
    char *secret = lab_path("%s/secret", w->directory), address[32];
    assert_int_equal(stat(secret, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    for (size_t i = 0; i < 3; i++) {
        const struct lab_node *node = &w->cluster.nodes[i];
        if (node_schema_defaults(&node_config_schema, &config, &why) ||
            node_schema_read_file(&node_config_schema, node->config, &config, &why) ||
            node_config_check(&config, &why))
            fail_msg("%s", why.text);
        assert_string_equal(config.node.name, node->name);
        assert_string_equal(config.node.dir, node->directory);
        assert_string_equal(config.cluster.secret_file, secret);
        assert_true(config.data.shard == i && config.data.shards == 3 && config.peers.count == 3);
        snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)node->port);
        assert_string_equal(config.node.listen, address);
        assert_string_equal(config.peers.items[i], address);
        assert_int_not_equal(node->port, node->http_port);
        assert_string_equal(config.node.fault_file, node->fault);
        assert_int_equal(config.node.start_members, 3);
        assert_int_equal(stat(node->fault, &status), 0);
        assert_int_equal(status.st_size, 0);
        char *identity = lab_path("%s/identity", node->directory), hex[GOSSIP_ID_HEX];
        struct gossip_identity keys;
        assert_int_equal(gossip_identity_load(identity, &keys, &why), BASE_OK);
        gossip_id_hex(&keys.id, hex);
        assert_string_equal(hex, w->cluster.ids.hex[i]);
        gossip_identity_wipe(&keys);
        free(identity);
        node_schema_free(&node_config_schema, &config);
    }
    free(secret);
}

static void ports_are_different(void **state)
{
    (void)state;
    uint16_t ports[128];
    struct base_reason why = {""};
    assert_int_equal(lab_ports_find(128, ports, &why), BASE_OK);
    for (size_t i = 0; i < 128; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(ports[i], ports[k]);
}

static void variables_of_the_experiment_stay_here(void **state)
{
    (void)state;
    char path[] = "PATH=/bin", steps[] = "P2PML_TRAIN_STEPS=3", cpu[] = "P2PML_CPU=scalar",
         node[] = "P2PML_NODE=x";
    char *all[] = {steps, path, cpu, node, NULL}, **kept = lab_environment_for_nodes(all);
    assert_non_null(kept);
    assert_string_equal(kept[0], path);
    assert_string_equal(kept[1], cpu);
    assert_null(kept[2]);
    free(kept);
}

static bool is_there(const char *directory, const char *name)
{
    char *path = lab_path("%s/%s", directory, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void put(const char *directory, const char *name)
{
    char *path = lab_path("%s/%s", directory, name);
    temporary_write(path, "x");
    free(path);
}

static void a_finished_result_is_kept(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/run", base), *summary = lab_path("%s/summary.json", path);
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_OK);
    lab_directory_close(&directory);
    temporary_write(summary, "{\"status\": \"failed\"}");
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_OK); // may be done again
    lab_directory_close(&directory);
    temporary_write(summary, "{\"status\": \"complete\"}");
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "holds a finished result"));
    assert_true(is_there(path, "summary.json"));
    assert_int_equal(lab_directory_open(path, true, &directory, &why), BASE_OK);
    assert_false(is_there(path, "summary.json"));
    lab_directory_close(&directory);
    temporary_remove(base);
    free(summary);
    free(path);
}

static void a_directory_is_ours_or_empty(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory, second;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/some/where", base), *node = lab_path("%s/node-63", path);
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_OK); // made
    assert_int_equal(lab_directory_open(path, false, &second, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "another 'p2pml run' is at work"));
    lab_directory_close(&directory);
    // Ours: what a run leaves goes, anything else stays.
    assert_int_equal(base_directory_make(node, &why), BASE_OK);
    put(node, "checkpoint");
    put(path, "summary.json");
    put(path, "notes");
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_OK);
    assert_true(!is_there(path, "node-63") && !is_there(path, "summary.json") && is_there(path, "notes"));
    lab_directory_close(&directory);
    // Not ours.
    char *command = lab_path("rm %s/%s", path, LAB_MARK);
    assert_int_equal(system(command), 0);
    put(path, "summary.json");
    assert_int_equal(lab_directory_open(path, false, &directory, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "--fresh"));
    assert_true(is_there(path, "summary.json") && !is_there(path, LAB_MARK));
    assert_int_equal(lab_directory_open(path, true, &directory, &why), BASE_OK);
    assert_true(!is_there(path, "summary.json") && is_there(path, "notes"));
    lab_directory_close(&directory);
    free(command);
    temporary_remove(base);
    free(node);
    free(path);
}

static void links_are_removed_and_not_followed(void **state)
{
    (void)state;
    char base[TEMPORARY_BYTES];
    struct lab_directory directory;
    struct base_reason why = {""};
    temporary_make(base, "directory");
    char *path = lab_path("%s/run", base), *other = lab_path("%s/other", base),
         *link = lab_path("%s/node-00", path);
    assert_int_equal(base_directory_make(path, &why), BASE_OK);
    assert_int_equal(base_directory_make(other, &why), BASE_OK);
    put(other, "precious");
    assert_int_equal(symlink(other, link), 0);
    assert_int_equal(lab_directory_open(path, true, &directory, &why), BASE_OK);
    assert_true(is_there(other, "precious") && !is_there(path, "node-00"));
    lab_directory_close(&directory);
    temporary_remove(base);
    free(path);
    free(other);
    free(link);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, remove_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(nodes_that_end_well),
        WITH_WORLD(a_node_that_dies_at_once),
        WITH_WORLD(a_node_that_is_killed_and_said_nothing),
        WITH_WORLD(garbage_in_metrics_and_log),
        WITH_WORLD(a_stop_reaches_all),
        WITH_WORLD(who_does_not_stop_is_killed),
        WITH_WORLD(the_time_limit_stops_all),
        WITH_WORLD(a_program_that_cannot_be_executed),
        WITH_WORLD(nodes_do_not_outlive_the_runner),
        WITH_WORLD(a_node_is_killed_and_started_again),
        WITH_WORLD(events_happen_at_rounds_of_the_cluster),
        WITH_WORLD(a_round_that_never_comes),
        WITH_WORLD(a_killed_node_is_no_failure),
        WITH_WORLD(a_node_is_stopped_for_a_while),
        WITH_WORLD(a_stop_of_the_run_wakes_the_stopped),
        WITH_WORLD(a_network_falls_apart),
        WITH_WORLD(all_may_be_down_for_a_while),
        WITH_WORLD(a_late_node_is_not_there_before),
        WITH_WORLD(a_node_that_ended_by_itself_is_not_killed),
        WITH_WORLD(progress_says_who_saw_it),
        WITH_WORLD(a_node_gets_what_it_needs),
        cmocka_unit_test(ports_are_different),
        cmocka_unit_test(variables_of_the_experiment_stay_here),
        cmocka_unit_test(a_directory_is_ours_or_empty),
        cmocka_unit_test(a_finished_result_is_kept),
        cmocka_unit_test(links_are_removed_and_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
