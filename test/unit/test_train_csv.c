// Tables: what a CSV file becomes, and everything that can be wrong with it.
#include "train/loaders.h"
#include "train/scale.h"
#include "train/table.h"
#include "train/unpack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static enum base_error parse_bytes(const void *text, size_t bytes, const struct train_table_options *options,
                                   struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes file = {"t.csv", text, bytes}, plain;
    uint8_t *owned = NULL;
    enum base_error error = train_unpack_gzip(&file, &plain, &owned, why);
    if (!error)
        error = train_csv_parse(&plain, options, data, why);
    free(owned);
    return error;
}

static struct train_dataset parse(const char *text, const struct train_table_options *options)
{
    struct train_dataset data = {0};
    struct base_reason why = {""};
    if (parse_bytes(text, strlen(text), options, &data, &why))
        fail_msg("%s", why.text);
    return data;
}

static void assert_row(const struct train_dataset *data, size_t row, const float *expected)
{
    for (size_t i = 0; i < data->features; i++)
        if (data->x[row * data->features + i] != expected[i])
            fail_msg("row %zu, feature %zu is %g, expected %g", row, i,
                     (double)data->x[row * data->features + i], (double)expected[i]);
}

static const struct train_table_options classes = {.delimiter = ','};

static void a_header_numbers_and_words_become_features(void **state)
{
    (void)state;
    struct train_dataset data =
        parse("\xef\xbb\xbf"
              "age, colour ,\"kind \"\"x\"\"\"\r\n1.5,red,b\r\n-2e1,\"blue\",a\n3,red,b",
              &classes);
    assert_int_equal(data.examples, 3);
    assert_int_equal(data.features, 3);
    assert_int_equal(data.classes, 2);
    assert_row(&data, 0, (const float[]){1.5f, 0, 1});
    assert_row(&data, 1, (const float[]){-20, 1, 0});
    assert_memory_equal(data.labels, ((const uint32_t[]){1, 0, 1}), 12);
    assert_string_equal(data.meaning->columns[1].name, "colour");
    assert_string_equal(data.meaning->columns[1].categories.items[0], "blue");
    assert_string_equal(data.meaning->classes.items[1], "b");
    char name[32];
    train_meaning_feature(data.meaning, 2, name, sizeof name);
    assert_string_equal(name, "colour=red");
    train_dataset_destroy(&data);
}

// Whatever the order of the rows; words that are numbers are ordered by value.
static void categories_are_ordered_by_their_words(void **state)
{
    (void)state;
    struct train_names code = {(char *[]){"code"}, 1};
    struct train_table_options options = {.delimiter = ';', .categorical = code};
    struct train_dataset a = parse("code;y\n10;1\n9;0\nx;1\n", &options),
                         b = parse("code;y\nx;1\n10;1\n9;0\n", &options);
    assert_int_equal(a.features, 3);
    assert_string_equal(a.meaning->columns[0].categories.items[0], "9");
    assert_string_equal(a.meaning->columns[0].categories.items[1], "10");
    assert_string_equal(a.meaning->columns[0].categories.items[2], "x");
    assert_true(train_meaning_digest(a.meaning) == train_meaning_digest(b.meaning));
    assert_row(&a, 0, (const float[]){0, 1, 0});
    train_dataset_destroy(&a);
    a = parse("code;y\n10;1\n9;0\nz;1\n", &options);
    assert_true(train_meaning_digest(a.meaning) != train_meaning_digest(b.meaning));
    train_dataset_destroy(&a);
    train_dataset_destroy(&b);
}

static void a_regression_may_have_several_targets(void **state)
{
    (void)state;
    struct train_names target = {(char *[]){"w", "1"}, 2}, ignore = {(char *[]){"id"}, 1};
    struct train_table_options options = {
        .delimiter = '\t', .target = target, .ignore = ignore, .regression = true};
    struct train_dataset data = parse("h\tw\tid\tx\n1\t2\tn/a\t3\n4\t5\t\t6\n", &options);
    assert_int_equal(data.features, 1);
    assert_int_equal(data.outputs, 2);
    assert_null(data.labels);
    assert_memory_equal(data.targets, ((const float[]){1, 2, 4, 5}), 16);
    assert_string_equal(data.meaning->targets.items[0], "h");
    const uint32_t rows[] = {1};
    struct train_dataset part = {0};
    assert_int_equal(train_dataset_subset(&data, rows, 1, &part), BASE_OK);
    assert_true(part.targets[0] == 4 && part.targets[1] == 5 && part.meaning == data.meaning);
    train_dataset_destroy(&data);
    train_dataset_destroy(&part);
}

static void a_table_may_have_no_header_and_quoted_fields(void **state)
{
    (void)state;
    struct train_dataset data = parse("1,\"a\nb\",0\n2,\"c,d\",1\n", &classes);
    assert_int_equal(data.examples, 2);
    assert_int_equal(data.features, 3);
    assert_string_equal(data.meaning->columns[0].name, "1");
    assert_string_equal(data.meaning->columns[1].categories.items[0], "a\nb");
    train_dataset_destroy(&data);
}

static void a_test_file_is_read_like_the_training_file(void **state)
{
    (void)state;
    struct train_dataset train = parse("a,c,y\n1,u,no\n2,v,yes\n", &classes);
    struct train_table_options options = classes;
    options.like = train.meaning;
    struct train_names target = {(char *[]){"y"}, 1};
    options.target = target;
    struct train_dataset test = parse("y,c,a\nyes,u,7\n", &options);
    assert_int_equal(test.examples, 1);
    assert_row(&test, 0, (const float[]){7, 1, 0});
    assert_int_equal(test.labels[0], 1);
    assert_int_equal(test.classes, 2);
    train_dataset_destroy(&test);
    train_dataset_destroy(&train);
}

// A file without a header has columns that are called 1 and 2, and a first example that may be 1 and 2.
static void a_first_example_that_holds_names_of_columns_is_an_example(void **state)
{
    (void)state;
    struct train_table_options options = classes;
    struct train_dataset train = parse("1,0\n3,1\n", &options);
    options.like = train.meaning;
    struct train_dataset test = parse("1,1\n3,1\n2,0\n", &options);
    assert_int_equal(test.examples, 3);
    train_dataset_destroy(&test);
    test = parse("2,1\n3,0\n", &options);
    assert_int_equal(test.examples, 2);
    train_dataset_destroy(&test);
    train_dataset_destroy(&train);
    options.like = NULL;
    train = parse("b,a\n4,a\n5,b\n", &options);
    options.like = train.meaning;
    test = parse("a,b\nb,4\n", &options);
    assert_int_equal(test.examples, 1);
    train_dataset_destroy(&test);
    train_dataset_destroy(&train);
}

static void gzip_is_unpacked(void **state)
{
    (void)state;
    static const char text[] = "a,y\n1,0\n2,1\n";
    uint8_t packed[128];
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = sizeof text - 1;
    z.next_out = packed;
    z.avail_out = sizeof packed;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t bytes = z.total_out;
    deflateEnd(&z);
    struct train_dataset data = {0};
    struct base_reason why = {""};
    assert_int_equal(parse_bytes(packed, bytes, &classes, &data, &why), BASE_OK);
    assert_int_equal(data.examples, 2);
    train_dataset_destroy(&data);
    assert_int_equal(parse_bytes(packed, bytes - 9, &classes, &data, &why), BASE_EFORMAT);
    assert_string_equal(why.text, "t.csv: the packed data end early, the file is truncated");
}

static void mistakes_are_named_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "t.csv: the file is empty, expected lines of columns"},
        {"a,b\n", "t.csv: a header without rows below it"},
        {"a,b\n1,0\n2\n", "t.csv:3: found 1 columns, expected 2 as in the first line"},
        {"a,b\n1,0\n\n2,1\n", "t.csv:3: found an empty line, expected 2 columns"},
        {"a,b\n1,0\n,1\n", "t.csv:3: column 1 (a): found \"\", a missing value, expected a value; fill it in "
                           "or leave the line out"},
        {"a,b\n1,0\n2,NaN\n", "t.csv:3: column 2 (b): found \"NaN\", a missing value, expected a value; fill "
                              "it in or leave the line out"},
        {"a,b\n1,0\n1o,1\n",
         "t.csv:3: column 1 (a): found \"1o\", expected a number such as \"1\" in line 2; name the "
         "column in data.categorical if it is a category; write the numbers without their unit"},
        {"a,b\nred,0\n7,1\n",
         "t.csv:3: column 1 (a): found the number \"7\", expected a word such as \"red\" in line 2; "
         "name the column in data.categorical if it is a category"},
        {"1,0\n1e99,1\n", "t.csv:2: column 1: found \"1e99\", which is too large for a 32-bit float"},
        {"a,b\n1,0\n2,0\n",
         "t.csv: data.target: found the class \"0\" in all 2 rows, expected at least 2 classes"},
        {"a,b\n\"1,0\n2,1\n", "t.csv:2: column 1: the quote is never closed"},
        {"a,b\n\"1\"x,0\n",
         "t.csv:2: column 1: text after the closing quote; a quote inside a field is written twice"},
        {"a,b\n1\",0\n",
         "t.csv:2: column 1: a quote inside a field that does not begin with one; put the field in quotes "
         "and write this quote twice"},
        {"a;b\n1;0\n",
         "t.csv: found 1 columns, expected at least one besides the target; is data.delimiter right?"},
        {"a,a,b\n1,2,0\n", "t.csv:1: columns 1 and 2 have the same name, \"a\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct train_dataset data = {.examples = 77};
        struct base_reason why = {""};
        assert_int_not_equal(parse_bytes(wrong[i].text, strlen(wrong[i].text), &classes, &data, &why),
                             BASE_OK);
        assert_string_equal(why.text, wrong[i].message);
        assert_int_equal(data.examples, 77);
    }
}

static void scaling_statistics_follow_their_definitions(void **state)
{
    (void)state;
    struct train_table_options options = {.delimiter = ',', .regression = true};
    struct train_dataset data = parse("a,b,c,y\n1,5,u,10\n3,5,v,30\n", &options);
    struct base_reason why;
    assert_int_equal(train_scale_measure(&data, TRAIN_SCALE_STANDARD, &why), BASE_OK);
    train_scale_apply(&data);
    assert_row(&data, 0, (const float[]){-1, 0, 1, 0});
    assert_row(&data, 1, (const float[]){1, 0, 0, 1});
    assert_true(data.targets[0] == -1 && data.targets[1] == 1);
    assert_true(data.meaning->target_shift[0] == 20 && data.meaning->target_factor[0] == 0.1f);
    train_dataset_destroy(&data);
    data = parse("a,b,c,y\n1,5,u,10\n3,5,v,30\n", &options);
    const uint64_t before = train_meaning_digest(data.meaning);
    assert_int_equal(train_scale_measure(&data, TRAIN_SCALE_MINMAX, &why), BASE_OK);
    train_scale_apply(&data);
    assert_row(&data, 1, (const float[]){1, 0, 0, 1});
    assert_true(before != train_meaning_digest(data.meaning));
    train_dataset_destroy(&data);
}

// Seconds since 1970 differ by less than a 32-bit float can tell.
static void large_numbers_keep_their_differences(void **state)
{
    (void)state;
    struct train_table_options options = {.delimiter = ',', .regression = true};
    char text[4096] = "t,y\n";
    struct base_reason why = {""};
    for (int i = 0; i < 100; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "17000000%02d.5,%d\n", i, 2000000000 + i);
    }
    struct train_dataset data = parse(text, &options);
    size_t different = 0, left = 0;
    assert_int_equal(train_scale_collapsed(&data, &different, &left), 0);
    assert_int_equal(different, 100);
    assert_true(left < 4);
    assert_int_equal(train_scale_measure(&data, TRAIN_SCALE_MINMAX, &why), BASE_OK);
    assert_true(train_scale_needs_double(data.meaning));
    train_scale_apply(&data);
    for (int i = 0; i < 100; i++) {
        assert_true(fabs((double)data.x[i] - i / 99.0) < 1e-6);
        assert_true(fabs((double)data.targets[i] - i / 99.0) < 1e-6);
    }
    // predict scales rows as training does, and answers in the units of the file.
    float x, half = 0.5f;
    double answer;
    train_scale_rows(data.meaning, (const double[]){1700000050.5}, 1, 1, &x);
    assert_true(x == data.x[50]);
    train_scale_targets_back(data.meaning, &half, 1, 1, &answer);
    assert_true(fabs(answer - 2000000049.5) < 1e-3);
    train_scale_undo(&data);
    train_scale_apply(&data);
    assert_true(fabs((double)data.x[33] - 33 / 99.0) < 1e-6);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_numbers_and_words_become_features),
        cmocka_unit_test(categories_are_ordered_by_their_words),
        cmocka_unit_test(a_regression_may_have_several_targets),
        cmocka_unit_test(a_table_may_have_no_header_and_quoted_fields),
        cmocka_unit_test(a_test_file_is_read_like_the_training_file),
        cmocka_unit_test(a_first_example_that_holds_names_of_columns_is_an_example),
        cmocka_unit_test(gzip_is_unpacked),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(scaling_statistics_follow_their_definitions),
        cmocka_unit_test(large_numbers_keep_their_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
