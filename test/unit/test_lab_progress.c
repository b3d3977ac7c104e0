// What a user sees during a run: lines of nodes, numbers, and the metrics of nodes that they come from.
#include "lab/record/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define GOOD                                                                                                                                       \
    "{\"time\":1.5,\"node\":\"node-00\",\"round\":12,\"step\":48,\"loss\":0.25,\"accuracy\":0.5,\"test_"                                           \
    "loss\":1.25,"                                                                                                                                 \
    "\"bytes_sent\":123456,\"bytes_received\":7,\"own_steps\":40,\"own_examples\":1280,\"exchanges\":11,\"consensus\":0.125,\"rate\":0.1,\"delta_" \
    "bytes\":9,"                                                                                                                                   \
    "\"dense_bytes\":1000,\"state\":\"training\"}"

static void numbers_are_formatted_for_users(void **state)
{
    (void)state;
    char text[LAB_NUMBER_BYTES];
    static const struct {
        uint64_t value;
        const char *count, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {999, "999", "999 B"},
        {1000, "1,000", "1.0 kB"},
        {12345, "12,345", "12.3 kB"},
        {999949, "999,949", "999.9 kB"},
        {999950, "999,950", "1.0 MB"},
        {1234567890, "1,234,567,890", "1.2 GB"},
        {UINT64_MAX, "18,446,744,073,709,551,615", "18.4 EB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_print_count(cases[i].value, text);
        assert_string_equal(text, cases[i].count);
        lab_print_bytes(cases[i].value, text);
        assert_string_equal(text, cases[i].bytes);
    }
    lab_print_percent(0.93215, text);
    assert_string_equal(text, "93.22%");
    lab_print_percent(NAN, text);
    assert_string_equal(text, "-");
    lab_print_real(0.12345, text);
    assert_string_equal(text, "0.1235");
    lab_print_real(0, text);
    assert_string_equal(text, "0.0000");
    lab_print_real(1e-9, text);
    assert_string_equal(text, "1.00e-09");
    lab_print_real(-123456.0, text);
    assert_string_equal(text, "-1.23e+05");
    lab_print_real(INFINITY, text);
    assert_string_equal(text, "inf");
}

static void every_node_has_one_line(void **state)
{
    (void)state;
    char heading[LAB_LINE_BYTES], line[LAB_LINE_BYTES];
    struct lab_progress progress = {.name = "node-00", .state = "training", .row = lab_row_empty()};
    assert_true(lab_row_parse(GOOD, strlen(GOOD), &progress.row));
    progress.lines = 1;
    lab_progress_heading(false, heading);
    lab_progress_row(&progress, line);
    assert_string_equal(heading,
                        "node         round        step       loss  accuracy  consensus     kB sent  state");
    assert_string_equal(
        line, "node-00         12          48     0.2500    50.00%     0.1250         123  training");
    lab_progress_plain(&progress, 3.25, line);
    assert_string_equal(
        line, "   3.2 s  node-00  round 12  step 48  loss 0.2500  accuracy 50.00%  consensus 0.1250  "
              "123 kB sent  training");
}

static void a_node_without_metrics_has_a_line(void **state)
{
    (void)state;
    char line[LAB_LINE_BYTES];
    const struct lab_progress progress = {.name = "node-07", .state = "starting", .row = lab_row_empty()};
    lab_progress_row(&progress, line);
    assert_string_equal(
        line, "node-07          -           -          -         -          -           -  starting");
    lab_progress_plain(&progress, 0, line);
    assert_string_equal(line, "   0.0 s  node-07  starting");
}

static void the_longest_numbers_fit(void **state)
{
    (void)state;
    char line[LAB_LINE_BYTES];
    const struct lab_row row = {.round = UINT64_MAX,
                                .step = UINT64_MAX,
                                .bytes_sent = UINT64_MAX,
                                .bytes_received = UINT64_MAX,
                                .exchanges = UINT64_MAX,
                                .loss = -1e-300,
                                .accuracy = -1e300,
                                .consensus = -1e300};
    const struct lab_progress progress = {
        .name = "node-00", .state = "killed by signal 11 (Segmentation fault)", .row = row, .lines = 1};
    lab_progress_plain(&progress, 1e6, line);
    assert_non_null(strstr(line, "(Segmentation fault)"));
    lab_progress_row(&progress, line);
    assert_non_null(strstr(line, "(Segmentation fault)"));
}

static void null_keeps_the_last_measurement(void **state)
{
    (void)state;
    struct lab_row row = lab_row_empty();
    const char *line =
        "{\"round\":13,\"step\":52,\"loss\":0.2,\"accuracy\":null,\"test_loss\":null,\"bytes_sent\":1,"
        "\"bytes_received\":2,\"own_steps\":44,\"own_examples\":null,\"exchanges\":3,\"consensus\":null,\"delta_bytes\":4,\"dense_bytes\":5,"
        "\"state\":\"training\"}";
    assert_true(lab_row_parse(line, strlen(line), &row));
    assert_true(isnan(row.accuracy) && isnan(row.consensus));
    assert_true(lab_row_parse(GOOD, strlen(GOOD), &row));
    assert_true(lab_row_parse(line, strlen(line), &row));
    assert_true(row.own_steps == 44 && row.own_examples == LAB_NOT_COUNTED);
    assert_true(row.round == 13 && row.accuracy == 0.5 && row.test_loss == 1.25 && row.consensus == 0.125);
}

static void a_line_that_is_no_round_changes_nothing(void **state)
{
    static const char *const lines[] = {
        "", "garbage", "null", "[]", "{}", "{\"round\":1}", "\xff\xfe\x00", "{\"round\":1,\"round\":2}",
    };
    static const struct {
        const char *from, *to;
    } changes[] = {
        {"\"round\":12", "\"round\":-1"},
        {"\"round\":12", "\"round\":1.5"},
        {"\"own_steps\":40,", ""},
        {"\"own_examples\":1280,", ""},
        {"\"round\":12", "\"round\":\"12\""},
        {"\"round\":12", "\"round\":99999999999999999999"},
        {"\"loss\":0.25", "\"loss\":[]"},
        {"\"loss\":0.25", "\"loss\":1e999"},
        {"\"loss\":0.25", "\"loss\":NaN"},
        {"\"state\":\"training\"", "\"state\":3"},
        {"\"state\":", "\"status\":"},
        {"}", ""},
    };
    (void)state;
    struct lab_row row = lab_row_empty(), before;
    assert_true(lab_row_parse(GOOD, strlen(GOOD), &row));
    before = row;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(lab_row_parse(lines[i], strlen(lines[i]), &row));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char line[512];
        const char *at = strstr(GOOD, changes[i].from);
        assert_non_null(at);
        snprintf(line, sizeof line, "%.*s%s%s", (int)(at - GOOD), GOOD, changes[i].to,
                 at + strlen(changes[i].from));
        if (lab_row_parse(line, strlen(line), &row))
            fail_msg("accepted: %s", line);
    }
    assert_memory_equal(&row, &before, sizeof row);
}

static void the_state_is_printable_and_short(void **state)
{
    (void)state;
    struct lab_row row = lab_row_empty();
    char line[512];
    const char *at = strstr(GOOD, "training");
    snprintf(line, sizeof line, "%.*s\\u001b[2J\\u00e9 a state that is far too long for its column\"}",
             (int)(at - GOOD), GOOD);
    assert_true(lab_row_parse(line, strlen(line), &row));
    assert_string_equal(row.state, "?[2J???a?state?that?is?");
}

struct followed {
    char path[64];
    int file;
    struct lab_tail tail;
};

static void follow(struct followed *f)
{
    snprintf(f->path, sizeof f->path, "/tmp/p2pml-tail-XXXXXX");
    f->file = mkstemp(f->path);
    assert_true(f->file >= 0);
    lab_tail_start(f->path, &f->tail);
}

static void append(struct followed *f, const char *bytes, size_t count)
{
    assert_int_equal(write(f->file, bytes, count), (ssize_t)count);
}

static void unfollow(struct followed *f)
{
    lab_tail_close(&f->tail);
    close(f->file);
    unlink(f->path);
}

static void lines_may_arrive_in_parts(void **state)
{
    (void)state;
    struct followed f;
    follow(&f);
    lab_tail_read(&f.tail);
    assert_int_equal(f.tail.lines, 0);
    for (size_t i = 0; i < strlen(GOOD); i++) {
        append(&f, &GOOD[i], 1);
        lab_tail_read(&f.tail);
        assert_int_equal(f.tail.lines, 0);
    }
    append(&f, "\n" GOOD "\n{\"round\"", 1 + strlen(GOOD) + 9);
    lab_tail_read(&f.tail);
    assert_true(f.tail.lines == 2 && f.tail.bad == 0 && f.tail.row.round == 12);
    unfollow(&f);
}

static void a_file_may_appear_later(void **state)
{
    (void)state;
    struct lab_tail tail;
    lab_tail_start("/nonexistent/metrics.jsonl", &tail);
    lab_tail_read(&tail);
    assert_true(tail.lines == 0 && tail.bad == 0 && isnan(tail.row.loss));
    lab_tail_close(&tail);
}

static void garbage_is_counted_and_ignored(void **state)
{
    (void)state;
    struct followed f;
    size_t huge = 300000;
    char *line = malloc(huge);
    assert_non_null(line);
    memset(line, 'x', huge);
    follow(&f);
    append(&f, "garbage\n\n", 9);
    append(&f, "a\0b\n", 4);
    append(&f, line, huge); // longer than the limit: not kept anywhere
    lab_tail_read(&f.tail);
    assert_true(f.tail.file.line.capacity <= 65536);
    append(&f, "\n", 1);
    append(&f, GOOD "\n", strlen(GOOD) + 1);
    lab_tail_read(&f.tail);
    assert_true(f.tail.bad == 4 && f.tail.lines == 1 && f.tail.row.step == 48);
    unfollow(&f);
    free(line);
}

// A killed node may leave half a line; when started again it removes that, and counts from 0.
static void the_counters_of_a_restarted_node_continue(void **state)
{
    (void)state;
    struct followed f;
    follow(&f);
    append(&f, GOOD "\n{\"round\":99,\"st", strlen(GOOD) + 17);
    lab_tail_read(&f.tail);
    uint64_t sent = f.tail.row.bytes_sent, exchanges = f.tail.row.exchanges;
    assert_true(f.tail.lines == 1 && sent && exchanges);
    append(&f, "ep", 2);
    lab_tail_again(&f.tail);
    assert_true(lab_tail_row(&f.tail).bytes_sent == sent); // before its first line
    assert_int_equal(ftruncate(f.file, (off_t)strlen(GOOD) + 1), 0);
    assert_int_equal(lseek(f.file, 0, SEEK_END), (off_t)strlen(GOOD) + 1);
    append(&f, GOOD "\n", strlen(GOOD) + 1);
    lab_tail_read(&f.tail);
    assert_true(f.tail.lines == 2 && f.tail.bad == 0);
    assert_true(lab_tail_row(&f.tail).bytes_sent == 2 * sent &&
                lab_tail_row(&f.tail).exchanges == 2 * exchanges);
    assert_true(lab_tail_row(&f.tail).own_steps == 80 && lab_tail_row(&f.tail).own_examples == 2560);
    assert_true(lab_tail_row(&f.tail).step == 48);
    unfollow(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_formatted_for_users),
        cmocka_unit_test(every_node_has_one_line),
        cmocka_unit_test(a_node_without_metrics_has_a_line),
        cmocka_unit_test(the_longest_numbers_fit),
        cmocka_unit_test(null_keeps_the_last_measurement),
        cmocka_unit_test(a_line_that_is_no_round_changes_nothing),
        cmocka_unit_test(the_state_is_printable_and_short),
        cmocka_unit_test(lines_may_arrive_in_parts),
        cmocka_unit_test(a_file_may_appear_later),
        cmocka_unit_test(garbage_is_counted_and_ignored),
        cmocka_unit_test(the_counters_of_a_restarted_node_continue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
