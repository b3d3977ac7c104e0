// Selection by hand, and what it refuses. test/property/test_compress_select.c compares it with a sort over
// many vectors.
#include "base/limits.h"
#include "compress/select.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const float vector[] = {0.0f, -3.0f, 1.0f, 3.0f, -0.0f, -1.0f, 0x1p-149f, 3.0f};
static const struct kernels *kernels;

static void assert_selects(struct compress_selection selection, const uint32_t *expected, size_t count)
{
    const struct kernels_difference a = {.x = vector, .count = 8};
    struct compress_sparse sparse;
    struct compress_energy energy;
    assert_int_equal(compress_sparse_create_on(kernels, compress_select_room(&selection, 8), &sparse),
                     BASE_OK);
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, &energy), BASE_OK);
    assert_int_equal(sparse.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sparse.index[i], expected[i]);
        assert_true(sparse.value[i] == vector[expected[i]]);
    }
    assert_true(energy.a == 29.0 && energy.x == 29.0);
    compress_sparse_destroy(&sparse);
    assert_null(sparse.index);
}

#define SELECTS(method_, k_, count, ...)                                                                     \
    assert_selects((struct compress_selection){.method = (method_), .k = (k_)},                              \
                   (const uint32_t[]){__VA_ARGS__}, count)

static void selection_takes_the_largest_and_of_equal_ones_the_lowest_index(void **state)
{
    (void)state;
    for (unsigned i = COMPRESS_EXACT; i <= COMPRESS_BISECTION; i++) {
        const enum compress_method method = (enum compress_method)i;
        SELECTS(method, 0, 0, 0);
        SELECTS(method, 1, 1, 1);
        SELECTS(method, 2, 2, 1, 3);
        SELECTS(method, 3, 3, 1, 3, 7);
        SELECTS(method, 4, 4, 1, 2, 3, 7);
        SELECTS(method, 5, 5, 1, 2, 3, 5, 7);
        SELECTS(method, 6, 6, 1, 2, 3, 5, 6, 7);
        SELECTS(method, 7, 6, 1, 2, 3, 5, 6, 7); // zeros are never taken
        SELECTS(method, 99, 6, 1, 2, 3, 5, 6, 7);
    }
}

// Bins of the leading bits: 3.01 and 3.05 share one, and the lower index is taken.
static void the_threshold_method_divides_a_bin_by_index(void **state)
{
    (void)state;
    static const float close[] = {3.01f, 3.05f, 2.0f, 3.05f};
    const struct kernels_difference a = {.x = close, .count = 4};
    const struct compress_selection selection = {.method = COMPRESS_THRESHOLD, .k = 2};
    struct compress_sparse sparse;
    assert_int_equal(compress_sparse_create_on(kernels, 4, &sparse), BASE_OK);
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, NULL), BASE_OK);
    assert_int_equal(sparse.count, 2);
    assert_int_equal(sparse.index[0], 0);
    assert_int_equal(sparse.index[1], 1);
    compress_sparse_destroy(&sparse);
}

static void each_block_gets_its_share_of_k(void **state)
{
    (void)state;
    // Blocks [0, 3), [3, 6), [6, 8) of k = 4: shares 1, 2 and 1; the second has 3, -0 and -1.
    const struct compress_selection selection = {.method = COMPRESS_EXACT, .k = 4, .block = 3};
    assert_selects(selection, (const uint32_t[]){1, 3, 5, 7}, 4);
}

// The same elements on every machine, for ever.
static void random_selection_is_fixed_by_the_seed(void **state)
{
    (void)state;
    const struct compress_selection selection = {.method = COMPRESS_RANDOM, .k = 3, .seed = 1};
    assert_selects(selection, (const uint32_t[]){1, 5, 6}, 3);
}

static void invalid_selections_are_refused(void **state)
{
    (void)state;
    struct compress_sparse sparse;
    assert_int_equal(compress_sparse_create((size_t)LIMIT_PARAMETERS + 1, &sparse), BASE_ELIMIT);
    assert_int_equal(compress_sparse_create_on(kernels, (size_t)LIMIT_PARAMETERS + 1, &sparse), BASE_ELIMIT);
    assert_int_equal(compress_sparse_create(3, &sparse), BASE_OK);
    sparse.count = 2;
    const struct compress_selection selection = {.method = COMPRESS_EXACT, .k = 4};
    struct kernels_difference a = {.x = vector, .count = 8};
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, NULL), BASE_ELIMIT);
    a.count = (size_t)LIMIT_PARAMETERS + 1;
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, NULL), BASE_ELIMIT);
    static const float broken[] = {1.0f, NAN};
    a = (struct kernels_difference){.x = broken, .count = 2};
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, NULL), BASE_EFORMAT);
    assert_int_equal(sparse.count, 2);
    a = (struct kernels_difference){.x = NULL, .count = 0};
    assert_int_equal(compress_select(kernels, &selection, &a, &sparse, NULL), BASE_OK);
    assert_int_equal(sparse.count, 0);
    compress_sparse_destroy(&sparse);
}

// average.ratio: auto. A message has a price of its own, so a packet of a small model carries more of it.
static void auto_sends_an_eighth_of_a_small_model_and_a_32nd_of_a_large_one(void **state)
{
    static const struct {
        size_t d, k;
    } cases[] = {{0, 0},
                 {8, 1},
                 {2698, 337},
                 {85075, 10634},
                 {131072, 16384},
                 {131080, 16384},
                 {300000, 16384},
                 {524288, 16384},
                 {524320, 16385},
                 {11173962, 349186},
                 {124439808, 3888744}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(compress_select_count(0, cases[i].d), cases[i].k);
    for (size_t d = 1; d < 3000000; d += 1 + d / 50) { // the number that /status shows, written as a ratio
        const size_t k = compress_select_count(0, d);
        assert_int_equal(compress_select_count((double)((float)k / (float)d), d), k);
        assert_true(k >= d / 32 && k <= d / 8 + 1);
    }
    assert_int_equal(compress_select_count(1.0 / 8, 2698), 337);
    assert_int_equal(compress_select_count(1, 2698), 2698);
}

int main(void)
{
    struct base_reason why;
    if (kernels_open("cpu", 1, &kernels, &why)) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selection_takes_the_largest_and_of_equal_ones_the_lowest_index),
        cmocka_unit_test(the_threshold_method_divides_a_bin_by_index),
        cmocka_unit_test(each_block_gets_its_share_of_k),
        cmocka_unit_test(random_selection_is_fixed_by_the_seed),
        cmocka_unit_test(invalid_selections_are_refused),
        cmocka_unit_test(auto_sends_an_eighth_of_a_small_model_and_a_32nd_of_a_large_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
