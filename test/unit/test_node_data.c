// Which examples a node trains on and which it is measured on, according to its configuration.
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

// A node is measured on the examples of the test range, on which no node trains.
static void a_node_is_measured_on_examples_that_none_trains_on(void **state)
{
    static const size_t firsts[] = {0, 500}; // 0: right after the training examples
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

// Digits are drawn only for the shard, with the same result as if all had been drawn and divided.
static void a_shard_of_digits_is_a_part_of_all(void **state)
{
    static const enum node_partition partitions[] = {NODE_PARTITION_IID, NODE_PARTITION_CONTIGUOUS,
                                                     NODE_PARTITION_DIRICHLET};
    static const bool living[] = {true, true, false};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof partitions / sizeof *partitions; i++) {
        const bool *alive = i % 2 ? living : NULL;
        struct node_config config = digits(0);
        struct train_dataset all = {0}, part = {0}, expected = {0};
        uint32_t owner[TRAIN];
        config.data.partition = (int)partitions[i / 2];
        config.data.alpha = 0.5;
        assert_int_equal(node_data_load(&config, NODE_DATA_ALL, &all, NULL, NULL), BASE_OK);
        assert_int_equal(node_data_owners(&config, &all, alive, owner, NULL), BASE_OK);
        assert_int_equal(node_data_take(&all, owner, 1, &expected, NULL), BASE_OK);
        assert_int_equal(alive ? node_data_load_living(&config, 1, alive, &part, NULL)
                               : node_data_load(&config, 1, &part, NULL, NULL),
                         BASE_OK);
        assert_same(&part, &expected);
        assert_int_equal(part.whole, expected.whole);
        assert_int_equal(part.classes, expected.classes);
        assert_int_equal(part.height * part.width * part.channels, expected.features);
        assert_true(part.input_divisor == expected.input_divisor && part.meaning == expected.meaning);
        train_dataset_destroy(&all);
        train_dataset_destroy(&part);
        train_dataset_destroy(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_node_is_measured_on_examples_that_none_trains_on),
                                       cmocka_unit_test(a_shard_of_digits_is_a_part_of_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
