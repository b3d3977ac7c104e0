// Results from made-up summaries: every field, null for unknown values, quoting, mean and spread.
#include "base/file.h"
#include "lab/record/directory.h"
#include "lab/record/results.h"
#include "test/support/temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char directory[TEMPORARY_BYTES];

static int make_directory(void **state)
{
    (void)state;
    temporary_make(directory, "results");
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    temporary_remove(directory);
    return 0;
}

static void put(const char *name, const char *text)
{
    struct base_reason why = {""};
    char *path = lab_path("%s/%s", directory, name), *slash = strrchr(path, '/');
    const struct base_span span = {text, strlen(text)};
    *slash = 0;
    if (base_directory_make(path, 0777, &why))
        fail_msg("%s", why.text);
    *slash = '/';
    if (base_file_write(path, 0600, &span, 1, &why))
        fail_msg("%s", why.text);
    free(path);
}

static char *get(const char *name)
{
    struct base_reason why = {""};
    char *path = lab_path("%s/%s", directory, name);
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (base_file_read(path, 1u << 20, &data, &bytes, &why))
        fail_msg("%s", why.text);
    free(path);
    return (char *)data;
}

// Writes the results; returns the table, which the caller frees.
static char *results(void)
{
    struct base_reason why = {""};
    char *said = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&said, &bytes);
    assert_non_null(out);
    if (lab_results_write(directory, out, &why))
        fail_msg("%s", why.text);
    fclose(out);
    return said;
}

static const char full[] =
    "{\"format\": 1, \"experiment\": \"made-up\", \"status\": \"complete\", \"kind\": \"sim\", \"engine\": "
    "\"rounds\", \"method\": \"choco\", \"nodes\": 16, \"settings\": {\"seed\": 7}, \"averaged\": "
    "{\"accuracy\": "
    "0.95, \"loss\": 0.25, \"nodes\": 16}, \"node\": {\"worst\": {\"accuracy\": 0.5}, \"mean\": "
    "{\"accuracy\": "
    "0.75}, \"best\": {\"accuracy\": 0.875}}, \"consensus\": 0.125, \"bytes\": {\"sent\": 123456789012, "
    "\"dense_over_sent\": 31.5}, \"seconds\": {\"virtual\": 12.5, \"cluster\": 99, \"total\": 2.25}, "
    "\"per_node\": [{\"round\": 10, \"step\": 40, \"own_steps\": 30, \"own_examples\": 960, \"loss\": 0.375, \"succeeded\": true}, {\"round\": 20, "
    "\"step\": 80, \"own_steps\": 80, \"loss\": 0.5, \"succeeded\": true}, {\"round\": 15, \"step\": 60, \"own_steps\": 10, \"loss\": 7, "
    "\"succeeded\": false}], \"false_deaths\": 3, "
    "\"events\": [{\"detected\": {\"median\": 4}, \"rewired\": {\"median\": null}}, {\"detected\": "
    "{\"median\": "
    "1}, \"rewired\": {\"median\": 0.5}}, {\"detected\": {\"median\": 2}}], \"targets\": [{\"accuracy\": "
    "0.93, "
    "\"averaged\": {\"round\": 5, \"step\": 20, \"time\": 3.5, \"bytes\": 1000}, \"worst\": null}, "
    "{\"accuracy\": "
    "0.955, \"averaged\": null, \"worst\": null}]}";

static void every_field_of_a_run_is_in_the_results(void **state)
{
    (void)state;
    put("summary.json", full);
    free(results());
    char *lines = get("results.jsonl"), *csv = get("results.csv");
    assert_string_equal(
        lines,
        "{\"run\":\"made-up\",\"kind\":\"sim\",\"engine\":\"rounds\",\"method\":\"choco\",\"status\":"
        "\"complete\","
        "\"seed\":7,\"settings\":{},\"nodes\":16,\"accuracy\":0.95,\"loss\":0.25,\"worst_loss\":0.5,\"worst\":0.5,\"mean\":0.75,"
        "\"best\":0.875,\"consensus\":0.125,\"bytes\":123456789012,\"dense_over_sent\":31.5,\"seconds\":12.5,"
        "\"wall_seconds\":2.25,\"round\":15.0,\"step\":60.0,\"own_steps\":40.0,\"own_steps_least\":10,\"own_examples\":960.0,"
        "\"exchanges\":null,\"detected\":2.0,\"rewired\":0.5,\"false_"
        "deaths\":3,"
        "\"targets\":[{\"accuracy\":0.93,\"averaged_bytes\":1000,\"averaged_time\":3.5,\"averaged_step\":20,"
        "\"worst_bytes\":null,\"worst_time\":null,\"worst_step\":null},{\"accuracy\":0.955,\"averaged_"
        "bytes\":null,"
        "\"averaged_time\":null,\"averaged_step\":null,\"worst_bytes\":null,\"worst_time\":null,\"worst_"
        "step\":"
        "null}]}\n");
    assert_string_equal(
        csv,
        "run,kind,engine,method,status,seed,nodes,accuracy,loss,worst,mean,best,consensus,bytes,dense_"
        "over_sent,"
        "seconds,wall_seconds,round,step,own_steps,own_steps_least,own_examples,exchanges,detected,rewired,false_deaths,worst_loss,to_93.averaged_bytes,to_93."
        "averaged_time,"
        "to_93.averaged_step,to_93.worst_bytes,to_93.worst_time,to_93.worst_step,to_95.5.averaged_bytes,"
        "to_95.5.averaged_time,to_95.5.averaged_step,to_95.5.worst_bytes,to_95.5.worst_time,to_95.5."
        "worst_step\n"
        "made-up,sim,rounds,choco,complete,7,16,0.95,0.25,0.5,0.75,0.875,0.125,123456789012,31.5,12.5,2."
        "25,15,60,40,10,960,,2,"
        "0.5,3,0.5,1000,3.5,20,,,,,,,,,\n");
    free(lines);
    free(csv);
}

static void a_missing_value_of_a_summary_is_null(void **state)
{
    (void)state;
    put("summary.json", "{\"events\": 3, \"averaged\": [], \"per_node\": [{}], \"targets\": {\"a\": 1}}");
    free(results());
    char *lines = get("results.jsonl");
    assert_string_equal(
        lines,
        "{\"run\":null,\"kind\":null,\"engine\":null,\"method\":null,\"status\":null,\"seed\":null,"
        "\"settings\":{},\"nodes\":null,\"accuracy\":null,\"loss\":null,\"worst_loss\":null,\"worst\":null,\"mean\":null,"
        "\"best\":null,\"consensus\":null,\"bytes\":null,\"dense_over_sent\":null,\"seconds\":null,"
        "\"wall_seconds\":null,\"round\":null,\"step\":null,\"own_steps\":null,\"own_steps_least\":null,\"own_examples\":null,"
        "\"exchanges\":null,\"detected\":null,\"rewired\":null,"
        "\"false_deaths\":null,\"targets\":[]}\n");
    free(lines);
}

static void a_directory_without_a_run_is_an_error(void **state)
{
    (void)state;
    struct base_reason why = {""};
    assert_int_equal(lab_results_write(directory, NULL, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, "holds no results"));
    put("summary.json", "{\"status");
    assert_int_equal(lab_results_write(directory, NULL, &why), BASE_ENOTFOUND);
    put("sweep.json", "{\n\"keys\" 3}");
    assert_int_equal(lab_results_write(directory, NULL, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "sweep.json:2: "));
}

static const char sweep[] =
    "{\"format\": 1, \"keys\": [\"data.train_file\", \"average.ratio\"], \"runs\": ["
    "{\"label\": \"a\", \"settings\": {\"data.train_file\": \"x, \\\"y\\\"\", \"average.ratio\": \"1/32\"}, "
    "\"seed\": 0, \"status\": \"complete\"},"
    "{\"label\": \"b\", \"settings\": {\"data.train_file\": \"z\", \"average.ratio\": \"1/32\"}, \"seed\": "
    "0, "
    "\"status\": \"failed\"},"
    "{\"label\": \"c\", \"settings\": {\"data.train_file\": \"x, \\\"y\\\"\", \"average.ratio\": \"1/32\"}, "
    "\"seed\": 1, \"status\": \"complete\"},"
    "{\"label\": \"d\", \"settings\": {\"data.train_file\": \"z\", \"average.ratio\": \"1/32\"}, \"seed\": "
    "1, "
    "\"status\": \"waiting\"},"
    "{\"label\": \"../a\", \"settings\": {}, \"seed\": 1, \"status\": \"complete\"}]}";

static void a_sweep_with_missing_runs_has_results(void **state)
{
    (void)state;
    put("sweep.json", sweep);
    put("runs/a/summary.json", "{\"status\": \"complete\", \"averaged\": {\"accuracy\": 0.9}, \"bytes\": "
                               "{\"sent\": 1000}, \"targets\": "
                               "[{\"accuracy\": 0.93, \"averaged\": {\"bytes\": 500}}]}");
    put("runs/c/summary.json", "{\"status\": \"complete\", \"averaged\": {\"accuracy\": 0.94}, \"bytes\": "
                               "{\"sent\": 1000}}");
    put("runs/d/summary.json", full); // of an earlier sweep: that run is still to come
    put("a/summary.json", full);      // not in a place that a label can name
    char *table = results(), *csv = get("results.csv"), *line = csv;
    static const char *const begins[] = {
        "run,kind,engine,method,status,seed,set.data.train_file,set.average.ratio,nodes,accuracy,",
        "a,,,,complete,0,\"x, \"\"y\"\"\",1/32,,0.9,",
        "b,,,,failed,0,z,1/32,,,",
        "c,,,,complete,1,\"x, \"\"y\"\"\",1/32,,0.94,",
        "d,,,,waiting,1,z,1/32,,,",
        "../a,,,,complete,1,,,,,"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(line, begins[i], strlen(begins[i])) != 0)
            fail_msg("expected '%s' at:\n%s", begins[i], line);
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(*line, 0);
    for (const char *const *part =
             (const char *const[]){"data.train_file, average.ratio", "bytes to 93%", "92.00% +-25.41%",
                                   "1.0 kB ", " 1 of 2", "0/2", NULL};
         *part; part++)
        if (!strstr(table, *part))
            fail_msg("expected '%s' in:\n%s", *part, table);
    free(table);
    free(csv);
}

static void losses_stand_where_no_target_is_reached(void **state)
{
    (void)state;
    put("sweep.json", "{\"keys\": [\"train.rate\"], \"runs\": [{\"label\": \"a\", \"settings\": "
                      "{\"train.rate\": \"0.01\"}, \"seed\": 0, \"status\": \"complete\"}]}");
    put("runs/a/summary.json",
        "{\"status\": \"complete\", \"averaged\": {\"accuracy\": 0.5, \"loss\": 1.875}, "
        "\"per_node\": [{\"loss\": 1.9375, \"succeeded\": true}]}");
    char *table = results();
    for (const char *const *part = (const char *const[]){"worst node's loss", "1.8750", "1.9375", NULL};
         *part; part++)
        if (!strstr(table, *part))
            fail_msg("expected '%s' in:\n%s", *part, table);
    free(table);
    put("runs/a/summary.json", full); // has reached 93%
    table = results();
    assert_null(strstr(table, "loss"));
    free(table);
}

static void vectors_have_a_distance_instead_of_an_accuracy(void **state)
{
    (void)state;
    put("sweep.json", "{\"keys\": [\"topology.kind\"], \"runs\": [{\"label\": \"a\", \"settings\": "
                      "{\"topology.kind\": \"ring\"}, \"seed\": 0, \"status\": \"complete\"}]}");
    put("runs/a/summary.json",
        "{\"status\": \"complete\", \"consensus\": 0.0125, \"seconds\": {\"virtual\": 2}}");
    char *table = results();
    assert_non_null(strstr(table, "consensus distance"));
    assert_non_null(strstr(table, "0.0125"));
    assert_null(strstr(table, "worst node"));
    assert_null(strstr(table, "bytes to"));
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_field_of_a_run_is_in_the_results, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_missing_value_of_a_summary_is_null, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_directory_without_a_run_is_an_error, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(vectors_have_a_distance_instead_of_an_accuracy, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(losses_stand_where_no_target_is_reached, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_sweep_with_missing_runs_has_results, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
