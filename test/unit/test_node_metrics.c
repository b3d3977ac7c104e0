// metrics.jsonl: the fields and their names, null where nothing was measured, only complete lines, and disks
// that refuse.
#include "base/file.h"
#include "node/store/metrics.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static const struct node_metrics_row sample = {
    .time = 1700000000.125,
    .round = 3,
    .step = 12,
    .own_steps = 8,
    .own_examples = 256,
    .bytes_sent = 1u << 31,
    .bytes_received = UINT64_MAX,
    .exchanges = 2,
    .delta_bytes = 100,
    .dense_bytes = 5000,
    .loss = 0.1,
    .accuracy = NAN,
    .test_loss = NAN,
    .consensus = INFINITY,
    .rate = 0.03,
    .state = "training",
};

static int make_directory(void **state)
{
    char *directory = strdup("/tmp/p2pml-metrics-XXXXXX");
    *state = directory;
    return directory && mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char path[128];
    snprintf(path, sizeof path, "%s/metrics.jsonl", (char *)*state);
    unlink(path);
    int failed = rmdir(*state);
    free(*state);
    return failed;
}

static void path_in(void **state, char path[128])
{
    snprintf(path, 128, "%s/metrics.jsonl", (char *)*state);
}

static char *contents(const char *path)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    struct base_reason why;
    assert_int_equal(base_file_read(path, 1u << 20, &data, &bytes, &why), BASE_OK);
    return (char *)data;
}

static void put_file(const char *path, const char *text)
{
    struct base_reason why;
    const struct base_span span = {text, strlen(text)};
    assert_int_equal(base_file_write(path, 0644, &span, 1, &why), BASE_OK);
}

static struct node_metrics *opened(const char *path)
{
    struct node_metrics *metrics = NULL;
    struct base_reason why = {""};
    if (node_metrics_open(path, "node-03", (struct node_lines_bounds){0}, &metrics, &why))
        fail_msg("%s", why.text);
    return metrics;
}

static void a_row_is_one_line_with_these_fields(void **state)
{
    char path[128];
    path_in(state, path);
    struct node_metrics *metrics = opened(path);
    assert_int_equal(node_metrics_write(metrics, &sample), BASE_OK);
    char *text = contents(path);
    assert_string_equal(
        text,
        "{\"time\":1700000000.125,\"node\":\"node-03\",\"round\":3,\"step\":12,\"own_steps\":8,\"own_examples\":256,\"loss\":0.1,"
        "\"accuracy\":null,\"test_loss\":null,\"bytes_sent\":2147483648,"
        "\"bytes_received\":9223372036854775807,\"exchanges\":2,\"returns\":0,\"consensus\":null,\"rate\":0.03,"
        "\"delta_bytes\":100,\"dense_bytes\":5000,\"state\":\"training\"}\n");
    json_t *parsed = json_loads(text, 0, NULL);
    assert_non_null(parsed);
    assert_int_equal(json_object_size(parsed), 18);
    json_decref(parsed);
    free(text);
    node_metrics_close(metrics);
}

static void rows_are_appended_after_a_restart(void **state)
{
    char path[128];
    path_in(state, path);
    for (int run = 0; run < 2; run++) {
        struct node_metrics *metrics = opened(path);
        assert_int_equal(node_metrics_write(metrics, &sample), BASE_OK);
        assert_int_equal(node_metrics_write(metrics, &sample), BASE_OK);
        node_metrics_close(metrics);
    }
    char *text = contents(path);
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 4);
    free(text);
}

static void half_a_line_of_a_killed_node_is_cut(void **state)
{
    char path[128];
    path_in(state, path);
    put_file(path, "{\"round\":1}\n{\"rou");
    node_metrics_close(opened(path));
    char *text = contents(path);
    assert_string_equal(text, "{\"round\":1}\n");
    free(text);
    put_file(path, "{\"rou");
    node_metrics_close(opened(path));
    text = contents(path);
    assert_string_equal(text, "");
    free(text);
    char longer[10001]; // longer than one read
    memset(longer, 'x', sizeof longer);
    longer[99] = '\n';
    longer[10000] = 0;
    put_file(path, longer);
    node_metrics_close(opened(path));
    text = contents(path);
    assert_int_equal(strlen(text), 100);
    free(text);
}

static void a_file_that_cannot_be_opened_is_reported(void **state)
{
    struct node_metrics *metrics = NULL;
    struct base_reason why;
    char expected[256];
    assert_int_equal(
        node_metrics_open("/nowhere/metrics.jsonl", "n", (struct node_lines_bounds){0}, &metrics, &why),
        BASE_EIO);
    assert_string_equal(why.text,
                        "cannot open '/nowhere/metrics.jsonl' to append metrics: No such file or directory");
    assert_int_equal(node_metrics_open(*state, "n", (struct node_lines_bounds){0}, &metrics, &why), BASE_EIO);
    snprintf(expected, sizeof expected, "cannot open '%s' to append metrics: Is a directory", (char *)*state);
    assert_string_equal(why.text, expected);
    assert_null(metrics);
}

// The number of lines that `write` logs on stderr.
static size_t logged_lines(FILE *log)
{
    size_t lines = 0;
    rewind(log);
    for (int c = fgetc(log); c != EOF; c = fgetc(log))
        lines += c == '\n';
    return lines;
}

static void a_full_disk_is_logged_once_and_stops_nothing(void **state)
{
    (void)state;
    struct node_metrics *metrics = opened("/dev/full");
    FILE *log = tmpfile();
    assert_non_null(log);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(log), STDERR_FILENO);
    enum base_error first = node_metrics_write(metrics, &sample);
    enum base_error second = node_metrics_write(metrics, &sample);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(first, BASE_EIO);
    assert_int_equal(second, BASE_EIO);
    assert_int_equal(logged_lines(log), 1);
    fclose(log);
    node_metrics_close(metrics);
}

static void a_disk_that_fills_up_keeps_complete_lines(void **state)
{
    char path[128];
    path_in(state, path);
    struct node_metrics *metrics = opened(path);
    assert_int_equal(node_metrics_write(metrics, &sample), BASE_OK);
    char *before = contents(path);
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = strlen(before) + 10; // room for 10 bytes of the next line
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    enum base_error full = node_metrics_write(metrics, &sample);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(full, BASE_EIO);
    char *after = contents(path);
    assert_string_equal(after, before);
    free(after);
    assert_int_equal(node_metrics_write(metrics, &sample), BASE_OK); // room again
    after = contents(path);
    assert_int_equal(strlen(after), 2 * strlen(before));
    free(before);
    free(after);
    node_metrics_close(metrics);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_row_is_one_line_with_these_fields),          CASE(rows_are_appended_after_a_restart),
        CASE(half_a_line_of_a_killed_node_is_cut),          CASE(a_file_that_cannot_be_opened_is_reported),
        CASE(a_full_disk_is_logged_once_and_stops_nothing), CASE(a_disk_that_fills_up_keeps_complete_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
