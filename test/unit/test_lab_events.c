// The events of an experiment: what a file may say, the resulting order and times, and the messages for what
// is refused.
#include "base/log.h"
#include "lab/experiment/experiment.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000u

static char path[64]; // of the file under test

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/p2pml-events-XXXXXX.yaml");
    int file = mkstemps(path, 5);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static enum base_error load(const char *text, const char *setting, struct lab_experiment *experiment,
                            struct base_reason *why)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const struct lab_experiment_source source = {
        .path = path, .settings = &setting, .n_settings = setting ? 1 : 0};
    *why = (struct base_reason){""};
    return lab_experiment_load(&source, experiment, why);
}

static void good(const char *text, struct lab_experiment *experiment)
{
    struct base_reason why;
    if (load(text, NULL, experiment, &why))
        fail_msg("%s\nrefused: %s", text, why.text);
}

static void all_kinds_are_sorted_by_time(void **state)
{
    (void)state;
    struct lab_experiment e;
    good("events:\n"
         "  - {at: 25s, partition: [[0, 1, 2], [3, 4, 5]], for: 5s}\n"
         "  - {at: 10s, kill: 3}\n"
         "  - {at: 12s, stop: 5, for: 6s}\n"
         "  - {at: 20s, start: 3}\n"
         "  - {at: 500ms, leave: [1, 4]}\n",
         &e);
    const struct lab_event *items = e.schedule.items;
    assert_int_equal(e.schedule.count, 6);
    assert_true(items[0].kind == LAB_LEAVE && items[0].node == 1 && items[0].at_ns == SECOND / 2);
    assert_true(items[1].kind == LAB_LEAVE && items[1].node == 4 && items[1].at_ns == SECOND / 2);
    assert_true(items[2].kind == LAB_KILL && items[2].node == 3 && items[2].at_ns == 10ull * SECOND);
    assert_true(items[3].kind == LAB_STOP && items[3].node == 5 && items[3].for_ns == 6ull * SECOND);
    assert_true(items[4].kind == LAB_START && items[4].node == 3 && items[4].for_ns == 0);
    assert_true(items[5].kind == LAB_PARTITION && items[5].for_ns == 5ull * SECOND);
    const uint16_t groups[] = {1, 1, 1, 2, 2, 2, 0, 0};
    assert_memory_equal(items[5].group, groups, sizeof groups);
    assert_true(lab_set_is_empty(&e.schedule.late));
    lab_experiment_free(&e);
}

static void without_events_nothing_happens(void **state)
{
    (void)state;
    struct lab_experiment e;
    good("", &e);
    assert_true(e.schedule.count == 0 && lab_set_is_empty(&e.schedule.late));
    lab_experiment_free(&e);
    good("events: []\n", &e);
    assert_true(e.schedule.count == 0);
    lab_experiment_free(&e);
}

static void events_may_name_any_node(void **state)
{
    (void)state;
    struct lab_experiment e;
    good("experiment: {nodes: 300}\n"
         "events:\n"
         "  - {at: 1s, kill: [299, 64, 0]}\n"
         "  - {at: 2s, start: 128}\n"
         "  - {at: 3s, partition: [[1], [270], [65]], for: 1s}\n",
         &e);
    const struct lab_event *items = e.schedule.items;
    assert_int_equal(e.schedule.count, 5);
    assert_int_equal(items[0].node, 299);
    assert_true(lab_set_has(&e.schedule.late, 128) && !lab_set_has(&e.schedule.late, 64));
    assert_true(lab_event_cuts(&items[4], 1, 270) && lab_event_cuts(&items[4], 270, 65));
    assert_true(!lab_event_cuts(&items[4], 1, 1) && !lab_event_cuts(&items[4], 1, 2));
    lab_experiment_free(&e);
}

static void a_set_of_nodes_adds_removes_and_intersects(void **state)
{
    (void)state;
    struct lab_set a = {0}, b = {0};
    assert_true(lab_set_is_empty(&a) && !lab_set_meets(&a, &b));
    lab_set_add(&a, LAB_NODES_MAX - 1);
    lab_set_add(&a, 64);
    lab_set_add(&b, 0);
    assert_true(lab_set_has(&a, 64) && !lab_set_has(&a, 0) && !lab_set_meets(&a, &b));
    lab_set_add(&b, LAB_NODES_MAX - 1);
    assert_true(lab_set_meets(&a, &b));
    lab_set_remove(&a, LAB_NODES_MAX - 1);
    assert_true(!lab_set_meets(&a, &b) && !lab_set_is_empty(&a));
    lab_set_remove(&a, 64);
    assert_true(lab_set_is_empty(&a));
}

static void a_node_whose_first_event_is_a_start_comes_late(void **state)
{
    (void)state;
    struct lab_experiment e;
    good("events: [{at: 5s, start: [6, 7]}, {at: 9s, kill: 6}, {at: 9s, start: 6}, {at: 1s, kill: 2},"
         " {at: 2s, start: 2}]\n",
         &e);
    assert_true(e.schedule.late.words[0] == (1u << 6 | 1u << 7)); // node 2 was there before
    lab_experiment_free(&e);
}

static void events_on_the_command_line_replace_those_of_the_file(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct base_reason why;
    const char *text = "events: [{at: 1s, kill: 2}, {at: 2s, kill: 3}]\n";
    assert_int_equal(load(text, "events=[{at: 3s, kill: 7}]", &e, &why), BASE_OK);
    assert_true(e.schedule.count == 1 && e.schedule.items[0].node == 7);
    lab_experiment_free(&e);
    assert_int_equal(load(text, "events=[]", &e, &why), BASE_OK);
    assert_int_equal(e.schedule.count, 0);
    lab_experiment_free(&e);
    assert_int_equal(load("", "events=[{at: 3s, kill: 8}]", &e, &why), BASE_EINVAL);
    assert_string_equal(why.text, "--set: events: kill: found \"8\", expected a node from 0 to 7");
}

static void a_written_experiment_reads_back_the_same(void **state)
{
    (void)state;
    struct lab_experiment e, again;
    good("events: [{at: 1s, partition: [[0, 1], [2]], for: 2s}, {at: 2s, kill: [3, 4]}]\n", &e);
    char *text = lab_experiment_write(&e);
    assert_non_null(text);
    good(text, &again);
    assert_int_equal(again.schedule.count, 3);
    for (size_t i = 0; i < 3; i++) {
        struct lab_event a = e.schedule.items[i], b = again.schedule.items[i];
        assert_true(a.kind == b.kind && a.at_ns == b.at_ns && a.for_ns == b.for_ns && a.node == b.node);
        assert_memory_equal(a.group, b.group, sizeof a.group);
    }
    free(text);
    lab_experiment_free(&e);
    lab_experiment_free(&again);
}

static void one_event_may_begin_where_another_ends(void **state)
{
    (void)state;
    struct lab_experiment e;
    good("events: [{at: 1s, stop: 2, for: 3s}, {at: 4s, kill: 2}, {at: 4s, start: 2},"
         " {at: 1s, partition: [[0], [1]], for: 1s}, {at: 2s, partition: [[0], [1]], for: 1s}]\n",
         &e);
    assert_true(e.schedule.count == 5 && e.schedule.items[3].kind == LAB_KILL &&
                e.schedule.items[4].kind == LAB_START);
    lab_experiment_free(&e);
}

static void events_may_happen_at_rounds(void **state)
{
    (void)state;
    struct lab_experiment e, again;
    good("train: {steps: 2000}\naverage: {local_steps: 2}\n"
         "events:\n"
         "  - {at: {round: 500}, start: 5}\n"
         "  - {at: {round: 999}, stop: 1, for: {rounds: 20}}\n"
         "  - {at: 90s, kill: 0}\n"
         "  - {at: {round: 200}, kill: [5, 6]}\n",
         &e);
    const struct lab_event *items = e.schedule.items;
    char text[LAB_EVENT_WHEN_BYTES];
    assert_int_equal(e.schedule.count, 5);
    assert_true(items[0].kind == LAB_KILL && !items[0].by_round); // times come first
    assert_true(items[1].kind == LAB_KILL && items[1].node == 5 && items[1].by_round);
    assert_true(items[1].at_round == 200 && items[2].at_round == 200 && items[2].node == 6);
    assert_true(items[3].kind == LAB_START && items[3].at_round == 500);
    // Round 1000 is the last one.
    assert_true(items[4].at_round == 999 && items[4].for_rounds == 1 && items[4].for_ns == 0);
    assert_true(lab_set_is_empty(&e.schedule.late));
    assert_string_equal(lab_event_when(&items[0], text), "90 s");
    assert_string_equal(lab_event_when(&items[4], text), "round 999");
    char *written = lab_experiment_write(&e);
    assert_non_null(written);
    good(written, &again);
    assert_int_equal(again.schedule.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(items[i].at_round == again.schedule.items[i].at_round &&
                    items[i].for_rounds == again.schedule.items[i].for_rounds);
    free(written);
    lab_experiment_free(&e);
    lab_experiment_free(&again);
}

static void churn_is_drawn_from_the_seed(void **state)
{
    (void)state;
    const char *text = "experiment: {nodes: 16}\ntrain: {steps: 2500}\n"
                       "events: [{at: 1s, kill: 7}]\nchurn: {every: 100}\n";
    struct lab_experiment e, other;
    struct base_reason why;
    bool differs = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        char setting[40];
        uint64_t away[16] = {0}, rounds = 625; // away: until that round
        snprintf(setting, sizeof setting, "experiment.seed=%" PRIu64, seed);
        assert_int_equal(load(text, setting, &e, &why), BASE_OK);
        assert_int_equal(load(text, setting, &other, &why), BASE_OK);
        assert_int_equal(e.schedule.count, other.schedule.count);
        size_t kills = 0;
        for (size_t i = 1; i < e.schedule.count; i++) { // the first event is that of the file
            const struct lab_event *event = &e.schedule.items[i], *same = &other.schedule.items[i];
            assert_true(event->node == same->node && event->at_round == same->at_round);
            assert_true(event->by_round && event->at_round < rounds && event->node != 7);
            assert_true(event->at_round >= event[-1].at_round);
            if (event->kind == LAB_START) {
                assert_int_equal(event->at_round, away[event->node]);
                continue;
            }
            assert_true(event->kind == LAB_KILL && event->at_round % 100 == 0);
            assert_true(away[event->node] < event->at_round); // the node runs
            kills++;
            for (size_t k = i + 1; k < e.schedule.count && away[event->node] < event->at_round; k++)
                if (e.schedule.items[k].node == event->node)
                    away[event->node] = e.schedule.items[k].at_round;
            assert_in_range(away[event->node] - event->at_round, 50, 200);
        }
        assert_in_range(kills, 4, 6); // at 600 it may return in time, or not be killed
        differs = differs || e.schedule.items[1].node != 3;
        lab_experiment_free(&e);
        lab_experiment_free(&other);
    }
    assert_true(differs);
    assert_int_equal(load(text, "churn.how=leave", &e, &why), BASE_OK);
    assert_int_equal(e.schedule.items[1].kind, LAB_LEAVE);
    lab_experiment_free(&e);
    assert_int_equal(load(text, "churn.back_max=49", &e, &why), BASE_EINVAL);
    assert_string_equal(why.text, "--set: churn.back_max: found 49, expected at least churn.back_min, 50");
}

static void churn_leaves_at_least_two_nodes(void **state)
{
    (void)state;
    struct lab_experiment e;
    size_t running = 3, fewest = 3;
    good("experiment: {nodes: 3}\ntrain: {steps: 4000}\n"
         "churn: {every: 10, back_min: 300, back_max: 300}\n",
         &e);
    for (size_t i = 0; i < e.schedule.count; i++) {
        running = e.schedule.items[i].kind == LAB_START ? running + 1 : running - 1;
        fewest = running < fewest ? running : fewest;
    }
    assert_true(running == 3 && fewest == 2);
    lab_experiment_free(&e);
}

static void events_are_due_at_their_time_or_round(void **state)
{
    (void)state;
    const struct lab_event timed = {.kind = LAB_STOP, .at_ns = 5, .for_ns = 2};
    const struct lab_event round = {.kind = LAB_STOP, .by_round = true, .at_round = 5, .for_rounds = 2};
    for (uint64_t i = 0; i < 10; i++) {
        const struct lab_moment time = {i, 0}, rounds = {0, i};
        assert_true(lab_event_due(&timed, &time, false) == (i >= 5));
        assert_true(lab_event_due(&timed, &time, true) == (i >= 7));
        assert_false(lab_event_due(&timed, &rounds, false));
        assert_true(lab_event_due(&round, &rounds, false) == (i >= 5));
        assert_true(lab_event_due(&round, &rounds, true) == (i >= 7));
        assert_false(lab_event_due(&round, &time, false));
    }
}

static void the_round_of_the_cluster_is_that_of_the_majority(void **state)
{
    (void)state;
    uint64_t two[] = {9, 4}, three[] = {7, 1, 5}, eight[] = {8, 1, 7, 2, 6, 3, 5, 4};
    assert_int_equal(lab_cluster_round(NULL, 0), 0);
    assert_int_equal(lab_cluster_round(two, 1), 9);
    assert_int_equal(lab_cluster_round(two, 2), 4);
    assert_int_equal(lab_cluster_round(three, 3), 5);
    assert_int_equal(lab_cluster_round(eight, 8), 4); // five of eight have done that many
}

static const struct {
    const char *text, *said;
} mistakes[] = {
    {"  - {at: 1s, kill: 8}\n", ":2: events: kill: found \"8\", expected a node from 0 to 7"},
    {"  - {at: 1s, kill: [1, x]}\n", ":2: events: kill: found \"x\", expected a node from 0 to 7"},
    {"  - {at: 1s, kill: []}\n", ":2: events: kill: found an empty list, expected nodes"},
    {"  - {at: 1s, kill: [2, 2]}\n", ":2: events: kill: found node 2 twice"},
    {"  - {at: 1s, kill: [[1]]}\n", ":2: events: kill: found a list, expected a node"},
    {"  - {kill: 3}\n", ":2: events: kill: found no time, expected one such as at: 10s"},
    {"  - {at: soon, kill: 3}\n", ":2: events: at: found \"soon\", expected a duration"},
    {"  - at: 1s\n    kil: 3\n", ":3: events: found the unknown word \"kil\", expected at, for, kill"},
    {"  - {at: 1s}\n", ":2: events: found an event without an action"},
    {"  - {at: 1s, kill: 1, stop: 2}\n", ":2: events: found both kill and stop in one event"},
    {"  - {at: 1s, stop: 1}\n", ":2: events: stop: found no end, expected a length"},
    {"  - {at: 1s, stop: 1, for: 0s}\n", ":2: events: for: found 0, expected a time above 0"},
    {"  - {at: 1s, kill: 1, for: 2s}\n", ":2: events: kill: found \"for\", expected it only with stop"},
    {"  - {at: 1s, partition: [[0, 1]], for: 2s}\n", ":2: events: partition: expected at least two"},
    {"  - {at: 1s, partition: [0, 1], for: 2s}\n", ":2: events: partition: found a group that is no"},
    {"  - {at: 1s, partition: [[0], [0]], for: 2s}\n", ":2: events: partition: found node 0 twice"},
    {"  - {at: 1s, partition: [[0], [9]], for: 2s}\n", ":2: events: partition: found \"9\", expected"},
    {"  - {at: 1s, kill: 3}\n  - {at: 2s, kill: 3}\n",
     ":3: events: kill: found node 3 at 2 s, which is killed at 1 s, expected one that runs then"},
    {"  - {at: 2s, stop: 3, for: 1s}\n  - {at: 1s, leave: 3}\n",
     ":2: events: stop: found node 3 at 2 s, which is asked to leave at 1 s, expected one that runs"},
    {"  - {at: 1s, stop: 3, for: 4s}\n  - {at: 3s, kill: 3}\n",
     ":3: events: kill: found node 3 at 3 s, while it is stopped, expected a time from 5 s on"},
    {"  - {at: 1s, start: 3}\n  - {at: 3s, start: 3}\n",
     ":3: events: start: found node 3 at 3 s, which is started at 1 s, expected one that was killed"},
    {"  - {at: 1s, start: [0, 1, 2, 3, 4, 5, 6, 7]}\n",
     ":2: events: found every node started by an event, expected one that is present"},
    {"  - {at: 1s, partition: [[0], [1]], for: 5s}\n  - {at: 2s, partition: [[0], [1]], for: 5s}\n",
     ":3: events: partition: found one at 2 s, while another lasts, expected a time from 6 s on"},
    {"  - {at: {round: 500}, kill: 3}\n", ":2: events: at: round: found \"500\", expected a number from "
                                          "1 to 499: the training has 500 rounds"},
    {"  - {at: {round: 0}, kill: 3}\n", ":2: events: at: round: found \"0\", expected a number from 1"},
    {"  - {at: {rounds: 2}, kill: 3}\n", ":2: events: at: found a map, expected only {round: NUMBER}"},
    {"  - {at: {round: 2, x: 1}, kill: 3}\n", ":2: events: at: found a map, expected only {round:"},
    {"  - {at: {round: 2}, stop: 3, for: 2s}\n",
     ":2: events: for: found a time, but at is in rounds; expected the same unit, such as for: {rounds: 20}"},
    {"  - {at: 2s, stop: 3, for: {rounds: 2}}\n",
     ":2: events: for: found rounds, but at is in time; expected the same unit, such as for: 5s"},
    {"  - {at: {round: 2}, stop: 3, for: {rounds: 0}}\n",
     ":2: events: for: rounds: found \"0\", expected a number from 1 to 500"},
    {"  - {at: {round: 2}, kill: 3}\n  - {at: 9s, start: 3}\n",
     ":2: events: kill: found node 3 at round 2 beside an event at 9 s, expected all events of one node"},
    {"  - {at: {round: 9}, kill: 3}\n  - {at: {round: 20}, leave: 3}\n",
     ":3: events: leave: found node 3 at round 20, which is killed at round 9, expected one that runs"},
    {"  - {at: {round: 9}, stop: 3, for: {rounds: 5}}\n  - {at: {round: 12}, kill: 3}\n",
     ":3: events: kill: found node 3 at round 12, while it is stopped, expected a time from round 14 on"},
    {"  - {at: {round: 9}, leave: [0, 1, 2, 3, 4, 5, 6, 7]}\n  - {at: {round: 20}, start: 3}\n",
     ":3: events: start: found round 20, but no node runs after round 9, so it never happens"},
    {"  - {at: {round: 9}, partition: [[0], [1]], for: {rounds: 9}}\n"
     "  - {at: 2s, partition: [[0], [1]], for: 5s}\n",
     ":2: events: partition: found one at round 9 beside one at 2 s, expected all at times or all at"},
    {"  - {at: {round: 9}, partition: [[0], [1]], for: {rounds: 9}}\n"
     "  - {at: {round: 17}, partition: [[0], [1]], for: {rounds: 9}}\n",
     ":3: events: partition: found one at round 17, while another lasts, expected a time from round 18 "
     "on"},
    {"  - 3\n", ":2: events: found \"3\", expected a list of maps"},
};

static void mistakes_are_named_with_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct lab_experiment e;
        struct base_reason why;
        char text[512];
        snprintf(text, sizeof text, "events:\n%s", mistakes[i].text);
        assert_int_equal(load(text, NULL, &e, &why), BASE_EINVAL);
        if (!strstr(why.text, mistakes[i].said) || strncmp(why.text, path, strlen(path)) != 0)
            fail_msg("expected '%s' in '%s'", mistakes[i].said, why.text);
        assert_null(e.schema.keys);
        assert_null(e.schedule.items);
    }
}

static void the_number_of_events_is_bounded(void **state)
{
    (void)state;
    struct lab_experiment e;
    struct base_reason why;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fputs("events:\n", out);
    for (unsigned i = 0; i <= LAB_EVENTS_MAX; i++)
        fprintf(out, "  - {at: %us, stop: 1, for: 1s}\n", i);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(load(text, NULL, &e, &why), BASE_ELIMIT);
    assert_non_null(strstr(why.text, "events: found more than 1024 events"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_are_sorted_by_time),
        cmocka_unit_test(without_events_nothing_happens),
        cmocka_unit_test(events_may_name_any_node),
        cmocka_unit_test(a_set_of_nodes_adds_removes_and_intersects),
        cmocka_unit_test(a_node_whose_first_event_is_a_start_comes_late),
        cmocka_unit_test(events_on_the_command_line_replace_those_of_the_file),
        cmocka_unit_test(a_written_experiment_reads_back_the_same),
        cmocka_unit_test(one_event_may_begin_where_another_ends),
        cmocka_unit_test(events_may_happen_at_rounds),
        cmocka_unit_test(churn_is_drawn_from_the_seed),
        cmocka_unit_test(churn_leaves_at_least_two_nodes),
        cmocka_unit_test(events_are_due_at_their_time_or_round),
        cmocka_unit_test(the_round_of_the_cluster_is_that_of_the_majority),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(the_number_of_events_is_bounded),
    };
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT, "");
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
