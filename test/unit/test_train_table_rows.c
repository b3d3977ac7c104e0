// Rows of a table for an existing model: which column is which, with and without a header, and everything
// that may not match.
#include "train/loaders.h"
#include "train/table.h"
#include "train/table_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *names[] = {"id"};

static struct train_meaning *mean(const char *text, bool ignores)
{
    const struct train_table_options options = {.delimiter = ',',
                                                .ignore = {ignores ? names : NULL, ignores ? 1 : 0}};
    const struct train_bytes bytes = {"train.csv", (const uint8_t *)text, strlen(text)};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    if (train_csv_parse(&bytes, &options, &data, &why))
        fail_msg("%s", why.text);
    struct train_meaning *meaning = train_meaning_share(data.meaning);
    train_dataset_destroy(&data);
    return meaning;
}

// Column `colour` is two features.
static const char trained[] = "id,age,colour,y\n7,30,red,no\n8,40,blue,yes\n",
                  headless[] = "30,red,no\n40,blue,yes\n";

// Everything that is read, row after row; the reason of an error in why.
static enum base_error read_rows(const struct train_meaning *meaning, const char *text, double *x,
                                 size_t *rows, struct base_reason *why)
{
    struct train_table_rows *reader = NULL;
    enum base_error error = train_table_rows_open("in.csv", text, strlen(text), meaning, &reader, why);
    bool more = true;
    *rows = 0;
    while (!error && more) {
        error = train_table_rows_next(reader, x + *rows * meaning->features, &more, why);
        *rows += !error && more;
    }
    train_table_rows_close(reader);
    return error;
}

static void check_rows(const char *from, bool ignores, const char *const *texts, size_t count)
{
    static const double expected[] = {30, 0, 1, 40, 1, 0};
    struct train_meaning *meaning = mean(from, ignores);
    for (size_t i = 0; i < count; i++) {
        double x[12];
        size_t rows;
        struct base_reason why = {""};
        if (read_rows(meaning, texts[i], x, &rows, &why))
            fail_msg("%zu: %s", i, why.text);
        assert_int_equal(rows, 2);
        assert_memory_equal(x, expected, sizeof expected);
    }
    train_meaning_release(meaning);
}

static void columns_are_found_by_name_or_place(void **state)
{
    (void)state;
    static const char *const named[] = {
        trained,
        "id,age,colour\n7,30,red\n8,40,blue\n",      // without the target
        "colour,age\nred,30\nblue,40\n",             // in another order, without the ignored column
        "y,colour,age\n?,red,30\nperhaps,blue,40\n", // the target may be anything
        "age,size,colour\n30,2,red\n40,?,blue\n",    // a column that is not known is not read
        "7,30,red,no\n8,40,blue,yes\n",              // by place
        "7,30,red\n8,40,blue",                       // the same without the target
        "30,red\n40,blue\n",                         // the features alone
        "\xef\xbb\xbf"
        "id,age,colour,y\r\n7,30,\"red\",no\r\n8,40,blue,yes\r\n"};
    static const char *const placed[] = {headless, "30,red\n40,blue\n", "age,colour\n30,red\n40,blue\n",
                                         "age,colour,y\n30,red,no\n40,blue,yes\n"};
    check_rows(trained, true, named, sizeof named / sizeof *named);
    check_rows(headless, false, placed, sizeof placed / sizeof *placed);
}

// pandas names columns 0, 1, ...: a row that merely contains such a number is no header.
static void numbers_are_a_header_only_all_together(void **state)
{
    (void)state;
    const struct train_table_options options = {.delimiter = ',', .header = TRAIN_HEADER_YES};
    const char *text = "0,1,2\n5,0,a\n6,1,b\n";
    const struct train_bytes bytes = {"train.csv", (const uint8_t *)text, strlen(text)};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    double x[8];
    size_t rows;
    assert_int_equal(train_csv_parse(&bytes, &options, &data, &why), BASE_OK);
    assert_int_equal(read_rows(data.meaning, text, x, &rows, &why), BASE_OK);
    assert_int_equal(rows, 2);
    assert_int_equal(read_rows(data.meaning, "5,0\n6,1\n1,1\n", x, &rows, &why), BASE_OK);
    assert_int_equal(rows, 3);
    assert_true(x[0] == 5 && x[5] == 1);
    train_dataset_destroy(&data);
}

static void rows_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
        enum base_error error;
    } bads[] = {
        {"id,colour,y\n7,red,no\n", "in.csv:1: found no column \"age\" among 3 (the first is \"id\")",
         BASE_EMISMATCH},
        {"id,Age,colour,y\n7,30,red,no\n", "found no column \"age\"", BASE_EMISMATCH},
        {"a,b\n30,red\n", "found no column \"age\"", BASE_EMISMATCH},
        {"age;colour\n30;red\n", "is the delimiter right?", BASE_EMISMATCH},
        {"age,colour,age\n30,red,2\n", "in.csv:1: columns 1 and 3 have the same name, \"age\"",
         BASE_EMISMATCH},
        {"30\n", "in.csv:1: found 1 columns, expected 3", BASE_EMISMATCH},
        {"1,2,3,4,5\n", "found 5 columns, expected 3", BASE_EMISMATCH},
        {"age,colour\n30,red\n40,green\n", "in.csv:3: column 2 (colour): found \"green\", expected one of",
         BASE_EMISMATCH},
        {"age,colour\nold,red\n", "in.csv:2: column 1 (age): found \"old\", expected a finite decimal number",
         BASE_EFORMAT},
        {"age,colour\n,red\n", "in.csv:2: column 1 (age): found \"\", a missing value", BASE_EFORMAT},
        {"age,colour\n30,red\n40\n", "in.csv:3: found 1 columns, expected 2", BASE_EFORMAT},
    };
    struct train_meaning *meaning = mean(trained, true);
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        double x[12];
        size_t rows;
        struct base_reason why = {""};
        const enum base_error error = read_rows(meaning, bads[i].text, x, &rows, &why);
        if (error != bads[i].error || !strstr(why.text, bads[i].reason))
            fail_msg("%zu: '%s', expected '%s'", i, why.text, bads[i].reason);
    }
    double x[12];
    size_t rows;
    assert_int_equal(read_rows(meaning, "", x, &rows, NULL), BASE_OK);
    assert_int_equal(rows, 0);
    assert_int_equal(read_rows(meaning, "age,colour\n", x, &rows, NULL), BASE_OK);
    assert_int_equal(rows, 0);
    train_meaning_release(meaning);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_by_name_or_place),
        cmocka_unit_test(numbers_are_a_header_only_all_together),
        cmocka_unit_test(rows_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
