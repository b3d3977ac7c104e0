// The table of p2pml top from /status: the nodes that are found, their identities, their order, and rows that
// fit.
#include "lab/top/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID(x) x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x
#define A     ID("0a")
#define B     ID("0b")
#define C     ID("0c")

#define MEMBER(id, name, state, self, http)                                                                  \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"state\":\"" state "\",\"self\":" self ",\"http\":" http      \
    ",\"step\":40,\"steps_per_s\":4.5}"

static const char of_a[] =
    "{\"id\":\"" A "\",\"name\":\"ada\",\"cluster\":\"herd\",\"condition\":\"fine\",\"state\":\"training\","
    "\"step\":50,\"steps\":200,\"round\":12,\"steps_per_s\":10.25,\"loss\":0.5,\"accuracy\":0.875,\"sent_per_"
    "s\":"
    "123456,\"received_per_s\":null,\"neighbours\":2,\"neighbours_linked\":1,\"members\":[" MEMBER(
        A, "ada", "alive", "true",
        "\"127.0.0.1:7480\"") "," MEMBER(B, "bob", "alive", "false",
                                         "\"127.0.0.1:7481\"") "," MEMBER(C, "cyd", "dead", "false",
                                                                          "null") "]}";
static const char of_b[] =
    "{\"id\":\"" B "\",\"name\":\"bob\",\"cluster\":\"herd\",\"condition\":\"alone\",\"state\":\"training\","
    "\"step\":90,\"steps\":200,\"round\":22,\"steps_per_s\":2.5,\"loss\":null,\"accuracy\":null,\"sent_per_"
    "s\":5,"
    "\"received_per_s\":1e9,\"neighbours\":2,\"neighbours_linked\":0,\"members\":[" MEMBER(
        B, "bob", "alive", "true", "\"127.0.0.1:7481\"") "]}";

#define SEEN(id, name, path)                                                                                 \
    "{\"id\":\"" id "\",\"name\":\"" name                                                                    \
    "\",\"state\":\"alive\",\"self\":false,\"http\":\"127.0.0.1:7480\"," path "}"

// Their pages are on loopback, each on its own host.
static void members_elsewhere_have_a_path_and_no_page(void **state)
{
    (void)state;
    static const char text[] = "{\"id\":\"" A "\",\"name\":\"ada\",\"members\":[" SEEN(
        B, "bob", "\"path\":\"relayed\",\"via\":\"cyd\"") "," SEEN(C, "cyd",
                                                                   "\"path\":\"direct\",\"via\":null") "]}";
    struct lab_top_table table = {0};
    assert_int_equal(lab_top_add(&table, "127.0.0.1:7480"), BASE_OK);
    assert_int_equal(lab_top_take(&table, 0, text, 5), BASE_OK);
    assert_int_equal(table.count, 3);
    assert_string_equal(table.nodes[0].path, "");
    assert_string_equal(table.nodes[1].path, "over cyd");
    assert_string_equal(table.nodes[2].path, "direct");
    assert_string_equal(table.nodes[1].address, ""); // asked there, ada would answer for ever
    assert_string_equal(table.nodes[2].address, "");
    lab_top_table_free(&table);
}

static void expect_order(const struct lab_top_table *table, enum lab_top_column sort, bool reverse,
                         const char *first, const char *second, const char *third)
{
    const struct lab_top_view view = {.sort = sort, .reverse = reverse};
    char *text = lab_top_text(table, &view);
    const char *rows = strchr(strchr(text, '\n') + 1, '\n');
    const char *a = strstr(rows, first), *b = strstr(rows, second), *c = strstr(rows, third);
    if (!a || !b || !c || a > b || b > c)
        fail_msg("column %d: expected %s, %s, %s in\n%s", (int)sort, first, second, third, text);
    free(text);
}

static struct lab_top_table found(void)
{
    struct lab_top_table table = {0};
    assert_int_equal(lab_top_add(&table, "localhost:7480"), BASE_OK);
    assert_int_equal(lab_top_take(&table, 0, of_a, 5), BASE_OK);
    return table;
}

static void one_node_leads_to_all_others(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    assert_int_equal(table.count, 3);
    assert_string_equal(table.cluster, "herd");
    assert_string_equal(table.nodes[0].address, "localhost:7480"); // it answered there
    assert_string_equal(table.nodes[1].address, "127.0.0.1:7481");
    assert_string_equal(table.nodes[2].address, "");
    assert_int_equal(lab_top_take(&table, 1, of_b, 6), BASE_OK);
    assert_int_equal(table.count, 3);
    lab_top_table_free(&table);
}

// Given by one address, known to others by another.
static void a_node_is_one_row(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    assert_int_equal(lab_top_add(&table, "b.example:7481"), BASE_OK);
    assert_int_equal(lab_top_take(&table, 3, of_b, 6), BASE_OK);
    assert_int_equal(table.count, 3);
    for (size_t i = 0, count = 0; i < 3; i++) {
        count += strcmp(table.nodes[i].id, B) == 0;
        assert_true(count <= 1);
    }
    lab_top_table_free(&table);
}

static void rows_show_the_state_of_each_node(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    const struct lab_top_view view = {0};
    char *text = lab_top_text(&table, &view);
    static const char *const parts[] = {"cluster herd: 1 of 3 nodes answer, mean accuracy 87.50%, 123 kB/s",
                                        "50  25.0%",
                                        "10.2",
                                        "0.5000",
                                        "87.50%",
                                        "123 kB/s",
                                        "1/2",
                                        "no answer",
                                        "dead"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is not in\n%s", parts[i], text);
    free(text);
    assert_int_equal(lab_top_take(&table, 1, of_b, 6), BASE_OK);
    text = lab_top_text(&table, &view);
    assert_non_null(strstr(text, "alone"));
    assert_non_null(strstr(text, "1.0 GB/s"));
    assert_null(strstr(text, "nan"));
    free(text);
    table.nodes[0].silent = true; // its last values stay, marked
    text = lab_top_text(&table, &view);
    assert_non_null(strstr(text, "1 of 3 nodes answer"));
    free(text);
    lab_top_table_free(&table);
}

static const char of_late[] =
    "{\"id\":\"" A "\",\"name\":\"ada\",\"cluster\":\"herd\",\"condition\":\"fine\",\"state\":\"training\","
    "\"adopted\":{\"text\":\"took the model of bob at round 40: this node was far behind\"},\"members\":["
    "{\"id\":\"" B "\",\"name\":\"bob\",\"state\":\"alive\",\"self\":false,\"http\":null,\"banned_s\":3.5},"
    "{\"id\":\"" C
    "\",\"name\":\"cyd\",\"state\":\"unproven\",\"self\":false,\"http\":null,\"banned_s\":null}]}";

static void whose_model_it_is_and_who_is_kept_out_is_told(void **state)
{
    (void)state;
    struct lab_top_table table = {0};
    const struct lab_top_view view = {0};
    assert_int_equal(lab_top_add(&table, "127.0.0.1:7480"), BASE_OK);
    assert_int_equal(lab_top_take(&table, 0, of_late, 5), BASE_OK);
    char *text = lab_top_text(&table, &view);
    static const char *const parts[] = {
        "bob      banned", "cyd      unproven",
        "\nada took the model of bob at round 40: this node was far behind\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is not in\n%s", parts[i], text);
    free(text);
    lab_top_table_free(&table);
}

static void rows_are_sorted(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    assert_int_equal(lab_top_take(&table, 1, of_b, 6), BASE_OK);
    expect_order(&table, LAB_TOP_NODE, false, "ada", "bob", "cyd");
    expect_order(&table, LAB_TOP_NODE, true, "cyd", "bob", "ada");
    expect_order(&table, LAB_TOP_STEP, false, "bob", "ada", "cyd");
    expect_order(&table, LAB_TOP_STEP, true, "cyd", "ada", "bob");
    expect_order(&table, LAB_TOP_LOSS, false, "ada", "bob", "cyd"); // unknown values come last
    expect_order(&table, LAB_TOP_LOSS, true, "ada", "bob", "cyd");
    lab_top_table_free(&table);
}

static void a_small_terminal_is_enough(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    for (size_t width = 1; width < 130; width += 8)
        for (size_t height = 1; height < 9; height++) {
            const struct lab_top_view view = {.width = width, .height = height};
            char *text = lab_top_text(&table, &view);
            size_t lines = 0;
            for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
                assert_true(strcspn(line, "\n") <= width);
                lines++;
            }
            assert_true(lines <= height);
            free(text);
        }
    lab_top_table_free(&table);
}

// Each line of the table starts as the line without a limit does, and ends where a column ends.
static void a_column_that_does_not_fit_is_left_out(void **state)
{
    (void)state;
    struct lab_top_table table = found();
    assert_int_equal(lab_top_take(&table, 1, of_b, 6), BASE_OK);
    const struct lab_top_view unlimited = {0};
    char *whole = lab_top_text(&table, &unlimited);
    for (size_t width = 8; width < 130; width++) {
        const struct lab_top_view view = {.width = width};
        char *text = lab_top_text(&table, &view);
        const char *line = strchr(text, '\n') + 1, *expected = strchr(whole, '\n') + 1;
        for (; *line; line = strchr(line, '\n') + 1, expected = strchr(expected, '\n') + 1) {
            size_t shown = strcspn(line, "\n");
            assert_memory_equal(line, expected, shown);
            assert_true(expected[shown] == ' ' || expected[shown] == '\n');
        }
        free(text);
    }
    free(whole);
    const struct lab_top_view usual = {.width = 80};
    char *text = lab_top_text(&table, &usual);
    assert_non_null(strstr(text, "RECEIVED"));
    free(text);
    lab_top_table_free(&table);
}

static void an_invalid_status_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "hello",
                                        "{}",
                                        "[]",
                                        "{\"id\":\"12\",\"members\":[]}",
                                        "{\"id\":\"" A "\",\"members\":3}",
                                        "{\"id\":\"" A "\",\"members\":[{\"id\":5}]}",
                                        "{\"id\":\"" A "\",\"members\":[7]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct lab_top_table table = {0};
        assert_int_equal(lab_top_add(&table, "localhost:7480"), BASE_OK);
        assert_int_equal(lab_top_take(&table, 0, texts[i], 1), BASE_EFORMAT);
        assert_int_equal(table.count, 1);
        lab_top_table_free(&table);
    }
}

static void names_cannot_move_the_cursor(void **state)
{
    (void)state;
    struct lab_top_table table = {0};
    const struct lab_top_view view = {0};
    assert_int_equal(lab_top_add(&table, "x:1"), BASE_OK);
    assert_int_equal(lab_top_take(&table, 0,
                                  "{\"id\":\"" A "\",\"name\":\"a\\u001b[2Jb\\n\",\"cluster\":\"c\\u0007\","
                                  "\"condition\":\"fine\",\"state\":\"training\",\"members\":[]}",
                                  1),
                     BASE_OK);
    char *text = lab_top_text(&table, &view);
    assert_null(strchr(text, 27));
    assert_null(strchr(text, 7));
    assert_non_null(strstr(text, "a?[2Jb?"));
    free(text);
    lab_top_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_elsewhere_have_a_path_and_no_page),
        cmocka_unit_test(one_node_leads_to_all_others),
        cmocka_unit_test(a_node_is_one_row),
        cmocka_unit_test(rows_show_the_state_of_each_node),
        cmocka_unit_test(whose_model_it_is_and_who_is_kept_out_is_told),
        cmocka_unit_test(rows_are_sorted),
        cmocka_unit_test(a_small_terminal_is_enough),
        cmocka_unit_test(a_column_that_does_not_fit_is_left_out),
        cmocka_unit_test(an_invalid_status_is_refused),
        cmocka_unit_test(names_cannot_move_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
