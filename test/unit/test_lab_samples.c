// rounds.jsonl of a run, worked out from made-up files of two nodes, and when targets were reached.
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/summary/samples.h"
#include "test/support/temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    char directory[TEMPORARY_BYTES];
    struct lab_experiment experiment;
    struct lab_workbench bench;
    struct lab_cluster cluster;
};

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct base_reason why = {""};
    assert_non_null(w);
    temporary_make(w->directory, "points");
    char *file = lab_path("%s/made-up.yaml", w->directory);
    temporary_write(file, "events: [{at: 2s, kill: 1}, {at: 3s, start: 1}]\n"
                          "experiment: {nodes: 2, targets: [0.5, 0.7, 0.99]}\nmodel: {kind: softmax}\n"
                          "data: {train_count: 40, test_count: 10}\ntrain: {eval_rounds: 2}\n");
    const struct lab_experiment_source source = {.path = file};
    if (lab_experiment_load(&source, &w->experiment, &why) ||
        lab_workbench_load(&w->experiment, &w->bench, &why) || lab_workbench_open(&w->bench, &why) ||
        lab_cluster_pretend(&w->experiment, w->directory, true, &w->cluster, &why))
        fail_msg("%s", why.text);
    free(file);
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    temporary_remove(w->directory);
    lab_cluster_free(&w->cluster);
    lab_workbench_close(&w->bench);
    lab_experiment_free(&w->experiment);
    free(w);
    return 0;
}

// One round per second from `time` on, `count` of them, each with 1,000 bytes; accuracy where it was
// measured.
static void add_rounds(struct world *w, size_t node, double time, uint64_t round, uint64_t count,
                       double accuracy)
{
    FILE *out = fopen(w->cluster.nodes[node].tail.file.path, "a");
    assert_non_null(out);
    for (uint64_t i = 0; i < count; i++) {
        char measured[32] = "null";
        if ((round + i) % 2 == 0)
            snprintf(measured, sizeof measured, "%g", accuracy);
        fprintf(
            out,
            "{\"time\":%g,\"node\":\"x\",\"round\":%d,\"step\":%d,\"loss\":1,\"accuracy\":%s,"
            "\"test_loss\":null,\"bytes_sent\":%d,\"bytes_received\":0,\"own_steps\":8,\"own_examples\":256,\"exchanges\":0,\"consensus\":null,"
            "\"rate\":0.1,\"delta_bytes\":0,\"dense_bytes\":0,\"state\":\"training\"}\n",
            time + (double)i, (int)(round + i), 4 * (int)(round + i), measured, 1000 * (int)(i + 1));
    }
    assert_int_equal(fclose(out), 0);
}

static size_t points_of(struct world *w, struct lab_sample points[16], struct lab_samples_span *span)
{
    const struct lab_average average = {
        .score = {.accuracy = 0.75, .loss = 0.5}, .consensus = 0.125, .nodes = 2};
    const struct lab_samples_source source = {&w->cluster, &w->bench, &average};
    struct base_reason why = {""};
    char *path = lab_path("%s/rounds.jsonl", w->directory);
    size_t count = 0;
    for (size_t i = 0; i < w->cluster.count; i++) {
        lab_tail_read(&w->cluster.nodes[i].tail);
        lab_node_pretend_end(&w->cluster.nodes[i], 0);
        w->cluster.nodes[i].starts = 1;
    }
    if (lab_samples_write(&source, path, span, &why))
        fail_msg("%s", why.text);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (count < 16 && lab_sample_read(file, &points[count]) > 0)
        count++;
    fclose(file);
    free(path);
    return count;
}

static void there_is_a_sample_when_the_mean_node_reaches_its_round(void **state)
{
    struct world *w = *state;
    struct lab_sample p[16];
    struct lab_samples_span span;
    add_rounds(w, 0, 100, 1, 4, 0.5);
    add_rounds(w, 1, 100.5, 1, 4, 0.6);
    assert_int_equal(points_of(w, p, &span), 3);
    assert_true(p[0].round == 0 && p[0].nodes == 2 && p[0].accuracy == p[0].worst && p[0].accuracy >= 0);
    assert_true(p[1].round == 2 && p[1].step == 8 && p[1].time == 1.5 && p[1].bytes == 4000);
    assert_true(isnan(p[1].accuracy) && isnan(p[1].consensus)); // there was no average of the models then
    assert_true(p[1].worst == 0.5 && p[1].best == 0.6 && fabs(p[1].mean - 0.55) < 1e-12 &&
                p[1].train_loss == 1);
    assert_true(p[2].round == 4 && p[2].accuracy == 0.75 && p[2].loss == 0.5 && p[2].consensus == 0.125);
    assert_true(p[2].bytes == 8000 && p[2].time == 3.5);
    assert_true(span.seconds == 3.5);
}

static void a_node_without_measurements_leaves_no_gap(void **state)
{
    struct world *w = *state;
    struct lab_sample p[16];
    struct lab_samples_span span;
    add_rounds(w, 0, 100, 1, 4, 0.5);
    add_rounds(w, 1, 100.5, 1, 1, 0.6);
    assert_true(points_of(w, p, &span) >= 2);
    assert_true(p[1].nodes == 2 && p[1].worst == 0.5 && p[1].mean == 0.5 && p[1].best == 0.5);
}

static void a_killed_node_does_not_count_until_it_returns(void **state)
{
    struct world *w = *state;
    struct lab_sample p[16];
    struct lab_samples_span span;
    add_rounds(w, 0, 100, 1, 8, 0.5);
    add_rounds(w, 1, 100.5, 1, 2, 0.6); // killed at 102
    w->cluster.happenings[0].time = 102;
    w->cluster.happenings[1].time = 105;
    add_rounds(w, 1, 105.5, 2, 1, 0.6); // its bytes begin at 0 again
    size_t count = points_of(w, p, &span);
    assert_true(count >= 4);
    assert_true(p[1].round == 2 && p[1].nodes == 2);
    assert_true(p[2].round == 4 && p[2].nodes == 1 && p[2].time == 3 && p[2].worst == 0.5 &&
                p[2].best == 0.5);
    assert_true(p[2].bytes == 6000); // the bytes of dead nodes were sent, too
    assert_true(p[count - 1].nodes == 2);
}

// Rounds of the other node pass before it makes one, and more before it measures its new model.
static void a_node_that_is_back_counts_from_its_first_round_and_with_a_new_measurement(void **state)
{
    struct world *w = *state;
    struct lab_sample p[16];
    struct lab_samples_span span;
    add_rounds(w, 0, 100, 1, 14, 0.8);
    add_rounds(w, 1, 100.5, 1, 2, 0.6); // killed at 102
    w->cluster.happenings[0].time = 102;
    w->cluster.happenings[1].time = 104;
    add_rounds(w, 1, 108.5, 9, 1, 0.9);
    add_rounds(w, 1, 111.5, 12, 1, 0.9);
    size_t count = points_of(w, p, &span);
    assert_true(count >= 7);
    assert_true(p[1].round == 2 && p[1].nodes == 2 && p[1].worst == 0.6);
    for (size_t i = 2; i + 1 < count; i++) {
        assert_int_equal(p[i].nodes, p[i].time < 8.5 ? 1 : 2);
        assert_true(p[i].worst == 0.8 && p[i].best == (p[i].time < 11.5 ? 0.8 : 0.9));
    }
}

static void bytes_of_a_killed_process_still_count(void **state)
{
    struct world *w = *state;
    struct lab_sample p[16];
    struct lab_samples_span span;
    add_rounds(w, 0, 100, 1, 8, 0.5);
    add_rounds(w, 1, 100.5, 1, 3, 0.6); // killed at 103
    w->cluster.happenings[0].time = 103;
    w->cluster.happenings[1].time = 104;
    add_rounds(w, 1, 104.2, 4, 4, 0.6); // its bytes begin at 0 again
    size_t count = points_of(w, p, &span);
    uint64_t last = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        assert_true(p[i].bytes >= last);
        last = p[i].bytes;
    }
    assert_int_equal(p[count - 2].round, 6);
    assert_int_equal(p[count - 2].bytes, 12000);
}

static void without_any_round_there_is_no_sample(void **state)
{
    struct lab_sample p[16];
    struct lab_samples_span span;
    assert_int_equal(points_of(*state, p, &span), 1);
    assert_true(isnan(span.seconds));
}

static void a_target_is_reached_at_the_first_sample_there(void **state)
{
    struct world *w = *state;
    struct lab_reached reached[LAB_TARGETS_MAX];
    struct lab_recorder recorder;
    struct base_reason why;
    char *path = lab_path("%s/points", w->directory);
    const double accuracy[] = {0.4, NAN, 0.6, 0.55, 0.8}, worst[] = {0.1, 0.5, 0.4, 0.6, 0.65};
    assert_int_equal(lab_recorder_open(path, &recorder, &why), BASE_OK);
    for (size_t i = 0; i < 5; i++) {
        const struct lab_sample point = {
            .round = 10 * i, .bytes = 100 * i, .accuracy = accuracy[i], .worst = worst[i]};
        assert_int_equal(lab_recorder_add(&recorder, &point, &why), BASE_OK);
    }
    assert_int_equal(lab_recorder_close(&recorder, &why), BASE_OK);
    lab_targets_find(path, &w->experiment.targets, reached);
    assert_true(reached[0].averaged.round == 20 && reached[0].worst.round == 10 &&
                reached[0].worst.bytes == 100);
    assert_true(reached[1].averaged.round == 40 && isnan(reached[1].worst.accuracy));
    assert_true(isnan(reached[2].averaged.accuracy) && isnan(reached[2].worst.accuracy));
    lab_targets_find("/nowhere", &w->experiment.targets, reached);
    assert_true(isnan(reached[0].averaged.accuracy));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_is_a_sample_when_the_mean_node_reaches_its_round, make_world,
                                        remove_world),
        cmocka_unit_test_setup_teardown(a_node_without_measurements_leaves_no_gap, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_killed_node_does_not_count_until_it_returns, make_world,
                                        remove_world),
        cmocka_unit_test_setup_teardown(
            a_node_that_is_back_counts_from_its_first_round_and_with_a_new_measurement, make_world,
            remove_world),
        cmocka_unit_test_setup_teardown(bytes_of_a_killed_process_still_count, make_world, remove_world),
        cmocka_unit_test_setup_teardown(without_any_round_there_is_no_sample, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_target_is_reached_at_the_first_sample_there, make_world,
                                        remove_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
