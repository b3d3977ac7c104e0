// A line of the log is one write, whatever it contains, and no part of it can look like another line.
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int ends[2];
static int terminal;

// In packet mode each read returns the bytes of one write.
static int take_stderr(void **state)
{
    (void)state;
    terminal = dup(STDERR_FILENO);
    return pipe2(ends, O_DIRECT | O_NONBLOCK) == 0 && terminal >= 0 ? 0 : -1;
}

static int give_stderr(void **state)
{
    (void)state;
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT, "");
    close(ends[0]);
    close(ends[1]);
    return close(terminal);
}

static char line[4096];

// Calls base_log and returns what the first write wrote; "" if there was none. A second write fails the test.
static const char *logged(enum base_log_level level, const char *event, const char *text)
{
    dup2(ends[1], STDERR_FILENO);
    base_log(level, event, "%s", text);
    dup2(terminal, STDERR_FILENO);
    ssize_t got = read(ends[0], line, sizeof line - 1);
    line[got > 0 ? got : 0] = 0;
    char more;
    assert_true(read(ends[0], &more, 1) < 0);
    return line;
}

static void fields_appear_only_in_json_lines(void **state)
{
    (void)state;
    const enum base_log_format formats[] = {BASE_LOG_TEXT, BASE_LOG_JSON};
    for (size_t i = 0; i < 2; i++) {
        base_log_configure(BASE_LOG_INFO, formats[i], "n");
        dup2(ends[1], STDERR_FILENO);
        base_log_fields(BASE_LOG_INFO, "progress", ",\"step\":7", "step %d", 7);
        base_log_fields(BASE_LOG_DEBUG, "progress", "", "not told");
        dup2(terminal, STDERR_FILENO);
        ssize_t got = read(ends[0], line, sizeof line - 1);
        line[got > 0 ? got : 0] = 0;
        const char *expected[] = {" info  n progress step 7\n",
                                  ",\"event\":\"progress\",\"step\":7,\"text\":\"step 7\"}\n"};
        assert_non_null(strstr(line, expected[i]));
        char more;
        assert_true(read(ends[0], &more, 1) < 0);
    }
}

static void a_text_line_has_time_level_node_event_and_text(void **state)
{
    (void)state;
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT, "");
    const char *text = logged(BASE_LOG_INFO, "link_up", "peer=node-03");
    assert_int_equal(strlen("2026-01-31T12:00:00.123Z"), strcspn(text, " "));
    assert_int_equal(text[10], 'T');
    assert_string_equal(text + 24, " info  link_up peer=node-03\n");
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT, "node-01");
    assert_string_equal(logged(BASE_LOG_ERROR, "stop", "bye") + 24, " error node-01 stop bye\n");
    assert_string_equal(logged(BASE_LOG_ERROR, "stop", "") + 24, " error node-01 stop\n");
}

static void lower_levels_are_silent(void **state)
{
    (void)state;
    base_log_configure(BASE_LOG_WARN, BASE_LOG_TEXT, "");
    assert_string_equal(logged(BASE_LOG_INFO, "link_up", "x"), "");
    assert_string_not_equal(logged(BASE_LOG_WARN, "link_up", "x"), "");
}

static void a_json_line_is_one_object(void **state)
{
    (void)state;
    base_log_configure(BASE_LOG_DEBUG, BASE_LOG_JSON, "a\"b");
    const char *text = logged(BASE_LOG_DEBUG, "link_up", "say \"hi\" \\ there");
    assert_memory_equal(text, "{\"time\":\"", 9);
    assert_string_equal(text + 9 + 24, "\",\"level\":\"debug\",\"node\":\"a\\\"b\",\"event\":\"link_up\","
                                       "\"text\":\"say \\\"hi\\\" \\\\ there\"}\n");
}

static void control_characters_and_broken_utf8_are_replaced(void **state)
{
    (void)state;
    const struct {
        const char *given, *shown;
    } cases[] = {
        {"a\nb\r\t\x1b[31m\x7f", "a?b???[31m?"},
        {"Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80", "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "??31m"},                                   // CSI as one C1 character
        {"\xff\xc3", "??"},                          // not UTF-8; truncated
        {"\xc0\x8a\xe0\x80\x8a", "?????"},           // overlong line feeds
        {"\xed\xa0\x80\xf4\x90\x80\x80", "???????"}, // a surrogate; above U+10FFFF
    };
    for (int format = BASE_LOG_TEXT; format <= BASE_LOG_JSON; format++) {
        base_log_configure(BASE_LOG_INFO, (enum base_log_format)format, "");
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            char expected[64];
            snprintf(expected, sizeof expected, format == BASE_LOG_JSON ? "\"%s\"}\n" : " %s\n",
                     cases[i].shown);
            const char *text = logged(BASE_LOG_INFO, "event", cases[i].given);
            assert_true(strlen(text) > strlen(expected));
            assert_string_equal(text + strlen(text) - strlen(expected), expected);
        }
    }
}

static void long_lines_are_cut_at_whole_characters(void **state)
{
    (void)state;
    char text[3000];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xbc", 3);
    for (int format = BASE_LOG_TEXT; format <= BASE_LOG_JSON; format++)
        for (size_t skip = 0; skip < 4; skip++) {
            base_log_configure(BASE_LOG_INFO, (enum base_log_format)format, "node");
            const char *cut = logged(BASE_LOG_INFO, "event", memcpy(text, "\"\"\"\"", skip) ? text : "");
            size_t length = strlen(cut);
            assert_in_range(length, 900, 1024);
            assert_string_equal(cut + length - (format == BASE_LOG_JSON ? 3 : 1),
                                format == BASE_LOG_JSON ? "\"}\n" : "\n");
        }
}

static void logging_preserves_errno(void **state)
{
    (void)state;
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT, "");
    close(STDERR_FILENO);
    errno = ENOSPC;
    base_log(BASE_LOG_INFO, "event", "stderr is closed");
    int after = errno;
    dup2(terminal, STDERR_FILENO);
    assert_int_equal(after, ENOSPC);
}

// In packet mode a pipe takes 16 lines.
static void a_stderr_that_nobody_reads_holds_nothing_up(void **state)
{
    (void)state;
    const unsigned lines = 40;
    unsigned taken = 0;
    char expected[64];
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT, "");
    assert_int_equal(fcntl(ends[1], F_SETFL, O_DIRECT), 0); // writes wait for room
    dup2(ends[1], STDERR_FILENO);
    alarm(120); // instead of waiting for ever
    for (unsigned i = 0; i < lines; i++)
        base_log(BASE_LOG_INFO, "event", "line");
    while (read(ends[0], line, sizeof line) > 0)
        taken++;
    base_log(BASE_LOG_INFO, "event", "read again");
    alarm(0);
    dup2(terminal, STDERR_FILENO);
    assert_in_range(taken, 1, lines - 1);
    snprintf(expected, sizeof expected, "lines_lost %u lines were not written", lines - taken);
    line[read(ends[0], line, sizeof line - 1)] = 0;
    assert_non_null(strstr(line, expected));
    line[read(ends[0], line, sizeof line - 1)] = 0;
    assert_non_null(strstr(line, "event read again\n"));
    assert_int_equal(fcntl(ends[1], F_SETFL, O_DIRECT | O_NONBLOCK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_appear_only_in_json_lines),
        cmocka_unit_test(a_text_line_has_time_level_node_event_and_text),
        cmocka_unit_test(lower_levels_are_silent),
        cmocka_unit_test(a_json_line_is_one_object),
        cmocka_unit_test(control_characters_and_broken_utf8_are_replaced),
        cmocka_unit_test(long_lines_are_cut_at_whole_characters),
        cmocka_unit_test(logging_preserves_errno),
        cmocka_unit_test(a_stderr_that_nobody_reads_holds_nothing_up),
    };
    return cmocka_run_group_tests(tests, take_stderr, give_stderr);
}
