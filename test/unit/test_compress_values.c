// Value formats: names, binary16 over all its numbers, scales of int8 blocks at both ends of the range.
#include "compress/bytes.h"
#include "compress/values.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names(void **state)
{
    (void)state;
    struct base_reason why = {0};
    for (unsigned i = COMPRESS_FP32; i <= COMPRESS_INT8; i++) {
        enum compress_values values = (enum compress_values)(2 - i);
        assert_int_equal(compress_values_parse(compress_values_name((enum compress_values)i), &values, &why),
                         BASE_OK);
        assert_int_equal(values, i);
    }
    enum compress_values values = COMPRESS_FP16;
    static const char *const unknown[] = {"", "FP16", "int", "int88", "bf16"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        why.text[0] = '\0';
        assert_int_equal(compress_values_parse(unknown[i], &values, &why), BASE_EINVAL);
        assert_int_equal(values, COMPRESS_FP16);
        assert_non_null(strstr(why.text, "fp32, fp16 or int8"));
    }
}

// The value of a finite binary16, from its definition.
static double half_value(unsigned half)
{
    unsigned exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void every_half(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++) {
        if ((half & 0x7c00) == 0x7c00)
            continue;
        float value = compress_half_to((uint16_t)half);
        assert_true((double)value == half_value(half) && !!signbit(value) == !!(half & 0x8000));
        assert_int_equal(compress_half_from(value), half);
    }
}

// Between two neighbours: the nearer one; in the very middle the even one.
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x7bff; half++) {
        float middle = (float)((half_value(half) + half_value(half + 1)) / 2); // exact: 12 bits
        unsigned even = half + (half & 1);
        assert_int_equal(compress_half_from(middle), even);
        assert_int_equal(compress_half_from(-middle), even | 0x8000);
        assert_int_equal(compress_half_from(nextafterf(middle, 0.0f)), half);
        assert_int_equal(compress_half_from(nextafterf(middle, INFINITY)), half + 1);
    }
    static const float over[] = {65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e30f, FLT_MAX};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        assert_int_equal(compress_half_from(over[i]), 0x7bff);
        assert_int_equal(compress_half_from(-over[i]), 0xfbff);
    }
    assert_int_equal(compress_half_from(FLT_TRUE_MIN), 0);
    assert_int_equal(compress_half_from(-0.0f), 0x8000);
}

static void int8_round_trip(float *value, size_t count, uint8_t *out)
{
    float decoded[COMPRESS_INT8_BLOCK + 4];
    compress_values_write(COMPRESS_INT8, value, count, out);
    assert_int_equal(compress_values_check(COMPRESS_INT8, out, count), BASE_OK);
    compress_values_read(COMPRESS_INT8, out, count, decoded);
    assert_memory_equal(decoded, value, count * sizeof *value);
}

static void int8_rounds_half_to_even(void **state)
{
    (void)state;
    float value[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, 3.4999f, -3.5001f};
    static const int codes[] = {127, 0, 2, 2, 0, -2, -2, 126, 3, -4};
    uint8_t out[4 + 10];
    int8_round_trip(value, 10, out);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal((int8_t)out[4 + i], codes[i]);
}

static void int8_at_the_ends_of_the_range(void **state)
{
    (void)state;
    uint8_t out[COMPRESS_INT8_BLOCK + 16];
    for (unsigned i = 0; i < 200; i++) { // largest values whose scale times 127 may round past the range
        float value[2] = {float_of(bits_of(FLT_MAX) - i), -1.0f};
        int8_round_trip(value, 2, out);
        assert_true(isfinite(value[0]) && value[0] > 0.999f * FLT_MAX && value[1] == 0.0f);
    }
    float smallest[2] = {127.0f * FLT_MIN, -127.0f * FLT_MIN};
    int8_round_trip(smallest, 2, out);
    assert_true(smallest[0] == 127.0f * FLT_MIN && smallest[1] == -127.0f * FLT_MIN);
    float below[3] = {nextafterf(127.0f * FLT_MIN, 0.0f), FLT_TRUE_MIN, -FLT_MIN};
    int8_round_trip(below, 3, out);
    assert_true(below[0] == 0.0f && below[1] == 0.0f && below[2] == 0.0f);
}

static void int8_blocks_have_their_own_scale(void **state)
{
    (void)state;
    float value[COMPRESS_INT8_BLOCK + 4];
    uint8_t out[sizeof value / sizeof value[0] + 8];
    for (size_t i = 0; i < COMPRESS_INT8_BLOCK + 4; i++)
        value[i] = i < COMPRESS_INT8_BLOCK ? 1000.0f : 1e-20f;
    assert_int_equal(compress_values_bytes(COMPRESS_INT8, COMPRESS_INT8_BLOCK + 4), sizeof out);
    int8_round_trip(value, COMPRESS_INT8_BLOCK + 4, out);
    assert_int_equal(out[4], 127);
    assert_true(fabsf(value[COMPRESS_INT8_BLOCK] - 1e-20f) < 1e-26f);
}

static void sees_what_is_not_finite(void **state)
{
    (void)state;
    float value[] = {0.0f, -0.0f, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, 1.0f};
    assert_true(compress_values_finite(value, 0));
    assert_true(compress_values_finite(value, 6));
    static const uint32_t broken[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000};
    for (size_t i = 0; i < 30; i++) {
        float was = value[i % 6];
        value[i % 6] = float_of(broken[i / 6]);
        assert_false(compress_values_finite(value, 6));
        value[i % 6] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(every_half),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(int8_rounds_half_to_even),
        cmocka_unit_test(int8_at_the_ends_of_the_range),
        cmocka_unit_test(int8_blocks_have_their_own_scale),
        cmocka_unit_test(sees_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
