// Reasons are complete, bounded sentences, and a failed assertion ends the process.
#include "base/error.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void a_reason_is_filled_and_the_code_returned(void **state)
{
    (void)state;
    struct base_reason why = {0};
    assert_int_equal(base_fail(&why, BASE_EFORMAT, "line %d: found '%s'", 3, "x"), BASE_EFORMAT);
    assert_string_equal(why.text, "line 3: found 'x'");
    assert_int_equal(base_fail(NULL, BASE_EIO, "nobody %s", "listens"), BASE_EIO);
}

static void a_reason_may_contain_its_old_text(void **state)
{
    (void)state;
    struct base_reason why = {"inner"};
    (void)base_fail(&why, BASE_EIO, "outer (%s)", why.text);
    assert_string_equal(why.text, "outer (inner)");
}

static void context_goes_in_front(void **state)
{
    (void)state;
    struct base_reason why = {"no such key"};
    assert_int_equal(base_fail_context(&why, BASE_EINVAL, "%s:%d", "node.yaml", 7), BASE_EINVAL);
    assert_string_equal(why.text, "node.yaml:7: no such key");
    struct base_reason empty = {0};
    (void)base_fail_context(&empty, BASE_EINVAL, "node.yaml");
    assert_string_equal(empty.text, "node.yaml");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[2 * sizeof(struct base_reason)];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    struct base_reason why = {0};
    (void)base_fail(&why, BASE_EIO, "%s", text);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
    (void)base_fail_context(&why, BASE_EIO, "file");
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
    assert_memory_equal(why.text, "file: xxx", 9);
    (void)base_fail_context(&why, BASE_EIO, "%s", text);
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
}

static void every_code_has_its_own_name(void **state)
{
    (void)state;
    for (int a = BASE_ESTATE; a <= BASE_OK; a++) {
        assert_string_not_equal(base_error_name((enum base_error)a), "unknown error");
        for (int b = a + 1; b <= BASE_OK; b++)
            assert_string_not_equal(base_error_name((enum base_error)a), base_error_name((enum base_error)b));
    }
    assert_string_equal(base_error_name((enum base_error) - 1000), "unknown error");
}

static void a_failed_assertion_names_its_place_and_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        BASE_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    close(ends[1]);
    char text[512] = {0};
    ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_true(got > 0);
    assert_non_null(strstr(text, "test_base_error.c:"));
    assert_non_null(strstr(text, "1 + 1 == 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reason_is_filled_and_the_code_returned),
        cmocka_unit_test(a_reason_may_contain_its_old_text),
        cmocka_unit_test(context_goes_in_front),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(every_code_has_its_own_name),
        cmocka_unit_test(a_failed_assertion_names_its_place_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
