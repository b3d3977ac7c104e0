// Which examples a node trains on and which it is measured on, from its configuration.
#include "node/learn/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 7, TRAIN = 60, TEST = 40 };

static struct node_config digits(size_t test_first)
{
    struct node_config config = {0};
    config.data.kind = NODE_DATA_DIGITS;
    config.data.train_count = TRAIN;
    config.data.test_count = TEST;
    config.data.test_first = test_first;
    config.data.seed = SEED;
    config.data.shards = 3;
    return config;
}

static void assert_same(const struct train_dataset *a, const struct train_dataset *b)
{
    assert_int_equal(a->examples, b->examples);
    assert_memory_equal(a->x, b->x, a->examples * a->features * sizeof *a->x);
    assert_memory_equal(a->labels, b->labels, a->examples * sizeof *a->labels);
}

// The examples that a node is measured on are those of the test range, and none that it trains on.
static void a_node_is_measured_on_what_nobody_trains_on(void **state)
{
    static const size_t firsts[] = {0, 500}; // 0: right behind the training examples
    (void)state;
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        struct node_config config = digits(firsts[i]);
        struct train_dataset train = {0}, test = {0}, expected = {0};
        assert_int_equal(node_data_load(&config, 1, &train, &test, NULL), BASE_OK);
        assert_int_equal(
            train_dataset_make_digits(SEED, firsts[i] ? firsts[i] : TRAIN, TEST, &expected, NULL), BASE_OK);
        assert_same(&test, &expected);
        for (size_t a = 0; a < train.examples; a++)
            for (size_t b = 0; b < test.examples; b++)
                assert_memory_not_equal(train.x + a * train.features, test.x + b * test.features,
                                        train.features * sizeof *train.x);
        train_dataset_destroy(&train);
        train_dataset_destroy(&test);
        train_dataset_destroy(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_node_is_measured_on_what_nobody_trains_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
