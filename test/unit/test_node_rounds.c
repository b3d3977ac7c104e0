// The latest lines of metrics.jsonl in memory: which rounds can be told, the lines around one, both bounds.
#include "node/store/rounds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int begin(void **state)
{
    *state = node_rounds_create();
    return *state ? 0 : -1;
}

static int end(void **state)
{
    node_rounds_destroy(*state);
    return 0;
}

static void put(struct node_rounds *rounds, unsigned round, double unix_s)
{
    char line[32];
    snprintf(line, sizeof line, "{\"round\":%u}", round);
    node_rounds_put(rounds, round, unix_s, line);
}

static void expect_rows(struct node_rounds *rounds, uint64_t round, const char *rows)
{
    struct node_rounds_part part = node_rounds_about(rounds, round);
    assert_non_null(part.rows);
    assert_string_equal(part.rows, rows);
    free(part.rows);
}

static void expect_span(struct node_rounds *rounds, uint64_t first, uint64_t last)
{
    struct node_rounds_part part = node_rounds_about(rounds, 0);
    assert_int_equal(part.first, first);
    assert_int_equal(part.last, last);
    free(part.rows);
}

static void a_round_stands_between_its_neighbours(void **state)
{
    struct node_rounds *rounds = *state;
    expect_rows(rounds, 0, "[]");
    expect_span(rounds, 0, 0);
    put(rounds, 1, 10);
    put(rounds, 2, 20);
    put(rounds, 7, 70); // 3 to 6 were skipped
    put(rounds, 7, 71); // the last line of a process
    expect_span(rounds, 1, 7);
    expect_rows(rounds, 1, "[{\"round\":1},{\"round\":2}]");
    expect_rows(rounds, 2, "[{\"round\":1},{\"round\":2},{\"round\":7}]");
    expect_rows(rounds, 7, "[{\"round\":2},{\"round\":7},{\"round\":7}]");
    expect_rows(rounds, 0, "[{\"round\":2},{\"round\":7},{\"round\":7}]");
    expect_rows(rounds, 4, "[]");
    expect_rows(rounds, UINT64_MAX, "[]");
}

static void times_are_those_of_the_neighbours(void **state)
{
    struct node_rounds *rounds = *state;
    put(rounds, 1, 10);
    put(rounds, 2, 20);
    put(rounds, 3, 30);
    struct node_rounds_part part = node_rounds_about(rounds, 2);
    assert_true(part.after >= 10 && part.after <= 10 && part.until >= 30 && part.until <= 30);
    free(part.rows);
    part = node_rounds_about(rounds, 1);
    assert_true(isinf(part.after) && part.after < 0);
    free(part.rows);
    part = node_rounds_about(rounds, 3);
    assert_true(isinf(part.until) && part.until > 0);
    free(part.rows);
}

static void a_clock_that_is_set_back_is_told(void **state)
{
    struct node_rounds *rounds = *state;
    struct node_rounds_part part;
    const double times[] = {10, 20, 5, 6, 30}, told[] = {0, 0, 15, 15, 15};
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        put(rounds, i + 1, times[i]);
        part = node_rounds_about(rounds, 0);
        assert_float_equal(part.set_back_s, told[i], 1e-9);
        free(part.rows);
    }
}

static void so_many_rounds_can_be_told(void **state)
{
    struct node_rounds *rounds = *state;
    char rows[100];
    for (unsigned round = 1; round <= 3 * NODE_ROUNDS_KEPT; round++)
        put(rounds, round, round);
    put(rounds, 3 * NODE_ROUNDS_KEPT, 1e6); // the last line of a process
    expect_span(rounds, 2 * NODE_ROUNDS_KEPT + 1, 3 * NODE_ROUNDS_KEPT);
    snprintf(rows, sizeof rows, "[{\"round\":%u},{\"round\":%u},{\"round\":%u}]", 2 * NODE_ROUNDS_KEPT,
             2 * NODE_ROUNDS_KEPT + 1, 2 * NODE_ROUNDS_KEPT + 2);
    expect_rows(rounds, 2 * NODE_ROUNDS_KEPT + 1, rows); // with the line before it
    expect_rows(rounds, 2 * NODE_ROUNDS_KEPT, "[]");
}

static void bytes_are_counted(void **state)
{
    struct node_rounds *rounds = *state;
    char *line = malloc(NODE_ROUNDS_BYTES + 2);
    assert_non_null(line);
    memset(line, '1', NODE_ROUNDS_BYTES + 1);
    line[NODE_ROUNDS_BYTES + 1] = 0;
    put(rounds, 1, 10);
    node_rounds_put(rounds, 2, 20, line); // more than there is room for
    expect_span(rounds, 1, 1);
    line[NODE_ROUNDS_BYTES / 4] = 0;
    for (unsigned round = 3; round <= 9; round++)
        node_rounds_put(rounds, round, round, line);
    expect_span(rounds, 7, 9); // of 6 to 9, as 6 has no line before it
    line[NODE_ROUNDS_BYTES / 4] = '1';
    line[NODE_ROUNDS_BYTES] = 0;
    node_rounds_put(rounds, 10, 100, line); // all of the room: nothing beside it
    expect_span(rounds, 0, 0);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_round_stands_between_its_neighbours, begin, end),
        cmocka_unit_test_setup_teardown(times_are_those_of_the_neighbours, begin, end),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set_back_is_told, begin, end),
        cmocka_unit_test_setup_teardown(so_many_rounds_can_be_told, begin, end),
        cmocka_unit_test_setup_teardown(bytes_are_counted, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
