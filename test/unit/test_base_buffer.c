// A byte queue keeps its bytes, its order and its limit.
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void bytes_leave_in_the_order_in_which_they_came(void **state)
{
    (void)state;
    struct base_buffer buffer = {0};
    uint8_t next_in = 0, next_out = 0;
    // Appends run ahead of what is consumed, so that the queue wraps, compacts and grows.
    for (size_t step = 0; step < 500; step++) {
        uint8_t chunk[97];
        size_t in = step * 31 % sizeof chunk, out;
        for (size_t i = 0; i < in; i++)
            chunk[i] = next_in++;
        assert_int_equal(base_buffer_append(&buffer, chunk, in, 100000), BASE_OK);
        out = base_buffer_length(&buffer) * (step % 4) / 3;
        for (size_t i = 0; i < out; i++)
            assert_int_equal(base_buffer_head(&buffer)[i], next_out++);
        base_buffer_consume(&buffer, out);
    }
    assert_int_equal((uint8_t)(next_out + base_buffer_length(&buffer)), next_in);
    base_buffer_free(&buffer);
    assert_int_equal(base_buffer_length(&buffer), 0);
    assert_null(base_buffer_head(&buffer));
}

static void an_append_beyond_the_limit_changes_nothing(void **state)
{
    (void)state;
    struct base_buffer buffer = {0};
    uint8_t *room = NULL;
    assert_int_equal(base_buffer_append(&buffer, "12345", 5, 8), BASE_OK);
    assert_int_equal(base_buffer_append(&buffer, "6789", 4, 8), BASE_ELIMIT);
    assert_int_equal(base_buffer_reserve(&buffer, SIZE_MAX, 8, &room), BASE_ELIMIT);
    assert_int_equal(base_buffer_reserve(&buffer, SIZE_MAX - 5, SIZE_MAX, &room), BASE_ENOMEM);
    assert_null(room);
    assert_int_equal(base_buffer_length(&buffer), 5);
    assert_memory_equal(base_buffer_head(&buffer), "12345", 5);
    assert_int_equal(base_buffer_append(&buffer, "678", 3, 8), BASE_OK);
    assert_true(buffer.capacity <= 8);
    assert_int_equal(base_buffer_append(&buffer, "", 0, 4), BASE_ELIMIT);
    base_buffer_free(&buffer);
}

static void consumed_bytes_make_room_again(void **state)
{
    (void)state;
    struct base_buffer buffer = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(base_buffer_append(&buffer, "abcdefg", 7, 16), BASE_OK);
        base_buffer_consume(&buffer, i % 2 ? 7 : 5);
        base_buffer_consume(&buffer, i % 2 ? 2 : 0);
    }
    assert_int_equal(base_buffer_length(&buffer), 0);
    assert_true(buffer.capacity <= 16);
    base_buffer_free(&buffer);
}

static void bytes_written_into_the_room_are_kept(void **state)
{
    (void)state;
    struct base_buffer buffer = {0};
    uint8_t *room;
    assert_int_equal(base_buffer_reserve(&buffer, 0, 0, &room), BASE_OK);
    assert_int_equal(base_buffer_reserve(&buffer, 100, 100, &room), BASE_OK);
    room[0] = 'x';
    room[1] = 'y';
    base_buffer_commit(&buffer, 2);
    assert_int_equal(base_buffer_length(&buffer), 2);
    assert_memory_equal(base_buffer_head(&buffer), "xy", 2);
    base_buffer_free(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_leave_in_the_order_in_which_they_came),
        cmocka_unit_test(an_append_beyond_the_limit_changes_nothing),
        cmocka_unit_test(consumed_bytes_make_room_again),
        cmocka_unit_test(bytes_written_into_the_room_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
