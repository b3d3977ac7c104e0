// Repeated requests to stop.
#include "base/stop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static void a_repeated_sigterm_changes_nothing(void **state)
{
    (void)state;
    struct base_stop stop = {0};
    assert_int_equal(base_stop_take(&stop, SIGTERM, 5 * MS), BASE_STOP_ASKED);
    const uint64_t later_ns[] = {5 * MS, 6 * MS, 2000 * MS, 3600 * 1000 * MS};
    for (size_t i = 0; i < sizeof later_ns / sizeof *later_ns; i++) {
        assert_int_equal(base_stop_take(&stop, SIGTERM, later_ns[i]), BASE_STOP_NOTHING);
        assert_int_equal(base_stop_take(&stop, SIGHUP, later_ns[i]), BASE_STOP_NOTHING);
    }
}

static void a_second_sigint_counts_after_a_second(void **state)
{
    (void)state;
    static const int first[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        struct base_stop stop = {0};
        assert_int_equal(base_stop_take(&stop, first[i], 100 * MS), BASE_STOP_ASKED);
        assert_int_equal(base_stop_take(&stop, SIGINT, 100 * MS), BASE_STOP_NOTHING);
        assert_int_equal(base_stop_take(&stop, SIGINT, 1099 * MS),
                         BASE_STOP_NOTHING); // from the first one on
        assert_int_equal(base_stop_take(&stop, SIGINT, 1100 * MS), BASE_STOP_AT_ONCE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_sigterm_changes_nothing),
        cmocka_unit_test(a_second_sigint_counts_after_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
