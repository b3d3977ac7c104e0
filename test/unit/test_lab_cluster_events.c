// Events of an experiment on nodes that are played by shell scripts: when they happen, and what is reported
// about them.
#include "lab_cluster_world.h"

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

// A script that plays a trainer: `round` appends the metrics of one, `rounds_until` does so until a command
// is true.
#define TRAINS                                                                                                                           \
    "round() { echo '{\"round\":1,\"step\":1,\"loss\":1,\"accuracy\":null,\"test_loss\":null,"                                           \
    "\"bytes_sent\":10,\"bytes_received\":1,\"own_steps\":1,\"own_examples\":null,\"exchanges\":1,\"consensus\":null,\"delta_bytes\":1," \
    "\"dense_bytes\":1,\"state\":\"training\"}' >> \"$dir/metrics.jsonl\"; sleep 0.01; }\n"                                              \
    "rounds_until() { while ! \"$@\"; do round; done; }\n"                                                                               \
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
    assert_string_equal(end, "    life \n    life --resume\n"); // of both processes
    assert_true(w->cluster.happenings[0].time >= w->cluster.train_time &&
                w->cluster.happenings[1].time >= w->cluster.happenings[0].time);
    assert_int_equal(w->cluster.happenings[0].present.words[0], 7);
    assert_int_equal(w->cluster.happenings[1].present.words[0], 5);
    lab_world_expect_no_children();
}

// Rounds count up to the first argument; then the script waits for the others.
#define COUNTS                                                                                                                                  \
    "n=0; [ \"$3\" = --resume ] && n=3\n"                                                                                                       \
    "one() { n=$((n + 1)); echo \"{\\\"round\\\":$n,\\\"step\\\":$n,\\\"loss\\\":1,\\\"accuracy\\\":null,\""                                    \
    "\"\\\"test_loss\\\":null,\\\"bytes_sent\\\":10,\\\"bytes_received\\\":1,\\\"own_steps\\\":1,\\\"own_examples\\\":1,\\\"exchanges\\\":1,\"" \
    "\"\\\"consensus\\\":null,\\\"delta_bytes\\\":1,\\\"dense_bytes\\\":1,\\\"state\\\":\\\"training\\\"}\""                                    \
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
    lab_world_expect(w->said, "event: node-02 resumes\n");
    const struct lab_happening *h = w->cluster.happenings;
    assert_true(h[0].round >= 10 && h[1].round >= 20 && h[2].round >= 30 && h[2].round < 90);
    assert_true(h[0].time < h[1].time && h[1].time < h[2].time && h[1].end_time > h[2].time);
    // It returns at round 3, when the others are at 30: the round of the cluster does not go back.
    assert_true(w->cluster.round >= 90);
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]));
    lab_world_expect_no_children();
}

// The last of the other nodes has ended: no node waits for a round that never comes.
static void an_event_at_a_round_that_never_comes_does_not_happen(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 100ms, kill: [0, 2]}, {at: {round: 400}, kill: 1}]");
    play(w, COUNTS "while [ $n -lt 20 ]; do one; done\nif [ $name != node-01 ]; then sleep 100; fi\n");
    run(w);
    assert_string_equal(w->cluster.happenings[2].instead, "the run ended first");
    lab_world_expect_no_children();
}

// The others have ended before the round at which the stop ends.
static void a_stop_ends_when_no_other_node_runs(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: {round: 10}, stop: 2, for: {rounds: 400}}]");
    play(w, COUNTS "[ $name != node-02 ] || echo $$ > \"$dir/../pid\"\n"
                   "stands() { grep -q '^State:.*T' /proc/$(cat \"$dir/../pid\")/status; }\n"
                   "while [ $n -lt 20 ]; do one; done\n"
                   "if [ $name = node-00 ]; then until stands; do one; done; touch \"$dir/../stood\"; fi\n"
                   "while ! [ -e \"$dir/../stood\" ]; do one; done\n");
    run(w);
    lab_world_expect(w->said, "event: node-02 resumes\n");
    assert_true(w->cluster.happenings[0].ended && lab_node_ended_well(&w->cluster.nodes[2]));
    lab_world_expect_no_children();
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
    lab_world_expect_no_children();
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
    lab_world_expect(w->said, "event: node-01 resumes\n");
    assert_true(w->cluster.happenings[0].end_time >=
                w->cluster.train_time + 1); // on a busy machine it begins late
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]));
    lab_world_expect_no_children();
}

static void a_stop_of_the_run_wakes_stopped_nodes(void **state)
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
    assert_string_equal(w->cluster.happenings[3].instead, "the run was stopped first");
    lab_world_expect_no_children();
}

static void a_partition_begins_and_ends(void **state)
{
    struct world *w = *state;
    char all[2 * GOSSIP_ID_HEX + 4];
    // In a shorter time, a shell that gets no processor would notice both signals at once.
    with_events(w, "[{at: 10ms, partition: [[0], [1]], for: 1s}]");
    play(w, TRAINS "trap 'cat \"$dir/fault\" >> \"$dir/told\"; echo . >> \"$dir/told\"' HUP\n"
                   "healed() { [ \"$(grep -c '^[.]' \"$run/$1/told\" 2>&1)\" = 2 ]; }\n"
                   "rounds_until healed node-00; rounds_until healed node-01");
    run(w);
    lab_world_expect(w->said, "event at 0.01 s: the network is partitioned\n");
    lab_world_expect(w->said, "event: the partition has ended\n");
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
    char *path = lab_path("%s/told", w->cluster.nodes[2].directory); // a node that is in no group
    assert_int_equal(access(path, F_OK), -1);
    free(path);
    lab_world_expect_no_children();
}

static void all_nodes_may_be_down_for_a_while(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 10ms, kill: [0, 1, 2]}, {at: 300ms, start: [0, 1, 2]}]");
    play(w, TRAINS "round\n[ \"$3\" = --resume ] || rounds_until false");
    run(w);
    for (size_t i = 0; i < 3; i++)
        assert_true(lab_node_ended_well(&w->cluster.nodes[i]) && w->cluster.nodes[i].starts == 2);
    lab_world_expect_no_children();
}

static void a_late_node_does_not_run_before_its_event(void **state)
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
    assert_string_equal(w->cluster.happenings[1].instead, "the run ended first");
    lab_world_expect_no_children();
}

static void a_node_that_ended_by_itself_is_not_killed(void **state)
{
    struct world *w = *state;
    with_events(w, "[{at: 0s, kill: 1}, {at: 50ms, start: 1}, {at: 100ms, kill: 0}]");
    // Node 0 makes its round only when node 1 has ended, so that the training is noticed after that.
    play(w, TRAINS
         "echo $$ > \"$dir/pid\"\n"
         "gone() { [ -s \"$run/$1/pid\" ] && ! kill -0 \"$(cat \"$run/$1/pid\")\" 2>&-; }\n"
         "case $name in node-00) until gone node-01; do sleep 0.01; done; round; rounds_until false;;\n"
         "node-01) round; exit 0;; esac");
    run(w);
    lab_world_expect(w->said, "event at 0 s: kill of node-01 did not happen: the node had already ended\n");
    lab_world_expect(w->said, "start of node-01 did not happen: the node had ended by itself\n");
    lab_world_expect(w->said, "node-00 killed\n");
    assert_true(lab_node_ended_well(&w->cluster.nodes[1]) && w->cluster.nodes[1].starts == 1);
    lab_world_expect_no_children();
}

// What the nodes write into their events.jsonl is reported in one line once all have seen it.
static void the_progress_reports_how_many_nodes_saw_an_event(void **state)
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
    assert_null(strstr(w->said, "no event explains"));
    lab_world_expect_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(a_node_is_killed_and_started_again),
        WITH_WORLD(events_happen_at_rounds_of_the_cluster),
        WITH_WORLD(an_event_at_a_round_that_never_comes_does_not_happen),
        WITH_WORLD(a_stop_ends_when_no_other_node_runs),
        WITH_WORLD(a_killed_node_is_no_failure),
        WITH_WORLD(a_node_is_stopped_for_a_while),
        WITH_WORLD(a_stop_of_the_run_wakes_stopped_nodes),
        WITH_WORLD(a_partition_begins_and_ends),
        WITH_WORLD(all_nodes_may_be_down_for_a_while),
        WITH_WORLD(a_late_node_does_not_run_before_its_event),
        WITH_WORLD(a_node_that_ended_by_itself_is_not_killed),
        WITH_WORLD(the_progress_reports_how_many_nodes_saw_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
