// rounds.jsonl: what is written is read back, and an invalid line is refused.
#include "lab/record/recorder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/p2pml-rounds-XXXXXX");
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void samples_read_back_the_same(void **state)
{
    (void)state;
    struct lab_recorder recorder;
    struct base_reason why;
    const struct lab_sample written[] = {
        {.accuracy = NAN,
         .loss = NAN,
         .worst = NAN,
         .mean = NAN,
         .best = NAN,
         .consensus = 0,
         .train_loss = NAN},
        {4, 17, 1.25e-3, UINT64_C(1) << 53, 8, 0.9585, 1.0 / 3, 0.5, 0.25, 1, 1e-7, INFINITY, 0, false}};
    assert_int_equal(lab_recorder_open(path, &recorder, &why), BASE_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(lab_recorder_add(&recorder, &written[i], &why), BASE_OK);
    assert_int_equal(recorder.points, 2);
    assert_int_equal(lab_recorder_close(&recorder, &why), BASE_OK);

    struct lab_sample read;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(lab_sample_read(file, &read), 1);
    assert_true(read.round == 0 && read.nodes == 0 && isnan(read.accuracy) && read.consensus == 0);
    assert_int_equal(lab_sample_read(file, &read), 1);
    assert_true(read.round == 4 && read.step == 17 && read.bytes == UINT64_C(1) << 53 && read.nodes == 8);
    assert_true(read.time == 1.25e-3 && read.accuracy == 0.9585 && fabs(read.loss - 1.0 / 3) < 1e-14);
    assert_true(read.worst == 0.5 && read.mean == 0.25 && read.best == 1 && read.consensus == 1e-7);
    assert_true(isnan(read.train_loss)); // a value that is not finite is null
    assert_int_equal(lab_sample_read(file, &read), 0);
    fclose(file);
}

static void a_line_has_the_fields_of_the_readme(void **state)
{
    (void)state;
    char line[512];
    struct lab_recorder recorder;
    struct base_reason why;
    const struct lab_sample point = {10, 40, 0.5, 1000, 4, 0.5, 2, NAN, NAN, NAN, 0.125, 1, 0, false};
    assert_int_equal(lab_recorder_open(path, &recorder, &why), BASE_OK);
    assert_int_equal(lab_recorder_add(&recorder, &point, &why), BASE_OK);
    FILE *file = fopen(path, "r"); // already written, before it is closed
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line,
                        "{\"round\":10,\"step\":40,\"time\":0.5,\"bytes\":1000,\"nodes\":4,\"accuracy\":0.5,"
                        "\"loss\":2,\"worst\":null,\"mean\":null,\"best\":null,\"consensus\":0.125,"
                        "\"train_loss\":1}\n");
    fclose(file);
    assert_int_equal(lab_recorder_close(&recorder, &why), BASE_OK);
}

static void a_line_that_is_no_sample_is_refused(void **state)
{
    static const char *const lines[] = {
        "\n",
        "7\n",
        "{}\n",
        "[1]\n",
        "{\"round\":1}\n",
        "{\"round\":-1,\"step\":0,\"time\":0,\"bytes\":0,\"nodes\":0,\"accuracy\":0,\"loss\":0,\"worst\":0,"
        "\"mean\":0,\"best\":0,\"consensus\":0,\"train_loss\":0}\n",
        "{\"round\":1,\"step\":0,\"time\":0,\"bytes\":0,\"nodes\":0,\"accuracy\":\"0\",\"loss\":0,\"worst\":"
        "0,"
        "\"mean\":0,\"best\":0,\"consensus\":0,\"train_loss\":0}\n",
        "{\"round\":1,\"step\":0,\"time\":0,\"bytes\":0,\"nod"}; // half a line
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct lab_sample point = {.round = 99};
        write_text(lines[i]);
        FILE *file = fopen(path, "r");
        assert_int_equal(lab_sample_read(file, &point), BASE_EFORMAT);
        assert_int_equal(point.round, 99);
        fclose(file);
    }
}

static void an_invalid_path_is_an_error(void **state)
{
    (void)state;
    struct lab_recorder recorder;
    struct base_reason why = {""};
    assert_int_equal(lab_recorder_open("/nowhere/at/all", &recorder, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "/nowhere/at/all"));
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    struct lab_recorder recorder;
    struct base_reason why = {""};
    const struct lab_sample point = {0};
    if (lab_recorder_open("/dev/full", &recorder, &why))
        skip();
    assert_int_equal(lab_recorder_add(&recorder, &point, &why), BASE_EIO);
    assert_int_equal(recorder.points, 0);
    (void)!lab_recorder_close(&recorder, &why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_read_back_the_same),
        cmocka_unit_test(a_line_has_the_fields_of_the_readme),
        cmocka_unit_test(a_line_that_is_no_sample_is_refused),
        cmocka_unit_test(an_invalid_path_is_an_error),
        cmocka_unit_test(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
