// Arrays that grow as needed; order and median of numbers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

static void items_keep_their_values_while_the_array_grows(void **state)
{
    (void)state;
    uint32_t *items = NULL;
    for (uint32_t count = 0; count < 1000; count++) {
        uint32_t *grown = base_array_grow(items, count, sizeof *items);
        assert_non_null(grown);
        items = grown;
        items[count] = 3 * count; // AddressSanitizer checks that there is room
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], 3 * i);
    free(items);
}

static void a_failed_allocation_changes_nothing(void **state)
{
    (void)state;
    uint32_t *items = base_array_grow(NULL, 0, sizeof *items);
    assert_non_null(items);
    items[0] = 7;
    assert_null(base_array_grow(items, SIZE_MAX / 2 + 1, sizeof *items));
    assert_int_equal(items[0], 7);
    size_t count = SIZE_MAX / 2 + 1;
    uint32_t *before = items, item = 8;
    assert_false(base_array_add(&items, &count, &item, sizeof item));
    assert_true(items == before && count == SIZE_MAX / 2 + 1);
    free(items);
}

static void items_are_added_after_the_last(void **state)
{
    (void)state;
    uint32_t *items = NULL;
    size_t count = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t item = 5 * i;
        assert_true(base_array_add(&items, &count, &item, sizeof item));
    }
    assert_int_equal(count, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], 5 * i);
    free(items);
}

static void the_median_is_the_middle_value(void **state)
{
    (void)state;
    double odd[] = {3, -1, 2}, even[] = {4, 1, 2, 8};
    assert_true(isnan(base_median(odd, 0)));
    assert_true(base_median(odd, 3) == 2 && base_median(even, 4) == 3);
    assert_true(odd[0] == -1 && odd[2] == 3);
    uint64_t numbers[] = {UINT64_MAX, 0, 5};
    qsort(numbers, 3, sizeof *numbers, base_order_u64);
    assert_true(numbers[0] == 0 && numbers[1] == 5 && numbers[2] == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_their_values_while_the_array_grows),
        cmocka_unit_test(a_failed_allocation_changes_nothing),
        cmocka_unit_test(items_are_added_after_the_last),
        cmocka_unit_test(the_median_is_the_middle_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
