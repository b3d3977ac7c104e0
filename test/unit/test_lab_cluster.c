// The runner with misbehaving nodes, which are played by shell scripts: its messages, the nodes that it ends,
// and that no process is left. Also the directory of a run.
#include "lab_cluster_world.h"

#define PATIENCE 3000 // looks every 10 ms; only a failure needs them all

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

static void nodes_that_end_well_are_reported_as_done(void **state)
{
    struct world *w = *state;
    play(
        w,
        "echo '{\"round\":3,\"step\":12,\"loss\":0.5,\"accuracy\":0.75,\"test_loss\":1,\"bytes_sent\":5000,"
        "\"bytes_received\":1,\"own_steps\":12,\"own_examples\":1,\"exchanges\":2,\"consensus\":null,\"delta_bytes\":3,\"dense_bytes\":4,"
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
    lab_world_expect_no_children();
}

static void a_node_that_dies_at_once_is_reported_with_its_log(void **state)
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
    lab_world_expect_no_children();
}

static void a_killed_node_with_an_empty_log_is_reported(void **state)
{
    struct world *w = *state;
    play(w, "if [ $name = node-02 ]; then kill -9 $$; fi");
    run(w);
    lab_world_expect(w->said, "node-02 ended: killed by signal 9 (Killed); the end of ");
    lab_world_expect(w->said, "    (it is empty)\n");
    lab_world_expect_no_children();
}

static void garbage_in_metrics_and_log_is_ignored(void **state)
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
    lab_world_expect_no_children();
}

static void a_stop_reaches_all_nodes(void **state)
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
    lab_world_expect_no_children();
}

static void a_node_that_does_not_stop_is_killed(void **state)
{
    struct world *w = *state;
    play(w, "trap '' TERM; touch \"$dir/ready\"; exec sleep 1000");
    w->options.stop_grace_ns = 200000000;
    pid_t sender = signal_when_ready(w, SIGINT);
    run(w);
    waitpid(sender, NULL, 0);
    lab_world_expect(w->said, "experiment.stop_grace has passed: killing the nodes that still run");
    for (size_t i = 0; i < 3; i++)
        assert_true(WIFSIGNALED(w->cluster.nodes[i].process.status) &&
                    WTERMSIG(w->cluster.nodes[i].process.status) == SIGKILL);
    lab_world_expect_no_children();
}

static void the_time_limit_stops_all_nodes(void **state)
{
    struct world *w = *state;
    play(w, "trap 'exit 0' TERM; while :; do sleep 0.01; done");
    w->options.time_limit_ns = 1;
    run(w);
    assert_true(w->cluster.overtime && !w->cluster.interrupted);
    lab_world_expect(w->said, "experiment.time_limit has passed: stopping the nodes");
    lab_world_expect_no_children();
}

static void a_program_that_cannot_be_executed_is_reported(void **state)
{
    struct world *w = *state;
    struct base_reason why = {""};
    temporary_write(w->script, "no script");
    assert_int_equal(lab_supervisor_run(&w->options, &w->cluster, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "cannot execute '"));
    assert_non_null(strstr(why.text, "Permission denied"));
    lab_world_expect_no_children();
}

// After kill -9 of the runner the kernel ends the nodes.
static void nodes_do_not_outlive_the_runner(void **state)
{
    struct world *w = *state;
    int pipes[2];
    char byte;
    assert_int_equal(pipe(pipes), 0);
    play(w, "trap '' TERM HUP INT; touch \"$dir/ready\"; exec sleep 1000");
    pid_t runner = fork();
    if (runner == 0) { // the nodes inherit the write end: it is closed when the last of them has ended
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
    lab_world_expect_no_children();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(nodes_that_end_well_are_reported_as_done),
        WITH_WORLD(a_node_that_dies_at_once_is_reported_with_its_log),
        WITH_WORLD(a_killed_node_with_an_empty_log_is_reported),
        WITH_WORLD(garbage_in_metrics_and_log_is_ignored),
        WITH_WORLD(a_stop_reaches_all_nodes),
        WITH_WORLD(a_node_that_does_not_stop_is_killed),
        WITH_WORLD(the_time_limit_stops_all_nodes),
        WITH_WORLD(a_program_that_cannot_be_executed_is_reported),
        WITH_WORLD(nodes_do_not_outlive_the_runner),
        WITH_WORLD(a_node_gets_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
