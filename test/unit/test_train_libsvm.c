// LIBSVM text: what it becomes, and everything that can be wrong with it.
#include "base/limits.h"
#include "test/support/data_sets.h"
#include "train/dataset.h"
#include "train/loaders.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static enum base_error parse(const char *text, size_t features, size_t classes, struct train_dataset *data,
                             struct base_reason *why)
{
    struct train_bytes bytes = {"rows", (const uint8_t *)text, strlen(text)};
    return train_libsvm_parse(
        &bytes, &(struct train_libsvm_options){.features = features, .classes = classes}, data, why);
}

static struct train_dataset parse_good(const char *text, size_t features, size_t classes)
{
    struct train_dataset data = {0};
    struct base_reason why = {""};
    if (parse(text, features, classes, &data, &why))
        fail_msg("%s", why.text);
    return data;
}

// Four features and two classes; the caller's data set is unchanged.
static void assert_fails(const char *text, enum base_error code, const char *message)
{
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(parse(text, 4, 2, &data, &why), code);
    assert_string_equal(why.text, message);
    assert_int_equal(data.examples, 77);
    assert_null(data.x);
}

static void rows_are_read(void **state)
{
    (void)state;
    struct train_dataset data = parse_good("+1 1:0.5 4:-2e1\n-1\n-1\t2:3.25 \r\n+1 3:.5 4:7.", 4, 2);
    assert_int_equal(data.examples, 4);
    assert_int_equal(data.features, 4);
    assert_int_equal(data.classes, 2);
    assert_int_equal((uintptr_t)data.x % 64, 0);
    static const float expected[16] = {0.5f, 0, 0, -20, 0, 0, 0, 0, 0, 3.25f, 0, 0, 0, 0, 0.5f, 7};
    assert_memory_equal(data.x, expected, sizeof expected);
    static const uint32_t labels[4] = {1, 0, 0, 1};
    assert_memory_equal(data.labels, labels, sizeof labels);
    train_dataset_destroy(&data);
}

static void a_range_of_rows_is_read(void **state)
{
    (void)state;
    static const char text[] = "0 1:1\n1 1:2\n0 1:3\n";
    struct train_bytes bytes = {"rows", (const uint8_t *)text, sizeof text - 1};
    struct train_dataset data;
    struct base_reason why = {""};
    assert_int_equal(train_libsvm_parse(
                         &bytes,
                         &(struct train_libsvm_options){.features = 1, .classes = 2, .first = 1, .count = 1},
                         &data, &why),
                     BASE_OK);
    assert_int_equal(data.examples, 1);
    assert_true(data.x[0] == 2);
    assert_int_equal(data.labels[0], 1);
    train_dataset_destroy(&data);
    assert_int_equal(train_libsvm_parse(
                         &bytes,
                         &(struct train_libsvm_options){.features = 1, .classes = 2, .first = 2, .count = 2},
                         &data, &why),
                     BASE_EINVAL);
    assert_string_equal(why.text, "rows has 3 examples, but 2 from number 2 on were asked for");
    assert_int_equal(
        train_libsvm_parse(&bytes, &(struct train_libsvm_options){.features = 0, .classes = 2}, &data, &why),
        BASE_EINVAL);
    assert_int_equal(
        train_libsvm_parse(&bytes, &(struct train_libsvm_options){.features = 1, .classes = 0}, &data, &why),
        BASE_EINVAL);
    assert_int_equal(
        train_libsvm_parse(&bytes, &(struct train_libsvm_options){.features = (size_t)1 << 31, .classes = 2},
                           &data, &why),
        BASE_ELIMIT);
}

static void assert_labels(const char *text, size_t classes, uint32_t first, uint32_t second)
{
    struct train_dataset data = parse_good(text, 1, classes);
    assert_int_equal(data.labels[0], first);
    assert_int_equal(data.labels[1], second);
    train_dataset_destroy(&data);
}

static void labels_are_numbered_from_zero(void **state)
{
    (void)state;
    assert_labels("-1\n+1", 2, 0, 1);
    assert_labels("-1\n-1", 2, 0, 0);
    assert_labels("0\n1", 2, 0, 1);
    assert_labels("1\n2", 2, 0, 1);
    assert_labels("3\n0", 10, 3, 0);
    assert_labels("10\n1", 10, 9, 0);
}

// The labels are names of classes; a test file and data.labels say the same as the training file.
static void labels_are_part_of_the_meaning(void **state)
{
    (void)state;
    static char one[] = "1", two[] = "2", seven[] = "7";
    char *said[] = {two, seven, one};
    struct train_dataset both = parse_good("1 1:1\n2 1:1\n", 1, 2),
                         other = parse_good("0 1:1\n1 1:1\n", 1, 2), data = {0};
    struct base_reason why = {""};
    assert_string_equal(both.meaning->classes.items[1], "2");
    assert_true(train_meaning_digest(both.meaning) != train_meaning_digest(other.meaning));
    const struct train_bytes ones = {"rows", (const uint8_t *)"1 1:1\n1 1:2\n", 12};
    struct train_libsvm_options options = {.features = 1, .classes = 2, .like = both.meaning};
    assert_int_equal(train_libsvm_parse(&ones, &options, &data, &why), BASE_OK);
    assert_true(data.labels[0] == 0 && data.meaning == both.meaning);
    train_dataset_destroy(&data);
    options.like = other.meaning;
    assert_int_equal(train_libsvm_parse(&ones, &options, &data, &why), BASE_OK);
    assert_int_equal(data.labels[0], 1);
    train_dataset_destroy(&data);
    options = (struct train_libsvm_options){.features = 1, .labels = {said, 3}};
    assert_int_equal(train_libsvm_parse(&ones, &options, &data, &why), BASE_OK);
    assert_true(data.classes == 3 && data.labels[0] == 2);
    assert_string_equal(data.meaning->classes.items[1], "7");
    train_dataset_destroy(&data);
    const struct train_bytes threes = {"rows", (const uint8_t *)"1 1:1\n3 1:2\n", 12};
    assert_int_equal(train_libsvm_parse(&threes, &options, &data, &why), BASE_EMISMATCH);
    assert_string_equal(why.text,
                        "rows:2: found the label 3, expected one of the 3 labels that the training examples "
                        "or data.labels have, from 1 to 7");
    said[2] = two;
    assert_int_equal(train_libsvm_parse(&ones, &options, &data, &why), BASE_EINVAL);
    assert_string_equal(why.text, "data.labels: found the label 2 twice");
    train_dataset_destroy(&both);
    train_dataset_destroy(&other);
}

static void comments_are_not_read(void **state)
{
    (void)state;
    struct train_dataset data =
        parse_good("# made by a program\n0 1:1 # first\n\t# between\n1 1:2#\n#", 1, 2);
    assert_int_equal(data.examples, 2);
    assert_true(data.x[1] == 2);
    train_dataset_destroy(&data);
}

static void wrong_labels_are_refused(void **state)
{
    (void)state;
    assert_fails("0\nyes 1:1", BASE_EFORMAT,
                 "rows:2: found the label \"yes\", expected a class as a whole number");
    assert_fails("1.5 1:1", BASE_EFORMAT,
                 "rows:1: found the label \"1.5\", expected a class as a whole number");
    assert_fails("nan 1:1", BASE_EFORMAT,
                 "rows:1: found the label \"nan\", expected a class as a whole number");
    assert_fails("+ 1:1", BASE_EFORMAT, "rows:1: found the label \"+\", expected a class as a whole number");
    assert_fails("4294967297 1:1", BASE_EFORMAT,
                 "rows:1: found the label \"4294967297\", expected a class as a whole number");
    assert_fails(
        "1:1", BASE_EFORMAT,
        "rows:1: found the label \"1:1\", expected a class as a whole number: examples with a weight of "
        "their own are not read; remove the weights");
    assert_fails(
        "0,1 1:1", BASE_EFORMAT,
        "rows:1: found the label \"0,1\", expected a class as a whole number: one class an example, not "
        "several");
    assert_fails(
        "1 1:1", BASE_EFORMAT,
        "rows: found only the label 1, which may be one of 0 and 1, of 1 and 2, or of -1 and +1; name "
        "both in data.labels, such as data.labels: [1, 2]");
    assert_fails("0\n3", BASE_EFORMAT, "rows:2: labels from 0 to 3, expected 0 to 1 or 1 to 2 (2 classes)");
    assert_fails("0\n2", BASE_EFORMAT, "rows:2: labels from 0 to 2, expected 0 to 1 or 1 to 2 (2 classes)");
    assert_fails(
        "-1\n0\n1", BASE_EFORMAT,
        "rows:2: labels from -1 to 1 with 0 among them, but negative labels are found only as -1/+1 of 2 classes; "
        "name all labels in data.labels");
    assert_fails(
        "-1\n1\n7\n1", BASE_EFORMAT,
        "rows:3: labels from -1 to 7, but negative labels are found only as -1/+1 of 2 classes; name all "
        "labels in data.labels");
    assert_fails(
        "-1\n-3\n1", BASE_EFORMAT,
        "rows:2: labels from -3 to 1, but negative labels are found only as -1/+1 of 2 classes; name all "
        "labels in data.labels");
    struct train_dataset data;
    struct base_reason why = {""};
    assert_int_equal(parse("1\n9", 1, 10, &data, &why), BASE_EFORMAT);
    assert_string_equal(why.text,
                        "rows: labels from 1 to 9, neither 0 nor 10 among them: with 10 classes they could "
                        "count from 0 or from 1; name all labels in data.labels");
}

static void wrong_indices_are_refused(void **state)
{
    (void)state;
    assert_fails("0 0:1", BASE_EFORMAT,
                 "rows:1: index 0, but indices count from 1; write the file so (sklearn: "
                 "dump_svmlight_file(..., zero_based=False))");
    assert_fails("0 1:1\n1 5:1", BASE_ELIMIT,
                 "rows:2: index 5, but the data set was said to have 4 features");
    assert_fails("0 9999999999:1", BASE_ELIMIT,
                 "rows:1: index 9999999999, but the data set was said to have 4 features");
    assert_fails("0 99999999999999999999:1", BASE_EFORMAT,
                 "rows:1: index \"99999999999999999999\" is not a whole number from 1 to 4");
    assert_fails("0 3:1 2:1", BASE_EFORMAT, "rows:1: index 2 after index 3, expected ascending indices");
    assert_fails("0 3:1 3:1", BASE_EFORMAT, "rows:1: index 3 after index 3, expected ascending indices");
    assert_fails("0 -1:1", BASE_EFORMAT, "rows:1: index \"-1\" is not a whole number from 1 to 4");
    assert_fails("0 :1", BASE_EFORMAT, "rows:1: index \"\" is not a whole number from 1 to 4");
    assert_fails("0 17", BASE_EFORMAT, "rows:1: \"17\" where index:value was expected");
    assert_fails("0 qid:3 1:1", BASE_EFORMAT,
                 "rows:1: found \"qid:3\", the mark of a ranking; p2pml learns classes: remove the qid");
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"nan", "NaN", "inf", "-inf", "infinity", "",    ".",   "+",
                                      "1e",  "1e+", "0x1", "1,5",  "1.2.3",    "1:2", "--1", "1f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64], message[128];
        snprintf(text, sizeof text, "0 1:1\n1 2:%s 3:1", bad[i]);
        snprintf(message, sizeof message, "rows:2: value \"%s\" of index 2 is not a finite decimal number",
                 bad[i]);
        assert_fails(text, BASE_EFORMAT, message);
    }
    assert_fails("0 1:1e39", BASE_EFORMAT,
                 "rows:1: value \"1e39\" of index 1 is too large for a 32-bit float");
    assert_fails("0 1:-4e38", BASE_EFORMAT,
                 "rows:1: value \"-4e38\" of index 1 is too large for a 32-bit float");
    assert_fails("0 1:1e999999999999", BASE_EFORMAT,
                 "rows:1: value \"1e999999999999\" of index 1 is too large for a 32-bit float");
    assert_fails(
        "0 1:\x01zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", BASE_EFORMAT,
        "rows:1: value \"?zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz...\" of index 1 is not a finite decimal number");
}

static void empty_and_endless_lines_are_refused(void **state)
{
    (void)state;
    assert_fails("", BASE_EFORMAT, "rows: the file is empty, expected lines of \"label index:value ...\"");
    assert_fails("0 1:1\n\n1 1:1", BASE_EFORMAT, "rows:2: an empty line, expected \"label index:value ...\"");
    assert_fails("0 1:1\n  \t\n", BASE_EFORMAT, "rows:2: an empty line, expected \"label index:value ...\"");
    size_t length = LIMIT_TEXT_LINE_BYTES + 1;
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, ' ', length);
    text[0] = '0';
    text[length] = 0;
    assert_fails(text, BASE_ELIMIT, "rows:1: the line is longer than 1048576 bytes");
    text[length - 1] = 0;
    struct train_dataset data = parse_good(text, 4, 2);
    train_dataset_destroy(&data);
    free(text);
}

// A zero byte does not end the text here, as it would for strtod.
static void zero_bytes_are_refused(void **state)
{
    (void)state;
    static const char text[] = "0 1:1\0 2:1\n";
    struct train_bytes bytes = {"rows", (const uint8_t *)text, sizeof text - 1};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    assert_int_equal(
        train_libsvm_parse(&bytes, &(struct train_libsvm_options){.features = 4, .classes = 2}, &data, &why),
        BASE_EFORMAT);
    assert_string_equal(why.text, "rows:1: value \"1?\" of index 1 is not a finite decimal number");
}

static float value_of(const char *text)
{
    char row[256];
    snprintf(row, sizeof row, "0 1:%s", text);
    struct train_dataset data = parse_good(row, 1, 2);
    float value = data.x[0];
    train_dataset_destroy(&data);
    return value;
}

static void decimals_are_read_as_in_c(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0.0",
                                        "1",
                                        "0.1",
                                        "3.14159265",
                                        "16777217",
                                        "1e-45",
                                        "1.17549e-38",
                                        "3.4028234e38",
                                        "1e-400",
                                        "1E+10",
                                        "00000000000000000000000000000001.5",
                                        "0.000001",
                                        "123456789012345678901234567890",
                                        "0.12345678901234567890123456789",
                                        "1e-99999999999999",
                                        "0e99999",
                                        "0.00000000000000000000000000000000000000000000000000001e60"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float expected = strtof(texts[i], NULL), found = value_of(texts[i]);
        if (fabsf(found - expected) > fabsf(expected) * FLT_EPSILON)
            fail_msg("%s became %.9g, expected %.9g", texts[i], (double)found, (double)expected);
    }
    for (int i = 0; i < 2000; i++) { // a float printed with %.9g is read back as the same float
        char text[32];
        float expected = ldexpf((float)((uint32_t)i * 2654435761u % 16777216u), i % 200 - 120);
        snprintf(text, sizeof text, "%.9g", (double)expected);
        assert_true(value_of(text) == expected);
    }
}

static void files_are_read(void **state)
{
    (void)state;
    char directory[] = "/tmp/p2pml-libsvm-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/rows", directory);
    struct train_dataset data = {0};
    struct base_reason why = {""};
    assert_int_equal(train_dataset_load_libsvm(
                         path, &(struct train_libsvm_options){.features = 4, .classes = 2}, &data, &why),
                     BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, path));
    assert_int_equal(train_dataset_load_libsvm(
                         directory, &(struct train_libsvm_options){.features = 4, .classes = 2}, &data, &why),
                     BASE_EIO);
    assert_non_null(strstr(why.text, directory));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("1 1:2\n0 9:1\n", file);
    fclose(file);
    assert_int_equal(train_dataset_load_libsvm(
                         path, &(struct train_libsvm_options){.features = 4, .classes = 2}, &data, &why),
                     BASE_ELIMIT);
    assert_non_null(strstr(why.text, "rows:2: index 9"));
    assert_null(data.x);
    assert_int_equal(
        train_dataset_load_libsvm(
            path, &(struct train_libsvm_options){.features = 9, .classes = 2, .first = 1}, &data, &why),
        BASE_OK);
    assert_true(data.x[8] == 1);
    train_dataset_destroy(&data);
    unlink(path);
    rmdir(directory);
}

static void a9a_is_read(void **state)
{
    (void)state;
    const char *directory = data_sets_directory();
    if (!directory) {
        print_message("no data sets: neither P2PML_DATA nor ../shared/data\n");
        skip();
    }
    char path[512];
    snprintf(path, sizeof path, "%s/a9a", directory);
    struct train_dataset data;
    struct base_reason why = {""};
    if (train_dataset_load_libsvm(path, &(struct train_libsvm_options){.features = 123, .classes = 2}, &data,
                                  &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.examples, 32561);
    assert_int_equal(data.features, 123);
    size_t negative = 0, ones = 0;
    for (size_t i = 0; i < data.examples; i++)
        negative += data.labels[i] == 0;
    assert_int_equal(negative, 24720);
    for (size_t i = 0; i < data.examples * data.features; i++)
        ones += data.x[i] == 1;
    assert_int_equal(ones, 451592);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read),
        cmocka_unit_test(a_range_of_rows_is_read),
        cmocka_unit_test(labels_are_numbered_from_zero),
        cmocka_unit_test(labels_are_part_of_the_meaning),
        cmocka_unit_test(comments_are_not_read),
        cmocka_unit_test(wrong_labels_are_refused),
        cmocka_unit_test(wrong_indices_are_refused),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(empty_and_endless_lines_are_refused),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(decimals_are_read_as_in_c),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(a9a_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
