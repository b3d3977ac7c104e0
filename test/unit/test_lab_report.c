// What a report is made of: the files of runs, read and combined; the data of the page; what is refused.
#include "base/file.h"
#include "lab/report/page.h"
#include "lab/report/report.h"
#include "lab/report/tex.h"
#include "test/support/temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[TEMPORARY_BYTES];

static int make_directory(void **state)
{
    (void)state;
    temporary_make(directory, "report");
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    temporary_remove(directory);
    return 0;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct base_reason why = {""};
    const struct base_span span = {text, strlen(text)};
    snprintf(path, sizeof path, "%s/%s", directory, folder);
    assert_int_equal(base_directory_make(path, 0777, &why), BASE_OK);
    snprintf(path, sizeof path, "%s/%s/%s", directory, folder, name);
    assert_int_equal(base_file_write(path, 0644, &span, 1, &why), BASE_OK);
}

#define POINT(round, accuracy)                                                                               \
    "{\"round\":" #round ",\"step\":" #round ",\"time\":" #round ",\"bytes\":1" #round "000,\"nodes\":2,"    \
    "\"accuracy\":" #accuracy ",\"loss\":1,\"worst\":null,\"mean\":null,\"best\":null,\"consensus\":0.5,"    \
    "\"train_loss\":null}\n"

static const char summary[] =
    "{\"format\": 1, \"experiment\": \"tiny\", \"kind\": \"sim\", \"status\": \"complete\", \"nodes\": 2,"
    " \"settings\": {\"seed\": 7, \"data\": {\"alpha\": 0.5}}, \"averaged\": {\"accuracy\": 0.9, \"loss\": "
    "0.3},"
    " \"node\": {\"worst\": {\"accuracy\": 0.8}}, \"consensus\": null, \"bytes\": {\"sent\": 5000},"
    " \"seconds\": {\"virtual\": 4.5, \"total\": 1}, \"per_node\": [{\"round\": 4}],"
    " \"events\": [{\"event\": \"kill\", \"detected\": {\"median\": 0.5}, \"witnesses\": [1]},"
    "              {\"event\": \"kill\", \"detected\": {\"median\": 0.7}},"
    "              {\"event\": \"stop\", \"detected\": {\"median\": null}}],"
    " \"targets\": [{\"accuracy\": 0.85, \"averaged\": {\"round\": 3, \"step\": 3, \"time\": 3, \"bytes\": "
    "3000},"
    "              \"worst\": null}],"
    " \"graph\": {\"kind\": \"ring\", \"nodes\": [\"a\", \"b\"], \"edges\": [[0, 1]], \"gone\": []}}";

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void a_single_run_is_one_case(void **state)
{
    (void)state;
    struct lab_run_results results;
    struct base_reason why = {""};
    write_file(".", "summary.json", summary);
    write_file(".", "results.jsonl", "{\"run\": \"tiny\"}\n"); // a run has such a file, too
    write_file(".", "rounds.jsonl", POINT(0, 0.1) POINT(2, 0.5) "garbage\n" POINT(4, 0.9));
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    assert_string_equal(results.title, "tiny");
    assert_int_equal(results.n_cases, 1);
    const struct lab_case *c = results.cases;
    assert_string_equal(c->label, "tiny");
    assert_true(c->values[LAB_VALUE_ACCURACY].mean == 0.9 && c->values[LAB_VALUE_WORST].mean == 0.8);
    assert_true(c->values[LAB_VALUE_SECONDS].mean == 4.5); // virtual, not the time that it took here
    assert_true(c->values[LAB_VALUE_BYTES].mean == 5000 && c->values[LAB_VALUE_ROUND].mean == 4);
    assert_true(near(c->values[LAB_VALUE_DETECTED].mean, 0.6));
    assert_true(isnan(c->values[LAB_VALUE_CONSENSUS].mean) && c->values[LAB_VALUE_CONSENSUS].seen == 0);
    assert_int_equal(c->n_targets, 1);
    assert_true(c->targets[0].cost[LAB_REACH_BYTES].mean == 3000);
    assert_int_equal(c->targets[0].cost[LAB_REACH_WORST_BYTES].seen, 0);
    assert_int_equal(c->targets[0].of, 1);
    assert_int_equal(c->curve.count, 3);
    assert_true(c->curve.points[1].value[LAB_LINE_ACCURACY].mean == 0.5);
    assert_int_equal(json_array_size(results.notes), 1); // about the invalid line
    lab_run_results_free(&results);
}

static void row_of(char *rows, const char *label, const char *status, const char *settings, double accuracy,
                   const char *bytes)
{
    sprintf(rows + strlen(rows),
            "{\"run\": \"%s\", \"status\": \"%s\", \"settings\": %s, \"accuracy\": %g,"
            " \"targets\": [{\"accuracy\": 0.9, \"averaged_bytes\": %s}]}\n",
            label, status, settings, accuracy, bytes);
}

static void runs_that_differ_only_in_the_seed_are_one_case(void **state)
{
    (void)state;
    struct lab_run_results results;
    struct base_reason why = {""};
    char rows[4096] = "";
    const char *ring =
        "{\"topology.kind\": \"ring\", \"average.ratio\": \"1/8\", \"experiment.seed\": \"0\"}";
    const char *again =
        "{\"topology.kind\": \"ring\", \"average.ratio\": \"1/8\", \"experiment.seed\": \"1\"}";
    row_of(rows, "r0", "complete", ring, 0.90, "100");
    row_of(rows, "s0", "complete", "{\"topology.kind\": \"star\", \"average.ratio\": \"1/8\"}", 0.7, "null");
    row_of(rows, "r1", "complete", again, 0.94, "null");
    row_of(rows, "r2", "failed", again, 0.1, "1");
    strcat(rows, "{\"run\": \"../../etc\"}\n{\"run\": \"half");
    write_file(".", "results.jsonl", rows);
    write_file("runs/r0", "rounds.jsonl", POINT(0, 0.1) POINT(4, 0.5) POINT(8, 0.9));
    write_file("runs/r1", "rounds.jsonl",
               POINT(0, 0.3) POINT(2, 0.3) POINT(4, 0.7) POINT(6, 0.9) POINT(7, 1));
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    assert_int_equal(results.n_cases, 2);
    const struct lab_case *c = results.cases;
    assert_string_equal(c->label, "ring"); // the ratio is the same for all
    assert_int_equal(c->runs, 3);
    assert_int_equal(c->n_records, 2); // failed runs are in no mean
    const struct lab_band accuracy = c->values[LAB_VALUE_ACCURACY];
    assert_true(near(accuracy.mean, 0.92) && accuracy.low == 0.90 && accuracy.high == 0.94 &&
                accuracy.seen == 2);
    const struct lab_band bytes = c->targets[0].cost[LAB_REACH_BYTES];
    assert_true(near(accuracy.half, 12.7062 * 0.02) &&
                isnan(results.cases[1].values[LAB_VALUE_ACCURACY].half));
    assert_true(bytes.mean == 100 && bytes.seen == 1);
    assert_int_equal(c->targets[0].of, 3); // the failed run has not reached it either
    assert_false(lab_target_is_reached(&c->targets[0], LAB_REACH_BYTES));
    // At the rounds of the longer run, without those that the other did not reach: 0 2 4 6 7.
    assert_int_equal(c->curve.count, 5);
    assert_true(near(c->curve.points[1].value[LAB_LINE_ACCURACY].low, 0.3)); // r0 half-way between .1 and .5
    assert_true(near(c->curve.points[1].value[LAB_LINE_ACCURACY].mean, 0.3));
    assert_true(near(c->curve.points[3].value[LAB_LINE_ACCURACY].low, 0.7));
    assert_true(near(c->curve.points[3].value[LAB_LINE_ACCURACY].mean, 0.8));
    assert_true(c->curve.points[4].at[LAB_AXIS_BYTES] == 17000);
    assert_int_equal(c->curve.points[3].value[LAB_LINE_WORST].seen, 0);
    assert_int_equal(json_array_size(results.notes), 2); // two lines, one run
    lab_run_results_free(&results);
}

static void seed_row(char *rows, const char *kind, int seed, double accuracy, const char *bytes)
{
    sprintf(rows + strlen(rows),
            "{\"run\": \"%s%d\", \"status\": \"complete\", \"seed\": %d, \"settings\": {\"topology.kind\": "
            "\"%s\", \"experiment.seed\": \"%d\"}, \"accuracy\": %g, \"bytes\": 2000000, \"targets\": "
            "[{\"accuracy\": 0.9, \"averaged_bytes\": %s}]}\n",
            kind, seed, seed, kind, seed, accuracy, bytes);
}

// Two cases whose accuracies differ by 0.01 on each seed, and by 0.2 from seed to seed; one is lucky once.
static void differences_are_paired_by_seed(void **state)
{
    (void)state;
    struct lab_run_results results;
    struct base_reason why = {""};
    char rows[8192] = "", *text = NULL;
    size_t bytes = 0;
    for (int seed = 0; seed < 3; seed++)
        seed_row(rows, "ring", seed, 0.3 + 0.2 * seed, "3e6");
    for (int seed = 1; seed < 4; seed++) // seed 0 is missing
        seed_row(rows, "star", seed, 0.31 + 0.2 * seed, seed == 2 ? "1000" : "null");
    write_file(".", "results.jsonl", rows);
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    assert_int_equal(results.reference, 1);
    const struct lab_band band = results.cases[0].against[LAB_AGAINST_ACCURACY];
    assert_int_equal(band.seen, 2);
    assert_true(fabs(band.mean + 0.01) < 1e-9 && band.half < 1e-9);
    assert_int_equal(results.cases[1].against[LAB_AGAINST_ACCURACY].seen, 0); // the reference itself
    assert_int_equal(results.cases[0].against[LAB_AGAINST_WORST].seen, 0);
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(lab_tex_write(&results, out), BASE_OK);
    assert_int_equal(fclose(out), 0);
    const char *ring =
                   strstr(text, "ring & 3 & $50 \\pm 50$ & -- & $2.00 \\pm 0.00$ & -- & $3.00 \\pm 0.00$ "),
               *star = strstr(text, " & 1 of 3 \\\\\n");
    if (!ring || !star || star < ring) // fewest bytes, but of one seed
        fail_msg("%s", text);
    free(text);
    lab_run_results_free(&results);
}

static void labels_contain_only_what_differs(void **state)
{
    (void)state;
    struct lab_run_results results;
    struct base_reason why = {""};
    char rows[2048] = "";
    const char *const settings[] = {"{\"a.method\": \"choco\", \"a.gamma\": \"0.1\", \"a.rate\": \"1\"}",
                                    "{\"a.method\": \"edge-ref\", \"a.gamma\": \"1\", \"a.rate\": \"1\"}",
                                    "{\"a.method\": \"edge-ref\", \"a.gamma\": \"1\", \"a.rate\": \"2\"}"};
    for (size_t i = 0; i < 3; i++) {
        const char label[2] = {(char)('a' + i), 0};
        row_of(rows, label, "complete", settings[i], 0.5, "null");
    }
    write_file(".", "results.jsonl", rows);
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    assert_int_equal(json_array_size(results.varied), 3);
    assert_string_equal(results.cases[0].label, "choco, rate 1"); // gamma goes with the method
    assert_string_equal(results.cases[2].label, "edge-ref, rate 2");
    lab_run_results_free(&results);
}

static void long_runs_are_thinned_during_reading(void **state)
{
    (void)state;
    enum { POINTS = 10001 };
    struct base_reason why = {""};
    struct lab_recorder recorder;
    struct lab_record record = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/rounds.jsonl", directory);
    assert_int_equal(lab_recorder_open(path, &recorder, &why), BASE_OK);
    for (uint64_t i = 0; i < POINTS; i++)
        assert_int_equal(lab_recorder_add(&recorder, &(struct lab_sample){.round = i, .accuracy = NAN}, &why),
                         BASE_OK);
    assert_int_equal(lab_recorder_close(&recorder, &why), BASE_OK);
    assert_int_equal(lab_record_read(directory, &record, &why), BASE_OK);
    assert_in_range(record.count, LAB_RECORD_POINTS_MAX / 2 - 1, LAB_RECORD_POINTS_MAX);
    assert_int_equal(record.points[0].round, 0);
    assert_int_equal(record.points[record.count - 1].round, POINTS - 1);
    for (size_t i = 2; i + 1 < record.count; i++)
        assert_int_equal(record.points[i].round - record.points[i - 1].round, record.points[1].round);
    lab_record_free(&record);
}

static void a_mean_that_falls_back_is_skipped(void **state)
{
    (void)state;
    struct lab_sample a[] = {
        {.round = 0, .time = 0}, {.round = 10, .time = 1}, {.round = 6, .time = 2}, {.round = 20, .time = 3}};
    struct lab_sample b[] = {{.round = 0, .time = 0}, {.round = 20, .time = 3}};
    const struct lab_samples runs[] = {{a, 4}, {b, 2}};
    struct lab_curve curve;
    assert_int_equal(lab_curve_make(runs, 2, 400, &curve), BASE_OK);
    assert_int_equal(curve.count, 3);
    for (size_t i = 1; i < curve.count; i++)
        assert_true(curve.points[i].at[LAB_AXIS_ROUND] > curve.points[i - 1].at[LAB_AXIS_ROUND]);
    lab_curve_free(&curve);
    assert_int_equal(lab_curve_make(runs, 1, 400, &curve), BASE_OK); // a single run is unchanged
    assert_int_equal(curve.count, 4);
    lab_curve_free(&curve);
    assert_int_equal(lab_curve_make(runs, 1, 2, &curve), BASE_OK);
    assert_int_equal(curve.count, 2);
    assert_true(curve.points[1].at[LAB_AXIS_ROUND] == 20);
    lab_curve_free(&curve);
    assert_int_equal(lab_curve_make(NULL, 0, 400, &curve), BASE_OK);
    assert_int_equal(curve.count, 0);
}

static void no_text_can_end_the_script(void **state)
{
    (void)state;
    json_t *json = json_pack("{s:s}", "a", "</script><!-- \" \\ <script>");
    char *text = lab_page_embed(json);
    assert_non_null(text);
    assert_null(strchr(text, '<'));
    json_t *back = json_loads(text, 0, NULL);
    assert_true(json_equal(json, back));
    free(text);
    json_decref(json);
    json_decref(back);
}

static void read_report(uint8_t **text)
{
    char path[128];
    size_t bytes = 0;
    struct base_reason why = {""};
    snprintf(path, sizeof path, "%s/report.html", directory);
    assert_int_equal(base_file_read(path, 1 << 20, text, &bytes, &why), BASE_OK);
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static void the_page_is_one_file(void **state)
{
    (void)state;
    struct base_reason why = {""};
    write_file(".", "summary.json", "{\"experiment\": \"</script><b>\"}");
    assert_int_equal(lab_report_write(directory, &why), BASE_OK);
    uint8_t *page = NULL;
    read_report(&page);
    const char *text = (const char *)page;
    assert_memory_equal(text, "<!doctype html>", 15);
    assert_int_equal(count_of(text, "</script>"), 2); // of the data, of the script
    assert_int_equal(count_of(text, "@DATA@") + count_of(text, "@CSS@") + count_of(text, "@SCRIPT@"), 0);
    assert_int_equal(count_of(text, " src=") + count_of(text, "@import") + count_of(text, "url("), 0);
    static const char opening[] = "id=\"data\">";
    assert_int_equal(count_of(text, opening), 1);
    size_t begin = (size_t)(strstr(text, opening) - text) + strlen(opening);
    size_t length = (size_t)(strstr(text + begin, "</script>") - text) - begin;
    json_t *json = json_loadb(text + begin, length, 0, NULL);
    assert_string_equal(lab_json_text(json, "title", ""), "</script><b>");
    assert_int_equal(json_array_size(json_object_get(json, "cases")), 1);
    json_decref(json);
    free(page);
}

static void values_that_cannot_be_drawn_are_counted(void **state)
{
    (void)state;
    struct base_reason why = {""};
    struct lab_run_results results;
    json_t *made = json_loads(summary, 0, NULL), *edges = json_array(), *events = json_array();
    for (int i = 0; i < 7000; i++)
        json_array_append_new(edges, json_pack("[i, i]", i, i + 1));
    for (int i = 0; i < 250; i++)
        json_array_append_new(events, json_pack("{s:s}", "event", "kill"));
    json_object_set_new(json_object_get(made, "graph"), "edges", edges);
    json_object_set_new(made, "events", events);
    char *text = json_dumps(made, 0);
    write_file(".", "summary.json", text);
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    json_t *page = lab_page_json(&results);
    const json_t *graph = json_array_get(json_object_get(page, "graphs"), 0);
    const json_t *c = json_array_get(json_object_get(page, "cases"), 0);
    assert_true(json_is_false(json_object_get(graph, "drawn")));
    assert_int_equal(json_integer_value(json_object_get(graph, "n_edges")), 7000);
    assert_null(json_object_get(graph, "edges"));
    assert_int_equal(json_array_size(json_object_get(c, "events")), 200);
    assert_int_equal(json_integer_value(json_object_get(c, "more_events")), 50);
    free(text);
    json_decref(made);
    json_decref(page);
    lab_run_results_free(&results);
}

static void expect_refusal(enum base_error code, const char *words)
{
    struct base_reason why = {""};
    assert_int_equal(lab_report_write(directory, &why), code);
    if (!strstr(why.text, words))
        fail_msg("found '%s', expected '%s' in it", why.text, words);
}

static void a_wrong_directory_is_explained(void **state)
{
    (void)state;
    struct base_reason why = {""};
    expect_refusal(BASE_ENOTFOUND, "holds neither results.jsonl nor summary.json");
    assert_int_equal(lab_report_write("/nowhere/at/all", &why), BASE_ENOTFOUND);
    write_file(".", "results.jsonl", "{\"run\": \"\"}\n");
    expect_refusal(BASE_EFORMAT, "holds no finished run");
    write_file(".", "summary.json", "{\"format\": 1,\n \"format\": 2}");
    expect_refusal(BASE_EFORMAT, "summary.json:2: ");
    write_file(".", "summary.json", "[]");
    expect_refusal(BASE_EFORMAT, "expected the JSON object");
}

static void a_damaged_run_of_a_sweep_becomes_a_note(void **state)
{
    (void)state;
    struct lab_run_results results;
    struct base_reason why = {""};
    write_file(".", "results.jsonl", "{\"run\": \"a\", \"status\": \"complete\", \"accuracy\": 0.5}\n");
    write_file("runs/a", "summary.json", "{ oh");
    assert_int_equal(lab_run_results_read(directory, &results, &why), BASE_OK);
    assert_true(results.cases[0].values[LAB_VALUE_ACCURACY].mean == 0.5);
    assert_non_null(strstr(json_string_value(json_array_get(results.notes, 0)), "runs/a/summary.json:1"));
    lab_run_results_free(&results);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_single_run_is_one_case),
        CASE(runs_that_differ_only_in_the_seed_are_one_case),
        CASE(differences_are_paired_by_seed),
        CASE(labels_contain_only_what_differs),
        CASE(long_runs_are_thinned_during_reading),
        cmocka_unit_test(a_mean_that_falls_back_is_skipped),
        cmocka_unit_test(no_text_can_end_the_script),
        CASE(the_page_is_one_file),
        CASE(values_that_cannot_be_drawn_are_counted),
        CASE(a_wrong_directory_is_explained),
        CASE(a_damaged_run_of_a_sweep_becomes_a_note),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
