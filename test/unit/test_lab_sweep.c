// Which runs a sweep has: points, seeds and names; invalid sweeps are refused with their line before anything
// starts; complete runs are kept.
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/sweep/sweep.h"
#include "lab/sweep/sweep_keep.h"
#include "lab/sweep/sweep_progress.h"
#include "test/support/temporary.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[TEMPORARY_BYTES], path[96];

static int make_directory(void **state)
{
    (void)state;
    temporary_make(directory, "sweep");
    snprintf(path, sizeof path, "%s/file.yaml", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    temporary_remove(directory);
    return 0;
}

static enum base_error plan_with(const char *text, const char *const *settings, size_t n_settings,
                                 bool simulated, struct lab_sweep_plan *plan, struct base_reason *why)
{
    struct lab_experiment base;
    const struct lab_experiment_source source = {
        .path = path, .settings = settings, .n_settings = n_settings, .out = directory};
    temporary_write(path, text);
    *why = (struct base_reason){""};
    if (lab_experiment_load(&source, &base, why))
        fail_msg("%s", why->text);
    enum base_error error = lab_sweep_plan_make(&source, &base, simulated, plan, why);
    lab_experiment_free(&base);
    return error;
}

static void plan(const char *text, struct lab_sweep_plan *made)
{
    struct base_reason why;
    if (plan_with(text, NULL, 0, true, made, &why))
        fail_msg("%s", why.text);
}

static void expect_labels(const struct lab_sweep_plan *made, const char *const *labels, size_t count)
{
    assert_int_equal(made->n_runs, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(made->runs[i].label, labels[i]);
}

static void lists_in_one_entry_vary_together(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    static const char *const labels[] = {"topology.kind=ring,average.ratio=1_32,seed=0",
                                         "topology.kind=butterfly,average.ratio=1_100,seed=0"};
    plan("sweep:\n  - {topology.kind: [ring, butterfly], average.ratio: [1/32, 1/100]}\n", &made);
    expect_labels(&made, labels, 2);
    assert_int_equal(made.n_points, 2);
    assert_string_equal(made.points[1].text, "topology.kind=butterfly,average.ratio=1/100");
    assert_string_equal(lab_sweep_value(&made, 1, 1), "1/100");
    lab_sweep_plan_free(&made);
}

static void entries_multiply_and_every_point_has_its_seeds(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    static const char *const labels[] = {
        "topology.kind=ring,train.steps=8,seed=5",      "topology.kind=ring,train.steps=16,seed=5",
        "topology.kind=butterfly,train.steps=8,seed=5", "topology.kind=butterfly,train.steps=16,seed=5",
        "topology.kind=ring,train.steps=8,seed=6",      "topology.kind=ring,train.steps=16,seed=6",
        "topology.kind=butterfly,train.steps=8,seed=6", "topology.kind=butterfly,train.steps=16,seed=6",
    };
    plan("experiment: {seed: 5, repeats: 2}\nsweep:\n  - topology.kind: [ring, butterfly]\n"
         "  - train.steps: [8, 16]\n",
         &made);
    expect_labels(&made, labels, 8);
    assert_int_equal(made.n_points, 4);
    assert_int_equal(made.runs[7].point, 3);
    assert_int_equal(made.runs[7].seed, 6);
    lab_sweep_plan_free(&made);
}

static void repeats_alone_are_a_sweep_of_one_point(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    struct lab_experiment base;
    struct base_reason why = {""};
    static const char *const labels[] = {"seed=0", "seed=1", "seed=2"};
    plan("experiment: {repeats: 3}\n", &made);
    expect_labels(&made, labels, 3);
    lab_sweep_plan_free(&made);
    const struct lab_experiment_source source = {.path = path};
    assert_int_equal(lab_experiment_load(&source, &base, &why), BASE_OK);
    assert_true(lab_sweep_is(&base));
    lab_experiment_free(&base);
    temporary_write(path, "experiment: {nodes: 3}\n");
    assert_int_equal(lab_experiment_load(&source, &base, &why), BASE_OK);
    assert_false(lab_sweep_is(&base));
    lab_experiment_free(&base);
}

static void a_swept_seed_is_where_the_repeats_begin(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    plan("experiment: {repeats: 2}\nsweep: [{experiment.seed: [10, 20]}]\n", &made);
    static const uint64_t seeds[] = {10, 20, 11, 21};
    assert_int_equal(made.n_runs, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(made.runs[i].seed, seeds[i]);
    assert_string_equal(made.runs[3].label, "experiment.seed=20,seed=21");
    lab_sweep_plan_free(&made);
}

// A run is started with its own experiment, which reads back the same.
static void every_run_has_its_own_experiment(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    struct lab_experiment run;
    struct base_reason why = {""};
    plan("experiment: {repeats: 2, nodes: 5}\nevents: [{at: 2s, kill: 3}]\n"
         "sweep:\n  - {model.hidden: [[16], \"[32, 8]\"], sim.stragglers: [\"[]\", \"[{node: 3, factor: "
         "5}]\"]}\n",
         &made);
    assert_string_equal(made.runs[3].label, "model.hidden=32+8,sim.stragglers=node_3+factor_5,seed=1");
    char *own = lab_path("%s/own.yaml", directory);
    temporary_write(own, made.runs[3].text);
    const struct lab_experiment_source source = {.path = own};
    if (lab_experiment_load(&source, &run, &why))
        fail_msg("%s", why.text);
    assert_false(lab_sweep_is(&run));
    assert_string_equal(run.experiment.name, "file");
    assert_string_equal(run.experiment.out, made.runs[3].directory);
    assert_int_equal(run.experiment.seed, 1);
    assert_int_equal(run.experiment.nodes, 5);
    assert_int_equal(run.node.model.hidden.count, 2);
    assert_int_equal(run.sim.stragglers.count, 1);
    assert_int_equal(run.sim.threads, 1);
    assert_int_equal(run.schedule.count, 1);
    char *again = lab_experiment_write(&run);
    assert_string_equal(again, made.runs[3].text);
    free(again);
    free(own);
    lab_experiment_free(&run);
    lab_sweep_plan_free(&made);
}

static void a_configured_number_of_threads_is_kept(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    plan("sim: {threads: 2}\nsweep: [{train.steps: [8, 16]}]\n", &made);
    assert_int_equal(made.runs[0].threads, 2);
    lab_sweep_plan_free(&made);
    plan("sweep: [{sim.threads: [3, 4]}]\n", &made);
    assert_int_equal(made.runs[1].threads, 4);
    lab_sweep_plan_free(&made);
}

static void names_are_unique_and_valid_file_names(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    plan("sweep: [{data.train_file: [a b, ab, a/b, \"a_b\"]}]\n", &made);
    assert_string_equal(made.points[0].text, "data.train_file=a b");
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(made.runs[i].label, made.runs[k].label);
    assert_non_null(strchr(made.points[3].label, '~'));
    lab_sweep_plan_free(&made);
    char value[300], text[700];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = 0;
    snprintf(text, sizeof text, "sweep: [{data.train_file: [%s1, %s2]}]\n", value, value);
    plan(text, &made);
    assert_true(strlen(made.runs[0].label) < 200);
    assert_string_not_equal(made.runs[0].label, made.runs[1].label);
    assert_null(strchr(made.runs[0].label, '/'));
    lab_sweep_plan_free(&made);
}

static void an_invalid_sweep_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"sweep:\n  - {topology.knd: [ring, star]}\n",
         ":2: found the unknown key \"topology.knd\", did you mean topology.kind? (in the sweep: "},
        {"sweep:\n  - topology.kind:\n    - ring\n    - rong\n",
         ":4: topology.kind: found \"rong\", expected one of"},
        {"sweep:\n  - {average.ratio: [1/32, 1/16, 1/8],\n     train.steps: [8, 16]}\n",
         ":3: sweep: train.steps: found 2 values, expected 3, as in average.ratio"},
        {"sweep:\n  - {average.ratio: [1/32, 1/16]}\n  - {average.ratio: [1/8, 1/4]}\n",
         ":3: sweep: average.ratio: swept a second time, the first is at"},
        {"sweep:\n  - {average.ratio: [1/32, 1/16, 1/32]}\n", ":2: sweep: found average.ratio=1/32 twice"},
        {"sweep:\n  - {average.ratio: 1/32}\n", ":2: sweep: average.ratio: found \"1/32\", expected a list"},
        {"sweep:\n  - {average.ratio: []}\n", ":2: sweep: average.ratio: found an empty list"},
        {"sweep:\n  - {}\n", ":2: sweep: found an entry without keys"},
        {"sweep:\n  - {sim.stragglers: [{node: 3}]}\n", ":2: sweep: sim.stragglers: found a map, expected"},
        {"sweep:\n  - {experiment.out: [a, b]}\n", ":2: sweep: experiment.out: cannot be swept: each run"},
        {"sweep:\n  - {experiment.name: [a, b]}\n", ":2: sweep: experiment.name: cannot be swept"},
        {"sweep:\n  - {experiment.repeats: [1, 2]}\n", ":2: sweep: experiment.repeats: cannot be swept"},
        {"sweep:\n  - {events: [\"[]\"]}\n", ":2: sweep: events: cannot be swept"},
        {"sweep:\n  - {sweep: [\"[]\"]}\n", ":2: sweep: sweep: cannot be swept"},
        {"sweep:\n  - {node.listen: [\"127.0.0.1:1\"]}\n", ":2: node.listen: found in an experiment"},
        // A value that is valid by itself, with an error in a place that does not mention the sweep.
        {"experiment: {nodes: 8}\nevents: [{at: 1s, kill: 7}]\nsweep:\n  - {experiment.nodes: [8, 4]}\n",
         ":2: events: kill: found \"7\", expected a node from 0 to 3 (in the sweep: experiment.nodes=4)"},
        {"experiment: {repeats: 1000}\nsweep:\n  - {train.steps: [8, 16, 24, 32, 40, 48, 56, 64, 72, 80, "
         "88]}\n",
         ":1: experiment.repeats: found 1000 repeats of 11 points, expected at most 10000 runs in all"},
        {"experiment:\n  repeats: 2\n  seed: 4294967295\n", ":2: experiment.seed: found \"4294967296\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lab_sweep_plan made;
        struct base_reason why;
        char begin[400];
        assert_int_not_equal(plan_with(cases[i].text, NULL, 0, true, &made, &why), BASE_OK);
        snprintf(begin, sizeof begin, "%s%s", path, cases[i].said);
        if (strncmp(why.text, begin, strlen(begin)) != 0)
            fail_msg("case %zu: %s", i, why.text);
        assert_null(made.runs);
    }
}

static void each_command_has_its_own_limits(void **state)
{
    (void)state;
    static const char text[] = "sweep:\n  - {experiment.nodes: [4, 100]}\n";
    struct lab_sweep_plan made;
    struct base_reason why;
    assert_int_equal(plan_with(text, NULL, 0, false, &made, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, ":2: experiment.nodes: found 100, expected at most 64"));
    assert_int_equal(plan_with(text, NULL, 0, true, &made, &why), BASE_OK);
    lab_sweep_plan_free(&made);
}

static void the_command_line_and_a_sweep_may_not_set_the_same_key(void **state)
{
    (void)state;
    static const char *const clash[] = {"average.ratio=1/2"}, *const beside[] = {"train.steps=24"},
                             *const instead[] = {"sweep=[{train.steps: [8, 9]}]"};
    static const char text[] = "sweep:\n  - {average.ratio: [1/32, 1/16]}\n";
    struct lab_sweep_plan made;
    struct base_reason why;
    assert_int_equal(plan_with(text, clash, 1, true, &made, &why), BASE_EINVAL);
    assert_non_null(
        strstr(why.text, "average.ratio: swept here and given by --set, expected only one of them"));
    assert_int_equal(plan_with(text, beside, 1, true, &made, &why), BASE_OK);
    assert_non_null(strstr(made.runs[1].text, "steps: 24\n"));
    lab_sweep_plan_free(&made);
    assert_int_equal(plan_with(text, instead, 1, true, &made, &why), BASE_OK);
    assert_string_equal(made.runs[1].label, "train.steps=9,seed=0");
    lab_sweep_plan_free(&made);
}

static void leave(const struct lab_sweep_run *run, const char *experiment, const char *summary)
{
    struct base_reason why = {""};
    char *yaml = lab_path("%s/experiment.yaml", run->directory);
    char *json = lab_path("%s/summary.json", run->directory);
    if (base_directory_make(run->directory, 0777, &why))
        fail_msg("%s", why.text);
    temporary_write(yaml, experiment);
    temporary_write(json, summary);
    free(yaml);
    free(json);
}

static void only_complete_runs_are_kept(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    double seconds = 0;
    plan("sweep: [{train.steps: [8, 16]}]\n", &made);
    const struct lab_sweep_run *run = &made.runs[0];
    assert_false(lab_sweep_run_is_complete(run, &seconds)); // no run there
    leave(run, run->text, "{\"status\": \"complete\", \"seconds\": {\"total\": 2.5}}");
    assert_true(lab_sweep_run_is_complete(run, &seconds));
    assert_true(seconds == 2.5);
    assert_false(lab_sweep_run_is_complete(&made.runs[1], &seconds));
    leave(run, run->text, "{\"status\": \"complete\"}");
    assert_true(lab_sweep_run_is_complete(run, &seconds) && isnan(seconds));
    leave(run, run->text, "{\"status\": \"interrupted\"}");
    assert_false(lab_sweep_run_is_complete(run, &seconds));
    leave(run, run->text, "{\"status\": \"comp");
    assert_false(lab_sweep_run_is_complete(run, &seconds));
    leave(run, made.runs[1].text, "{\"status\": \"complete\"}"); // of another experiment
    assert_false(lab_sweep_run_is_complete(run, &seconds));
    lab_sweep_plan_free(&made);
}

static bool is_there(const char *name)
{
    char *whole = lab_path("%s/out/%s", directory, name);
    bool there = access(whole, F_OK) == 0;
    free(whole);
    return there;
}

static void the_runs_of_a_sweep_are_not_deleted_by_accident(void **state)
{
    (void)state;
    char *out = lab_path("%s/out", directory), *runs = lab_path("%s/out/runs/a", directory);
    char *list = lab_path("%s/out/sweep.json", directory), *old = lab_path("%s/out/results.csv", directory);
    struct lab_directory opened;
    struct base_reason why = {""};
    assert_int_equal(lab_directory_open(out, false, true, &opened, &why), BASE_OK);
    assert_int_equal(lab_directory_open(out, false, true, &opened, &why), BASE_ESTATE); // one at a time
    lab_directory_close(&opened);
    assert_int_equal(base_directory_make(runs, 0777, &why), BASE_OK);
    temporary_write(list, "{}");
    temporary_write(old, "");
    assert_int_equal(lab_directory_open(out, false, false, &opened, &why), BASE_ESTATE);
    assert_non_null(strstr(why.text, "holds the runs of a sweep: choose another with --out, or add --fresh"));
    assert_true(is_there("runs/a") && is_there("sweep.json") && is_there("results.csv"));
    assert_int_equal(lab_directory_open(out, false, true, &opened, &why), BASE_OK);
    lab_directory_close(&opened);
    assert_true(is_there("runs/a") && is_there("sweep.json") && !is_there("results.csv"));
    assert_int_equal(lab_directory_open(out, true, false, &opened, &why), BASE_OK);
    lab_directory_close(&opened);
    assert_false(is_there("runs") || is_there("sweep.json"));
    free(out);
    free(runs);
    free(list);
    free(old);
}

static void the_progress_line_shows_how_far_a_sweep_is(void **state)
{
    (void)state;
    struct lab_sweep_plan made;
    char line[LAB_SWEEP_LINE_BYTES], span[LAB_SPAN_BYTES];
    plan("sweep: [{train.steps: [8, 16]}]\nexperiment: {repeats: 5}\n", &made);
    const struct lab_sweep_running running[] = {{4, 5}, {5, 1}};
    lab_sweep_line(&made, running, 1, 2, line);
    assert_string_equal(line, "[--------------------] 0/10; now train.steps=8,seed=2 (5.0 s)");
    assert_true(isnan(lab_sweep_time_left(&made, running, 1, 2)));
    for (size_t i = 0; i < 4; i++) {
        made.runs[i].state = i ? LAB_SWEEP_COMPLETE : LAB_SWEEP_FAILED;
        made.runs[i].seconds = i == 3 ? 1000 : 20; // one that took long does not distort it
    }
    // Six of 20 s wait, of which two are 6 s old; two at a time.
    assert_true(fabs(lab_sweep_time_left(&made, running, 2, 2) - (6 * 20 - 6) / 2.0) < 1e-9);
    lab_sweep_line(&made, running, 2, 2, line);
    assert_string_equal(
        line, "[########------------] 4/10, 1 failed, left: 57 s; now train.steps=8,seed=2 (5.0 s), "
              "train.steps=16,seed=2 (1.0 s)");
    lab_sweep_print_span(130, span);
    assert_string_equal(span, "2 min 10 s");
    lab_sweep_print_span(11040, span);
    assert_string_equal(span, "3 h 4 min");
    lab_sweep_plan_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_in_one_entry_vary_together),
        cmocka_unit_test(entries_multiply_and_every_point_has_its_seeds),
        cmocka_unit_test(repeats_alone_are_a_sweep_of_one_point),
        cmocka_unit_test(a_swept_seed_is_where_the_repeats_begin),
        cmocka_unit_test(every_run_has_its_own_experiment),
        cmocka_unit_test(a_configured_number_of_threads_is_kept),
        cmocka_unit_test(names_are_unique_and_valid_file_names),
        cmocka_unit_test(an_invalid_sweep_is_refused_with_its_line),
        cmocka_unit_test(each_command_has_its_own_limits),
        cmocka_unit_test(the_command_line_and_a_sweep_may_not_set_the_same_key),
        cmocka_unit_test(only_complete_runs_are_kept),
        cmocka_unit_test(the_runs_of_a_sweep_are_not_deleted_by_accident),
        cmocka_unit_test(the_progress_line_shows_how_far_a_sweep_is),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
