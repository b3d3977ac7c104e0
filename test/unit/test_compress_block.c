// Dense blocks: fp32 unchanged, and the logarithmic scale of second moments.
#include "base/limits.h"
#include "base/rng.h"
#include "compress/bytes.h"
#include "compress/compress.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HALF_STEP (0.0443 + 1e-6) // 2^(1/16) - 1

static void a_block_in_fp32_keeps_every_bit(void **state)
{
    (void)state;
    const float values[] = {0.0f, -0.0f, FLT_MAX, -FLT_TRUE_MIN, 1.0f};
    float decoded[5] = {0};
    uint8_t block[28];
    size_t bytes = 0;
    assert_int_equal(compress_block_encode(values, 5, block, 19, &bytes), BASE_ELIMIT);
    assert_int_equal(compress_block_encode(values, 5, block, 28, &bytes), BASE_OK);
    assert_int_equal(bytes, 20);
    assert_int_equal(block[19], 0x3f);
    assert_int_equal(compress_block_decode(block, 20, decoded, 5), BASE_OK);
    assert_memory_equal(decoded, values, sizeof values);
    assert_int_equal(compress_block_encode(values, 0, block, 0, &bytes), BASE_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(compress_block_decode(block, 0, decoded, 0), BASE_OK);
}

static void invalid_blocks_are_refused(void **state)
{
    (void)state;
    float values[3] = {1.0f, NAN, 2.0f}, decoded[3] = {7.0f, 8.0f, 9.0f};
    uint8_t block[16];
    size_t bytes = 5;
    assert_int_equal(compress_block_encode(values, 3, block, 16, &bytes), BASE_EFORMAT);
    values[1] = -INFINITY;
    assert_int_equal(compress_block_encode(values, 3, block, 16, &bytes), BASE_EFORMAT);
    assert_int_equal(bytes, 5);
    values[1] = 3.0f;
    assert_int_equal(compress_block_encode(values, 3, block, 16, &bytes), BASE_OK);
    for (size_t length = 0; length <= 16; length++)
        if (length != 12)
            assert_int_equal(compress_block_decode(block, length, decoded, 3), BASE_EFORMAT);
    assert_int_equal(compress_block_decode(block, 12, decoded, (size_t)LIMIT_PARAMETERS + 1), BASE_ELIMIT);
    block[11] = 0x7f;
    block[10] = 0x80;
    assert_int_equal(compress_block_decode(block, 12, decoded, 3), BASE_EFORMAT);
    assert_true(decoded[0] == 7.0f && decoded[1] == 8.0f && decoded[2] == 9.0f);
}

// Encodes values[], checks that the sender keeps what the receiver decodes, and leaves that in values[].
static void log8_round_trip(float *values, size_t count, uint8_t *block)
{
    size_t bytes = 0;
    float *decoded = malloc((count + 1) * sizeof *decoded);
    assert_non_null(decoded);
    assert_int_equal(compress_log8_encode(values, count, block, count + 8, &bytes), BASE_OK);
    assert_true(bytes <= count + 8);
    assert_int_equal(compress_log8_decode(block, bytes, decoded, count), BASE_OK);
    assert_memory_equal(decoded, values, count * sizeof *values);
    free(decoded);
}

static void log8_levels_are_powers_of_one_ratio(void **state)
{
    (void)state;
    float values[255];
    uint8_t block[300];
    for (unsigned code = 1; code <= 255; code++)
        values[code - 1] = (float)(3.0 * exp2(((double)code - 255) / 8));
    log8_round_trip(values, 255, block);
    for (unsigned code = 1; code <= 255; code++) {
        assert_int_equal(block[4 + code - 1], code);
        double exact = 3.0 * exp2(((double)code - 255) / 8);
        assert_true(fabs((double)values[code - 1] / exact - 1) < 0x1p-22);
    }
    log8_round_trip(values, 255, block); // decoded values are encoded unchanged
    for (unsigned code = 1; code <= 255; code++)
        assert_int_equal(block[4 + code - 1], code);
}

static void log8_error_is_bounded(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20260131;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    static float values[20000], before[20000];
    static uint8_t block[20008];
    for (int exponent = -60; exponent <= 120; exponent += 20) {
        for (size_t i = 0; i < 20000; i++)
            before[i] = values[i] = ldexpf((float)base_rng_uniform(&rng), exponent - (int)(i % 48));
        log8_round_trip(values, 20000, block);
        float largest = 0.0f;
        for (size_t i = 0; i < 20000; i++)
            largest = fmaxf(largest, before[i]);
        for (size_t i = 0; i < 20000; i++) {
            assert_true((before[i] == 0.0f) == (values[i] == 0.0f));
            if (before[i] >= largest * 0x1p-31f)
                assert_true(fabs((double)values[i] / (double)before[i] - 1) < HALF_STEP);
            else // below the scale: its lowest level
                assert_true(values[i] <= largest * 0x1p-31f);
            assert_true(values[i] <= largest);
        }
    }
}

static void log8_is_monotone(void **state)
{
    (void)state;
    static float values[4096];
    static uint8_t block[4104];
    static const float largests[] = {1.0f, FLT_MAX, 1.7f, 0x1p-94f, 0x1.8p-93f};
    for (size_t trial = 0; trial < sizeof largests / sizeof largests[0]; trial++) {
        uint32_t largest = bits_of(largests[trial]);
        for (uint32_t i = 0; i < 4096; i++)
            values[i] = float_of((uint32_t)((uint64_t)largest * i / 4095));
        log8_round_trip(values, 4096, block);
        assert_true(values[0] == 0.0f && values[4095] == largests[trial]);
        for (size_t i = 1; i < 4096; i++)
            assert_true(values[i] >= values[i - 1] && block[4 + i] >= block[3 + i]);
    }
}

static void invalid_log8_blocks_are_refused(void **state)
{
    (void)state;
    static const float broken[] = {-1.0f, -FLT_TRUE_MIN, NAN, INFINITY, -INFINITY};
    uint8_t block[11];
    size_t bytes = 5;
    for (size_t i = 0; i < 5; i++) {
        float values[3] = {1.0f, 0.3f, broken[i]};
        assert_int_equal(compress_log8_encode(values, 3, block, 11, &bytes), BASE_EFORMAT);
        assert_true(values[1] == 0.3f && bytes == 5);
    }
    float values[3] = {1.0f, 0.3f, -0.0f}, decoded[3] = {7.0f, 8.0f, 9.0f};
    assert_int_equal(compress_log8_encode(values, 3, block, 6, &bytes), BASE_ELIMIT);
    assert_true(values[1] == 0.3f);
    assert_int_equal(compress_log8_encode(values, 3, block, 11, &bytes), BASE_OK);
    assert_true(values[2] == 0.0f && !signbit(values[2]));
    for (size_t length = 0; length <= 11; length++)
        if (length != bytes)
            assert_int_equal(compress_log8_decode(block, length, decoded, 3), BASE_EFORMAT);
    static const uint8_t bad[][7] = {
        {0, 0, 0x80, 0x7f, 255, 1, 1},       // largest infinite
        {0, 0, 0x80, 0xbf, 255, 1, 1},       // negative
        {0, 0, 0xc0, 0x7f, 255, 1, 1},       // NaN
        {0, 0, 0x80, 0x3f, 254, 1, 1},       // no value has the largest code
        {0xff, 0xff, 0x7f, 0x10, 255, 1, 1}, // levels would be denormal
        {0, 0, 0, 0, 0, 1, 0},               // codes in a block of zeros
        {0, 0, 0, 0x80, 0, 0, 0},            // minus zero
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(compress_log8_decode(bad[i], 7, decoded, 3), BASE_EFORMAT);
    assert_true(decoded[0] == 7.0f && decoded[1] == 8.0f && decoded[2] == 9.0f);
}

// Blocks whose levels would be denormal are zero.
static void log8_turns_denormal_levels_into_zero(void **state)
{
    (void)state;
    float values[4] = {0.0f, nextafterf(0x1p-94f, 0.0f), FLT_MIN, FLT_TRUE_MIN};
    uint8_t block[12];
    static const uint8_t zeros[8] = {0};
    log8_round_trip(values, 4, block);
    assert_memory_equal(block, zeros, 8);
    for (size_t i = 0; i < 4; i++)
        assert_true(values[i] == 0.0f);
    float least[2] = {0x1p-94f, FLT_TRUE_MIN};
    log8_round_trip(least, 2, block);
    assert_true(least[0] == 0x1p-94f && block[4] == 255 && block[5] == 1 && least[1] >= FLT_MIN);
}

static void log8_of_zeros_is_zeros(void **state)
{
    (void)state;
    float zeros[300] = {0};
    uint8_t block[308];
    log8_round_trip(zeros, 0, block);
    log8_round_trip(zeros, 300, block);
    for (size_t i = 0; i < 304; i++)
        assert_int_equal(block[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_in_fp32_keeps_every_bit),
        cmocka_unit_test(invalid_blocks_are_refused),
        cmocka_unit_test(log8_levels_are_powers_of_one_ratio),
        cmocka_unit_test(log8_error_is_bounded),
        cmocka_unit_test(log8_is_monotone),
        cmocka_unit_test(invalid_log8_blocks_are_refused),
        cmocka_unit_test(log8_turns_denormal_levels_into_zero),
        cmocka_unit_test(log8_of_zeros_is_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
