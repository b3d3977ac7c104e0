// Readers and writers never leave their bytes, and numbers are little-endian.
#include "base/cursor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void fields_have_the_documented_bytes(void **state)
{
    (void)state;
    const uint8_t expected[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d,
                                0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x00, 0x00, 0x20, 0xc0, 0,
                                0,    0,    0,    0,    0,    0x04, 0xc0, 'a',  'b'};
    uint8_t bytes[sizeof expected];
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    base_write_u8(&writer, 0x01);
    base_write_u16(&writer, 0x0203);
    base_write_u32(&writer, 0x04050607);
    base_write_u64(&writer, 0x08090a0b0c0d0e0full);
    base_write_f32(&writer, -2.5f);
    base_write_f64(&writer, -2.5);
    base_write_bytes(&writer, "ab", 2);
    assert_false(writer.failed);
    assert_int_equal(base_writer_used(&writer), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);

    struct base_reader reader = base_reader_of(bytes, sizeof bytes);
    assert_int_equal(base_read_u8(&reader), 0x01);
    assert_int_equal(base_read_u16(&reader), 0x0203);
    assert_int_equal(base_read_u32(&reader), 0x04050607);
    assert_int_equal(base_read_u64(&reader), 0x08090a0b0c0d0e0full);
    assert_true(base_read_f32(&reader) == -2.5f);
    assert_true(base_read_f64(&reader) == -2.5);
    assert_memory_equal(base_read_bytes(&reader, 2), "ab", 2);
    assert_int_equal(base_reader_left(&reader), 0);
    assert_false(reader.failed);
}

static void every_cut_fails_and_stays_failed(void **state)
{
    (void)state;
    const uint8_t bytes[15] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t cut = 0; cut < sizeof bytes; cut++) {
        struct base_reader reader = base_reader_of(bytes, cut);
        (void)base_read_u64(&reader);
        (void)base_read_u32(&reader);
        (void)base_read_u16(&reader);
        (void)base_read_u8(&reader);
        assert_true(reader.failed);
        // One byte may be left over; a cursor that has failed does not read it.
        size_t left = base_reader_left(&reader);
        assert_int_equal(base_read_u8(&reader), 0);
        assert_null(base_read_bytes(&reader, 0));
        assert_int_equal(base_reader_left(&reader), left);
    }
}

static void a_huge_length_fails(void **state)
{
    (void)state;
    uint8_t bytes[8] = {0};
    struct base_reader reader = base_reader_of(bytes, sizeof bytes);
    assert_null(base_read_bytes(&reader, SIZE_MAX));
    assert_true(reader.failed);
    struct base_writer writer = base_writer_of(bytes, sizeof bytes);
    assert_null(base_write_room(&writer, SIZE_MAX));
    assert_true(writer.failed);
    assert_int_equal(base_writer_used(&writer), 0);
}

static void zero_bytes_can_be_read_and_written(void **state)
{
    (void)state;
    struct base_reader reader = base_reader_of(NULL, 0);
    assert_non_null(base_read_bytes(&reader, 0));
    assert_false(reader.failed);
    assert_int_equal(base_read_u8(&reader), 0);
    assert_true(reader.failed);
    struct base_writer writer = base_writer_of(NULL, 0);
    base_write_bytes(&writer, NULL, 0);
    assert_false(writer.failed);
    base_write_u8(&writer, 1);
    assert_true(writer.failed);
}

static void a_full_writer_writes_nothing_more(void **state)
{
    (void)state;
    uint8_t bytes[4] = {9, 9, 9, 9};
    struct base_writer writer = base_writer_of(bytes, 3);
    base_write_u16(&writer, 0x0201);
    base_write_u16(&writer, 0x0403);
    base_write_u8(&writer, 5);
    assert_true(writer.failed);
    assert_int_equal(base_writer_used(&writer), 2);
    assert_memory_equal(bytes, "\1\2\11\11", 4);
}

static void a_nan_keeps_its_bits(void **state)
{
    (void)state;
    const uint8_t quiet[4] = {0x34, 0x12, 0xc0, 0x7f};
    uint8_t bytes[4];
    struct base_reader reader = base_reader_of(quiet, 4);
    float value = base_read_f32(&reader);
    assert_true(isnan(value));
    struct base_writer writer = base_writer_of(bytes, 4);
    base_write_f32(&writer, value);
    assert_memory_equal(bytes, quiet, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_the_documented_bytes),
        cmocka_unit_test(every_cut_fails_and_stays_failed),
        cmocka_unit_test(a_huge_length_fails),
        cmocka_unit_test(zero_bytes_can_be_read_and_written),
        cmocka_unit_test(a_full_writer_writes_nothing_more),
        cmocka_unit_test(a_nan_keeps_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
