// How much a node counts among nodes with examples of their own.
#include "node/learn/weight.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static double weigh(const uint32_t *examples, size_t count, size_t node)
{
    static struct node_weighing weighing;
    weighing = (struct node_weighing){.count = 0};
    for (size_t i = 0; i < count; i++)
        node_weighing_add(&weighing, examples[i]);
    return node_weighing_result(&weighing, examples[node]);
}

static void a_node_counts_by_its_examples(void **state)
{
    (void)state;
    static const uint32_t two[] = {4000, 100}, same[] = {7, 7, 7};
    assert_true(fabs(weigh(two, 2, 0) - 2 * 4000.0 / 4100) < 1e-12);
    assert_true(fabs(weigh(two, 2, 1) - 2 * 100.0 / 4100) < 1e-12);
    assert_true(fabs(weigh(two, 1, 0) - 1) < 1e-12); // alone
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(weigh(same, 3, i) - 1) < 1e-12);
}

// The mean step of all nodes is that over all examples: the weights of all have the mean 1.
static void the_mean_of_all_weights_is_one(void **state)
{
    (void)state;
    static const uint32_t examples[] = {10, 2000, 35, 1, 640};
    double sum = 0;
    for (size_t i = 0; i < 5; i++)
        sum += weigh(examples, 5, i);
    assert_true(fabs(sum - 5) < 1e-12);
}

static void a_node_that_lies_cannot_make_the_others_worthless(void **state)
{
    (void)state;
    static const uint32_t examples[] = {UINT32_MAX, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
    assert_true(weigh(examples, 8, 1) > 8.0 / (NODE_WEIGHT_MOST + 7) - 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_counts_by_its_examples),
        cmocka_unit_test(the_mean_of_all_weights_is_one),
        cmocka_unit_test(a_node_that_lies_cannot_make_the_others_worthless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
