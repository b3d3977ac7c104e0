// The effects of an event, worked out from made-up files of the nodes.
#include "base/file.h"
#include "base/log.h"
#include "lab/record/directory.h"
#include "lab/summary/outcome.h"
#include "lab/summary/summary.h"
#include "test/support/temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START 1000.0 // Unix seconds, when all nodes train
#define ROUND 0.1    // seconds per round

struct world {
    char directory[TEMPORARY_BYTES];
    struct lab_experiment experiment;
    struct lab_cluster cluster;
    struct lab_history histories[LAB_NODES_MAX];
    struct lab_outcome outcome;
};

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

// Four nodes and these events, each at its time.
static void begin(struct world *w, const char *events)
{
    struct base_reason why = {""};
    char *file = lab_path("%s/made-up.yaml", w->directory);
    char *text = lab_path("experiment:\n  nodes: 4\nevents: %s\n", events);
    temporary_write(file, text);
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_cluster_prepare(&w->experiment, w->directory, &w->cluster, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < w->cluster.schedule->count; i++) {
        const struct lab_event *event = &w->cluster.schedule->items[i];
        double time = START + (double)event->at_ns / 1e9;
        w->cluster.happenings[i] = (struct lab_happening){
            .begun = true, .ended = true, .present = {{15}}, .time = time, .end_time = NAN};
        if (event->for_ns)
            w->cluster.happenings[i].end_time = time + (double)event->for_ns / 1e9;
    }
    for (size_t i = 0; i < 4; i++) {
        w->cluster.nodes[i].starts = 1;
        w->cluster.nodes[i].end_time = NAN;
    }
    free(file);
    free(text);
}

// A line of a node's events.jsonl, `at` seconds after the beginning, about the node `about`.
static void sees(struct world *w, size_t node, double at, const char *event, size_t about)
{
    FILE *out = fopen(w->cluster.nodes[node].events, "a");
    assert_non_null(out);
    fprintf(out,
            "{\"time\": %.6f, \"event\": \"%s\", \"member\": \"x\", \"id\": \"%s\", \"evidence\": true}\n",
            START + at, event, w->cluster.ids.hex[about]);
    assert_int_equal(fclose(out), 0);
}

static void views(struct world *w, size_t node, double at, const char *neighbours)
{
    FILE *out = fopen(w->cluster.nodes[node].events, "a");
    assert_non_null(out);
    fprintf(out, "{\"time\": %.6f, \"event\": \"view\", \"members\": 3, \"neighbours\": [%s]}\n", START + at,
            neighbours);
    assert_int_equal(fclose(out), 0);
}

static void trains(struct world *w, size_t node, int round, double at, double accuracy)
{
    char *path = lab_path("%s/metrics.jsonl", w->cluster.nodes[node].directory), measured[32] = "null";
    FILE *out = fopen(path, "a");
    assert_non_null(out);
    if (!isnan(accuracy))
        snprintf(measured, sizeof measured, "%.17g", accuracy);
    fprintf(
        out,
        "{\"time\":%.6f,\"round\":%d,\"step\":12,\"loss\":0.5,\"accuracy\":%s,\"test_loss\":1,"
        "\"bytes_sent\":5,\"bytes_received\":1,\"own_steps\":12,\"own_examples\":1,\"exchanges\":2,\"consensus\":null,\"delta_bytes\":3,"
        "\"dense_bytes\":4,\"state\":\"training\"}\n",
        START + at, round, measured);
    assert_int_equal(fclose(out), 0);
    free(path);
}

static const struct lab_outcome *outcome_of(struct world *w, size_t event)
{
    for (size_t i = 0; i < w->cluster.count; i++)
        lab_journal_read(&w->cluster.nodes[i].journal);
    lab_histories_free(w->histories);
    lab_histories_read(&w->cluster, w->histories);
    lab_outcome_of(&w->cluster, event, w->histories, &w->outcome);
    return &w->outcome;
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    temporary_make(w->directory, "outcome");
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_histories_free(w->histories);
    lab_cluster_free(&w->cluster);
    lab_experiment_free(&w->experiment);
    free(w);
    return 0;
}

static void a_kill_is_seen_by_all(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, kill: 3}]");
    sees(w, 0, 1, "dead", 3); // before the kill: not about it
    for (size_t i = 0; i < 3; i++) {
        views(w, i, 1, "\"node-03\", \"node-01\"");
        sees(w, i, 5.2, "suspect", 3);
        sees(w, i, 5.5 + 0.1 * (double)i, "dead", 3);
        views(w, i, 5.55 + 0.1 * (double)i, i == 2 ? "\"node-03\"" : "\"node-01\"");
    }
    views(w, 2, 6, "\"node-00\", \"strange\"");
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_int_equal(o->count, 3);
    assert_true(o->detected.seen == 3 && o->detected.of == 3);
    assert_true(near(o->detected.median, 0.6) && near(o->detected.last, 0.7));
    assert_true(o->rewired.seen == 3 && near(o->rewired.median, 0.65) && near(o->rewired.last, 1));
    assert_true(o->recovered.of == 0 && isnan(o->first_round) && isnan(o->stalled_rounds) &&
                isnan(o->accuracy_before));
}

static void nodes_that_did_not_see_an_event_are_counted(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, kill: 3}, {at: 5s, kill: 2}, {at: 60s, leave: 1}]");
    sees(w, 0, 5.5, "dead", 3);
    const struct lab_outcome *o = outcome_of(w, 0);
    // Node 2 was killed, too: it cannot see the event. Node 1 left much later and should have seen it.
    assert_true(o->detected.seen == 1 && o->detected.of == 2 && near(o->detected.last, 0.5));
    assert_true(o->count == 2 && isnan(o->witnesses[1].detected) && isnan(o->witnesses[1].rewired));
    o = outcome_of(w, 2);
    assert_true(o->detected.seen == 0 && isnan(o->detected.last) && isnan(o->detected.median));
}

static void an_event_that_did_not_happen_has_no_effects(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, kill: 3}]");
    w->cluster.happenings[0].time = NAN;
    sees(w, 0, 5.5, "dead", 3);
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_true(o->count == 0 && o->detected.of == 0);
}

static void a_started_node_is_found_and_makes_rounds(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, kill: 3}, {at: 8s, start: 3}]");
    w->cluster.happenings[1].present.words[0] = 7;
    trains(w, 3, 1, 4.9, NAN);
    trains(w, 3, 2, 9.5, NAN);
    for (size_t i = 0; i < 3; i++) {
        sees(w, i, 5.5, "dead", 3);
        sees(w, i, 8.25, i ? "join" : "alive", 3);
        views(w, i, 8.75, i == 1 ? "\"node-00\"" : "\"node-03\"");
    }
    views(w, 1, 20, "\"node-03\""); // for another reason
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_true(o->detected.seen == 3 && near(o->detected.last, 0.5));
    assert_true(o->rewired.seen == 0); // the view came when the node was there again
    o = outcome_of(w, 1);
    assert_true(o->detected.seen == 3 && near(o->detected.last, 0.25) && near(o->first_round, 1.5));
    assert_true(o->rewired.seen == 2 && o->rewired.of == 2 && near(o->rewired.last, 0.75));
}

static void a_stopped_node_is_suspected_and_cleared(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, stop: 3, for: 2s}]");
    sees(w, 0, 6, "suspect", 3);
    sees(w, 1, 6.5, "suspect", 3);
    sees(w, 1, 6.75, "dead", 3);
    views(w, 1, 6.8, "");
    sees(w, 0, 7.25, "alive", 3);
    sees(w, 1, 7.5, "alive", 3);
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_true(o->detected.seen == 2 && o->detected.of == 3 && near(o->detected.last, 1.5));
    assert_true(o->declared_dead == 1 && near(o->witnesses[1].dead, 1.75));
    assert_true(o->rewired.seen == 1 && o->rewired.of == 1 && near(o->rewired.last, 1.8));
    assert_true(o->recovered.seen == 2 && o->recovered.of == 2 && near(o->recovered.last, 0.5));
}

static void a_partition_is_seen_when_the_whole_other_side_is_dead(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, partition: [[0, 1], [2]], for: 20s}]");
    sees(w, 0, 12, "dead", 2);
    sees(w, 1, 12.5, "dead", 2);
    sees(w, 2, 11, "dead", 0);
    views(w, 0, 12, "\"node-01\"");
    sees(w, 0, 25.5, "alive", 2);
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_int_equal(o->count, 3); // node 3 is in no group
    assert_true(o->detected.seen == 2 && o->detected.of == 3 && near(o->detected.last, 7.5));
    assert_true(o->recovered.seen == 1 && o->recovered.of == 2 && near(o->recovered.last, 0.5));
    sees(w, 2, 13, "dead", 1);
    o = outcome_of(w, 0);
    assert_true(o->detected.seen == 3 && near(o->detected.last, 8) && o->declared_dead == 3);
}

static void stalls_and_accuracies_of_the_survivors(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 4950ms, kill: 3}, {at: 30s, stop: 1, for: 4s}]");
    for (size_t i = 0; i < 3; i++)
        for (int round = 0; round < 400; round++) {
            double at = ROUND * round;
            if (i == 0 && at > 5.05 && at < 5.35) // three rounds are missing
                continue;
            if (i == 1 && at > 30 && at < 34) // its own stop does not count as a stall
                continue;
            if (i == 2 && at > 25 && at < 28) // far from the kill
                continue;
            double accuracy = round < 50 ? 0.8 : at < 7 ? 0.6 + 0.1 * (double)i : 0.9;
            if (i == 0 && round >= 380)
                continue;
            trains(w, i, round, at, round % 10 ? NAN : accuracy);
        }
    trains(w, 0, 379, 53, 0.9); // it had lingered: no round
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_true(near(o->stalled_seconds, 0.4) && near(o->stalled_rounds, 3) && o->stalled_node == 0);
    assert_true(o->witnesses[1].stalled_rounds < 0.001);
    assert_true(near(o->accuracy_before, 0.8));
    assert_true(near(o->accuracy_lowest, 0.7) && near(o->accuracy_end, 0.9));
    o = outcome_of(w, 1);
    assert_true(o->stalled_rounds < 0.001); // no node waited
}

static void deaths_without_a_cause_are_counted(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 100s, stop: 3, for: 1s}]");
    sees(w, 0, 50, "dead", 2);
    sees(w, 1, 50, "dead", 2);
    sees(w, 0, 99, "dead", 3);  // before it was stopped
    sees(w, 0, 102, "dead", 3); // explained by the stop
    outcome_of(w, 0);
    assert_int_equal(lab_false_deaths(&w->cluster), 3);
    w->cluster.nodes[2].end_time = START + 50; // it had ended
    assert_int_equal(lab_false_deaths(&w->cluster), 1);
    w->cluster.nodes[3].gone = LAB_KILLED;
    assert_int_equal(lab_false_deaths(&w->cluster), 0);
}

static void lines_that_are_no_events_are_ignored(void **state)
{
    struct world *w = *state;
    begin(w, "[{at: 5s, kill: 3}]");
    const struct lab_journal *journal = &w->cluster.nodes[0].journal;
    temporary_write(w->cluster.nodes[0].events,
                    "garbage\n{}\n[]\n{\"time\":\"1\",\"event\":\"dead\",\"member\":\"node-01\"}\n"
                    "{\"time\":1,\"event\":\"dead\",\"member\":\"node-04\"}\n" // there are four nodes
                    "{\"time\":1,\"event\":\"dead\",\"member\":\"node-0x\"}\n"
                    "{\"time\":1,\"event\":\"dead\",\"member\":\"node-000001\"}\n"
                    "{\"time\":1,\"event\":\"dead\"}\n"
                    "{\"time\":1,\"event\":\"dead\",\"member\":\"node-01\",\"id\":\"00\"}\n" // an unknown id
                    "{\"time\":1,\"event\":\"boot\"}\n" // valid, but not used
                    "{\"time\":1005.5,\"event\":\"dead\",\"member\":\"node-03\"}\n"
                    "{\"time\":1005.5,\"event\":\"view\",\"neighbours\":{\"a\":1}}\n"
                    "{\"time\":1005.5,\"event\":\"view\",\"neighbours\":[7,null,\"node-99\",\"node-02\"]}\n"
                    "{\"time\":1006,\"event\":\"de");
    const struct lab_outcome *o = outcome_of(w, 0);
    assert_true(journal->file.bad == 9 && journal->file.good == 4 && journal->count == 3);
    assert_true(lab_set_is_empty(journal->signs[1].neighbours));
    assert_true(journal->signs[2].neighbours->words[0] == 4);
    assert_true(o->detected.seen == 1 && near(o->detected.last, 0.5));
}

static void events_are_described_in_words(void **state)
{
    struct world *w = *state;
    char *text = NULL;
    size_t bytes = 0;
    begin(w, "[{at: 5s, kill: 3}, {at: 7s, stop: 2, for: 1s}, {at: 8s, start: 3}]");
    w->cluster.happenings[1].present.words[0] = 7;
    w->cluster.happenings[2].time = NAN;
    w->cluster.happenings[2].instead = "the run ended first";
    for (size_t i = 0; i < 3; i++) {
        sees(w, i, 5.5, "dead", 3);
        views(w, i, 5.5, "");
        for (int round = 0; round < 100; round++)
            trains(w, i, round, ROUND * round, 0.75);
    }
    outcome_of(w, 0);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    lab_events_print(&w->cluster, w->histories, "accuracy", out);
    fclose(out);
    static const char *const parts[] = {
        "  5.0 s  node-03 was killed\n",
        "known as dead by 3 of 3, the last after 0.50 s, half of them after 0.50 s\n",
        "graph closed around it by 3 of 3, the last after 0.50 s",
        "75.00% before, 75.00% at the lowest after it, 75.00% at the end\n",
        "  7.0 s  node-02 was stopped for 1 s\n",
        "suspected by 0 of 2\n",
        "declared dead by 0 of 2\n",
        "  8.0 s  node-03 was started: did not happen: the run ended first\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("expected '%s' in:\n%s", parts[i], text);
    assert_null(strstr(text, "nan"));
    free(text);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, remove_world)

// Rounds 1 to 10 of the cluster; node 1 is away from round 3 to 6 and repeats two, node 2 is stopped for two.
static void goodput_counts_the_rounds_of_nodes_that_should_run(void **state)
{
    struct world *w = *state;
    struct lab_goodput goodput, total;
    size_t least;
    begin(w, "[{at: {round: 3}, kill: 1}, {at: {round: 6}, start: 1}, {at: {round: 4}, stop: 2, for: "
             "{rounds: 2}}]");
    const uint64_t began[] = {3, 4, 6};
    for (size_t i = 0; i < 3; i++) {
        w->cluster.happenings[i].time = START + (double)began[i];
        w->cluster.happenings[i].round = began[i];
    }
    w->cluster.happenings[1].end_time = START + 6;
    w->cluster.happenings[1].end_round = 6;
    for (int round = 1; round <= 10; round++) {
        trains(w, 0, round, round, NAN);
        if (round <= 3 || round >= 9)
            trains(w, 1, round == 9 ? 3 : round, round, NAN); // 1, 2, 3, again 3, 10
        if (round <= 4 || round > 6)
            trains(w, 2, round, round, NAN);
        trains(w, 3, 2 * round, round, NAN); // async, twice as fast
    }
    for (size_t i = 0; i < 4; i++)
        lab_tail_read(&w->cluster.nodes[i].tail);
    (void)outcome_of(w, 0);
    lab_goodput_of(&w->cluster, 0, w->histories, &goodput);
    assert_true(goodput.living == 10 && goodput.counted == 10 && near(goodput.share, 1));
    lab_goodput_of(&w->cluster, 1, w->histories, &goodput);
    assert_true(goodput.living == 3 + 4 && goodput.counted == 4);
    lab_goodput_of(&w->cluster, 2, w->histories, &goodput);
    assert_true(goodput.living == 4 + 4 && goodput.counted == 8);
    lab_goodput_of(&w->cluster, 3, w->histories, &goodput);
    assert_true(goodput.living == 10 && goodput.counted == 10);
    lab_goodput_total(&w->cluster, w->histories, &total, &least);
    assert_true(total.living == 35 && total.counted == 32 && least == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(a_kill_is_seen_by_all),
        WITH_WORLD(goodput_counts_the_rounds_of_nodes_that_should_run),
        WITH_WORLD(nodes_that_did_not_see_an_event_are_counted),
        WITH_WORLD(an_event_that_did_not_happen_has_no_effects),
        WITH_WORLD(a_started_node_is_found_and_makes_rounds),
        WITH_WORLD(a_stopped_node_is_suspected_and_cleared),
        WITH_WORLD(a_partition_is_seen_when_the_whole_other_side_is_dead),
        WITH_WORLD(stalls_and_accuracies_of_the_survivors),
        WITH_WORLD(deaths_without_a_cause_are_counted),
        WITH_WORLD(lines_that_are_no_events_are_ignored),
        WITH_WORLD(events_are_described_in_words),
    };
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT, "");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
