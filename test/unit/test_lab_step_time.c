// The measured time of a local step: how it is rounded, and that a larger model takes longer.
#include "lab/compute/step_time.h"

#include "test/support/lab_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void test_the_time_has_three_digits_and_is_at_least_a_microsecond(void **state)
{
    (void)state;
    static const uint64_t pairs[][2] = {
        {0, 1000},         {999, 1000},          {1234, 1230},       {298600, 299000},
        {999500, 1000000}, {12345678, 12300000}, {1000000, 1000000}, {98765432100, 98800000000}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_int_equal(lab_step_time_round(pairs[i][0]), pairs[i][1]);
}

static uint64_t measure(const char *text)
{
    struct lab_experiment experiment;
    struct lab_workbench bench = {0};
    struct base_reason why = {""};
    uint64_t step_ns = 0;
    enum base_error error = lab_world_load(text, &experiment, &why);
    if (!error)
        error = lab_workbench_load(&experiment, &bench, &why);
    if (!error)
        error = lab_workbench_open(&bench, &why);
    if (!error)
        error = lab_step_time_measure(&bench, &step_ns, &why);
    if (error)
        fail_msg("%s", why.text);
    lab_workbench_close(&bench);
    lab_experiment_free(&experiment);
    return step_ns;
}

static void test_a_larger_model_takes_longer(void **state)
{
    (void)state;
    static const char data[] = "experiment:\n  nodes: 2\ndata:\n  train_count: 200\n  test_count: 50\n"
                               "train:\n  steps: 8\n  batch: 16\n";
    char small[512], large[512];
    snprintf(small, sizeof small, "%smodel:\n  kind: softmax\n", data);
    snprintf(large, sizeof large, "%smodel:\n  kind: mlp\n  hidden: [1024]\n", data);
    const uint64_t small_ns = measure(small), large_ns = measure(large);
    assert_true(small_ns >= 1000 && small_ns == lab_step_time_round(small_ns));
    assert_true(large_ns > small_ns); // 100 times the work
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_time_has_three_digits_and_is_at_least_a_microsecond),
        cmocka_unit_test(test_a_larger_model_takes_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
