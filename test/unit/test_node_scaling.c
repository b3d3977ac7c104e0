// The scaling that all nodes share: from their statistics, and in the bytes that are sent with the model.
#include "node/learn/scaling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, FEATURES = 2 };

static const float rows[ROWS * FEATURES] = {1, 10, 2, 20, 3, 30, 4, 40}, targets[ROWS] = {5, 6, 7, 8};
static const struct train_spread all[FEATURES + 1] = {{0, 10, 4, 2}, {0, 100, 50, 25}, {0, 16, 8, 4}};

static struct train_dataset train, test;
static struct node_scaling *scaling;
static struct base_reason why;

static struct train_dataset made(struct train_meaning *meaning)
{
    struct train_dataset data = {.examples = ROWS, .features = FEATURES, .whole = ROWS, .outputs = 1};
    data.x = malloc(sizeof rows);
    data.targets = malloc(sizeof targets);
    assert_non_null(data.x);
    assert_non_null(data.targets);
    memcpy(data.x, rows, sizeof rows);
    memcpy(data.targets, targets, sizeof targets);
    data.meaning = meaning;
    return data;
}

static int begin(void **state)
{
    (void)state;
    train = made(train_meaning_create(FEATURES));
    assert_true(train_names_add(&train.meaning->targets, "y", 1));
    assert_int_equal(train_scale_open(&train, TRAIN_SCALE_STANDARD, &why), BASE_OK);
    test = made(train_meaning_share(train.meaning));
    assert_int_equal(node_scaling_create(&train, &test, &scaling, &why), BASE_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    node_scaling_destroy(scaling);
    train_dataset_destroy(&train);
    train_dataset_destroy(&test);
    return 0;
}

static void a_node_measures_its_rows_before_they_are_scaled(void **state)
{
    (void)state;
    assert_true(scaling->own[1].least == 10 && scaling->own[1].most == 40 && scaling->own[1].mean == 25);
    assert_true(scaling->own[2].mean == 6.5);
    assert_memory_equal(train.x, rows, sizeof rows);
    assert_int_equal(scaling->blob.bytes, 0);
}

static void the_statistics_of_all_scale_rows_and_targets(void **state)
{
    (void)state;
    node_scaling_agree(scaling, all);
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(train.x[2 * i] == (rows[2 * i] - 4) * 0.5f);
        assert_true(test.x[2 * i + 1] == (rows[2 * i + 1] - 50) * (float)(1.0 / 25));
        assert_true(train.targets[i] == (targets[i] - 8) * 0.25f);
    }
}

static void an_agreed_scaling_does_not_change(void **state)
{
    (void)state;
    const struct train_spread others[FEATURES + 1] = {{0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}};
    node_scaling_agree(scaling, all);
    const struct gossip_blob before = scaling->blob;
    node_scaling_agree(scaling, others);
    assert_memory_equal(before.data, scaling->blob.data, before.bytes);
    assert_true(train.meaning->shift[0] == 4);
    assert_true(train.x[0] == -1.5f);
}

static void the_scaling_of_a_model_is_taken_with_it(void **state)
{
    (void)state;
    node_scaling_agree(scaling, all);
    const struct gossip_blob blob = scaling->blob;
    float scaled[ROWS * FEATURES];
    memcpy(scaled, train.x, sizeof scaled);
    end(NULL);
    begin(NULL);
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_OK);
    assert_memory_equal(train.x, scaled, sizeof scaled); // to the bit, as where it was agreed
    assert_memory_equal(test.x, scaled, sizeof scaled);
    assert_int_equal(scaling->blob.bytes, blob.bytes);
    assert_memory_equal(scaling->blob.data, blob.data, blob.bytes);
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_OK); // a second time changes nothing
    assert_memory_equal(train.x, scaled, sizeof scaled);
}

static void the_scaling_of_another_model_replaces_it(void **state)
{
    (void)state;
    const struct train_spread others[FEATURES + 1] = {{0, 8, 2, 4}, {0, 64, 32, 16}, {0, 16, 8, 8}};
    node_scaling_agree(scaling, others);
    const struct gossip_blob blob = scaling->blob;
    end(NULL);
    begin(NULL);
    node_scaling_agree(scaling, all);
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_OK);
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        assert_true(fabsf(train.x[i] - (rows[i] - (i % 2 ? 32 : 2)) / (i % 2 ? 16 : 4)) < 1e-5f);
}

static void an_invalid_scaling_is_refused(void **state)
{
    (void)state;
    node_scaling_agree(scaling, all);
    const struct gossip_blob good = scaling->blob;
    end(NULL);
    begin(NULL);
    static const float bad[] = {NAN, INFINITY, 0, -1, 1e-45f, 3e38f};
    struct gossip_blob blob = {0};
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_EFORMAT);
    for (size_t i = 0; i < 4; i++) { // each word of the header
        blob = good;
        blob.data[4 * i] ^= 1;
        assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_EFORMAT);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { // the last factor
        blob = good;
        memcpy(blob.data + blob.bytes - sizeof(float), &bad[i], sizeof(float));
        assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_EFORMAT);
        assert_non_null(strstr(why.text, "for column 3 of 3"));
    }
    const double far = 1e31;
    blob = good;
    memcpy(blob.data + 16, &far, sizeof far); // the first shift
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "for column 1 of 3"));
    blob = good;
    blob.bytes -= 4;
    assert_int_equal(node_scaling_take(scaling, &blob, &why), BASE_EFORMAT);
    assert_memory_equal(train.x, rows, sizeof rows);
    assert_int_equal(scaling->blob.bytes, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_node_measures_its_rows_before_they_are_scaled),
        CASE(the_statistics_of_all_scale_rows_and_targets),
        CASE(an_agreed_scaling_does_not_change),
        CASE(the_scaling_of_a_model_is_taken_with_it),
        CASE(the_scaling_of_another_model_replaces_it),
        CASE(an_invalid_scaling_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
