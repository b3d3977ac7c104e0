// Selection by hand, and its refusals. Against a sort over many vectors:
// test/property/test_compress_select.c.
#include "base/limits.h"
#include "compress/compress.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const float vector[] = {0.0f, -3.0f, 1.0f, 3.0f, -0.0f, -1.0f, 0x1p-149f, 3.0f};

static void assert_selects(size_t k, const uint32_t *expected, size_t count)
{
    struct compress_sparse sparse;
    assert_int_equal(compress_sparse_create(8, &sparse), BASE_OK);
    assert_int_equal(compress_select_topk(vector, 8, k, &sparse), BASE_OK);
    assert_int_equal(sparse.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sparse.index[i], expected[i]);
        assert_true(sparse.value[i] == vector[expected[i]]);
    }
    compress_sparse_destroy(&sparse);
    assert_null(sparse.index);
}

static void takes_the_largest_then_the_lowest(void **state)
{
    (void)state;
    assert_selects(0, NULL, 0);
    assert_selects(1, (const uint32_t[]){1}, 1);
    assert_selects(2, (const uint32_t[]){1, 3}, 2);
    assert_selects(3, (const uint32_t[]){1, 3, 7}, 3);
    assert_selects(4, (const uint32_t[]){1, 2, 3, 7}, 4);
    assert_selects(5, (const uint32_t[]){1, 2, 3, 5, 7}, 5);
    assert_selects(6, (const uint32_t[]){1, 2, 3, 5, 6, 7}, 6);
    assert_selects(7, (const uint32_t[]){1, 2, 3, 5, 6, 7}, 6); // zeros are never taken
    assert_selects(99, (const uint32_t[]){1, 2, 3, 5, 6, 7}, 6);
}

static void refuses(void **state)
{
    (void)state;
    struct compress_sparse sparse;
    assert_int_equal(compress_sparse_create((size_t)LIMIT_PARAMETERS + 1, &sparse), BASE_ELIMIT);
    assert_int_equal(compress_sparse_create(3, &sparse), BASE_OK);
    assert_int_equal(compress_select_topk(vector, 8, 4, &sparse), BASE_ELIMIT);
    assert_int_equal(compress_select_topk(vector, 3, 4, &sparse), BASE_OK);
    assert_int_equal(compress_select_topk(vector, (size_t)LIMIT_PARAMETERS + 1, 1, &sparse), BASE_ELIMIT);
    static const float broken[] = {1.0f, NAN};
    assert_int_equal(compress_select_topk(broken, 2, 0, &sparse), BASE_EFORMAT);
    assert_int_equal(compress_select_topk(broken, 2, 1, &sparse), BASE_EFORMAT);
    assert_int_equal(sparse.count, 2);
    assert_int_equal(compress_select_topk(NULL, 0, 3, &sparse), BASE_OK);
    assert_int_equal(sparse.count, 0);
    compress_sparse_destroy(&sparse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_largest_then_the_lowest),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
