// Which examples are held out: each stays on its side, whatever happens to the others.
#include "train/loaders.h"
#include "train/split.h"
#include "train/table.h"
#include "train/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 400u

static char text[ROWS * 64];

// Rows first .. first+count-1 of one table; `extra` is added to the end.
static struct train_dataset table(size_t first, size_t count, const char *extra)
{
    static const struct train_table_options options = {.delimiter = ','};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    size_t used = (size_t)snprintf(text, sizeof text, "a,c,y\n");
    for (size_t i = first; i < first + count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%zu.25,%s,%s\n", i * i % 997,
                                 i % 3 ? "red" : "blue", i % 2 ? "no" : "yes");
    snprintf(text + used, sizeof text - used, "%s", extra);
    const struct train_bytes bytes = {"t.csv", (const uint8_t *)text, strlen(text)};
    if (train_csv_parse(&bytes, &options, &data, &why))
        fail_msg("%s", why.text);
    return data;
}

static struct train_split draw(const struct train_dataset *data, double part, uint64_t seed, bool *is_test)
{
    struct train_split split = {0};
    struct base_reason why = {""};
    if (train_split_draw(data, part, seed, is_test, &split, &why))
        fail_msg("%s", why.text);
    return split;
}

// One row more, with a category and a class that no other row has, so that all places of features move.
static void one_more_row_moves_no_other(void **state)
{
    (void)state;
    bool before[ROWS], after[ROWS + 1], later[ROWS];
    struct train_dataset data = table(0, ROWS, ""), more = table(0, ROWS, "5,azure,maybe\n"),
                         part = table(100, 300, "");
    const struct train_split a = draw(&data, 0.2, 1, before), b = draw(&more, 0.2, 1, after);
    assert_memory_equal(before, after, sizeof before);
    assert_in_range(a.tests, 55, 105); // 80 and three deviations
    assert_true(a.digest != b.digest && b.examples == ROWS + 1);
    (void)draw(&part, 0.2, 1, later); // the first hundred rows are gone
    assert_memory_equal(before + 100, later, 300 * sizeof *later);
    train_dataset_destroy(&data);
    train_dataset_destroy(&more);
    train_dataset_destroy(&part);
}

static void the_same_file_has_the_same_digest(void **state)
{
    (void)state;
    bool first[ROWS], second[ROWS];
    struct train_dataset data = table(0, ROWS, "");
    const struct train_split a = draw(&data, 0.2, 1, first), b = draw(&data, 0.2, 1, second),
                             c = draw(&data, 0.2, 2, second);
    assert_true(a.digest == b.digest && a.tests_digest == b.tests_digest && a.tests == b.tests);
    assert_true(a.tests_digest != c.tests_digest);
    assert_memory_not_equal(first, second, sizeof first);
    data.labels[7] ^= 1; // another answer makes another file, but moves no example
    const struct train_split d = draw(&data, 0.2, 1, second);
    assert_true(a.digest != d.digest);
    assert_memory_equal(first, second, sizeof first);
    train_dataset_destroy(&data);
}

static void some_are_held_out_and_some_are_not(void **state)
{
    (void)state;
    bool is_test[4];
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct train_dataset data = table(0, 4, "");
        const struct train_split low = draw(&data, 0.001, seed, is_test),
                                 high = draw(&data, 0.9, seed, is_test);
        assert_true(low.tests >= 1 && high.tests >= 1 && high.tests <= 3);
        train_dataset_destroy(&data);
    }
}

// A table of few different rows is divided, too.
static void equal_rows_draw_separately(void **state)
{
    (void)state;
    bool is_test[ROWS + 3];
    char rows[ROWS * 8] = "";
    for (size_t i = 0; i < ROWS; i++)
        strcat(rows, "1,x,no\n");
    struct train_dataset data = table(0, 2, rows);
    const struct train_split split = draw(&data, 0.2, 1, is_test);
    assert_in_range(split.tests, 55, 105);
    assert_in_range(split.seen, split.tests - 2, split.tests); // two rows are others
    train_dataset_destroy(&data);
}

// Copies of rows: those that are held out and have a copy on the other side are counted.
static void what_the_training_has_seen_is_counted(void **state)
{
    (void)state;
    static bool is_test[2 * ROWS];
    static char copies[ROWS * 32];
    struct train_dataset one = table(0, ROWS / 2, "");
    const struct train_split once = draw(&one, 0.5, 1, is_test);
    size_t used = 0, both = 0;
    for (size_t i = 0; i < ROWS / 2; i++)
        used += (size_t)snprintf(copies + used, sizeof copies - used, "%zu.25,%s,%s\n", i * i % 997,
                                 i % 3 ? "red" : "blue", i % 2 ? "no" : "yes");
    struct train_dataset data = table(0, ROWS / 2, copies);
    const struct train_split split = draw(&data, 0.5, 1, is_test);
    for (size_t i = 0; i < ROWS / 2; i++)
        both += is_test[i] != is_test[i + ROWS / 2];
    assert_int_equal(once.seen, 0);
    assert_true(both > ROWS / 8);
    assert_int_equal(split.seen, both);
    train_dataset_destroy(&one);
    train_dataset_destroy(&data);
}

static void a_text_is_held_out_at_its_end(void **state)
{
    (void)state;
    static const struct train_text_options options = {.text = TRAIN_TEXT_BYTES, .context = 4};
    static const char words[] = "the cat sat on the mat and saw the hat of the cat that sat";
    const struct train_bytes bytes = {"text", (const uint8_t *)words, sizeof words - 1};
    struct train_dataset data = {0};
    struct base_reason why = {""};
    bool is_test[32];
    assert_int_equal(train_text_parse(&bytes, &options, &data, &why), BASE_OK);
    const struct train_split split = draw(&data, 0.25, 1, is_test);
    for (size_t i = 0; i < data.examples; i++)
        assert_int_equal(is_test[i], i >= data.examples - split.tests);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_row_moves_no_other),
        cmocka_unit_test(the_same_file_has_the_same_digest),
        cmocka_unit_test(some_are_held_out_and_some_are_not),
        cmocka_unit_test(equal_rows_draw_separately),
        cmocka_unit_test(what_the_training_has_seen_is_counted),
        cmocka_unit_test(a_text_is_held_out_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
