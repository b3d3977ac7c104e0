// The time of a local step: a median over the latest rounds.
#include "node/learn/step_time.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_time_is_unknown_at_first(void **state)
{
    struct node_step_time step_time = {0};
    (void)state;
    assert_int_equal(node_step_time_ns(&step_time), 0);
    node_step_time_add(&step_time, 1000, 0); // stopped before its first step
    assert_int_equal(node_step_time_ns(&step_time), 0);
    node_step_time_add(&step_time, 3, 4); // the clock is too coarse
    assert_int_equal(node_step_time_ns(&step_time), 1);
}

static void a_pause_changes_nothing(void **state)
{
    struct node_step_time step_time = {0};
    (void)state;
    node_step_time_add(&step_time, 800, 8);
    assert_int_equal(node_step_time_ns(&step_time), 100);
    for (uint64_t i = 1; i <= 4; i++)
        node_step_time_add(&step_time, 4 * (100 + i), 4);
    for (int i = 0; i < 4; i++)
        node_step_time_add(&step_time, 60000000000u, 4);
    assert_int_equal(node_step_time_ns(&step_time), 104);
}

static void another_speed_is_learned(void **state)
{
    struct node_step_time step_time = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        node_step_time_add(&step_time, 100, 1);
    for (unsigned i = 0; i < NODE_STEP_TIME_ROUNDS / 2; i++)
        node_step_time_add(&step_time, 500, 1);
    assert_int_equal(node_step_time_ns(&step_time), 100);
    node_step_time_add(&step_time, 500, 1);
    assert_int_equal(node_step_time_ns(&step_time), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_is_unknown_at_first),
        cmocka_unit_test(a_pause_changes_nothing),
        cmocka_unit_test(another_speed_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
