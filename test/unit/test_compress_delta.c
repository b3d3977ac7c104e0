// Packets byte by byte as compress/README.md lays them out, and every single way to break one.
#include "compress/compress.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct compress_sparse sparse_of(uint32_t *index, float *value, size_t count)
{
    return (struct compress_sparse){.index = index, .value = value, .count = count, .capacity = count};
}

static void encodes_as_documented(void **state)
{
    (void)state;
    uint32_t index[] = {2, 3, 12};
    float value[] = {127.0f, -63.6f, 0.5f};
    struct compress_sparse sparse = sparse_of(index, value, 3);
    uint8_t packet[64];
    size_t bytes = 0;
    assert_int_equal(compress_delta_encode(&sparse, 1000, COMPRESS_INT8, packet, sizeof packet, &bytes),
                     BASE_OK);
    // Gaps 2, 0, 8 with parameter 1: "0 1 0", "1 0", "0000 1 0"; the first bit lowest.
    static const uint8_t expected[] = {0x12, 1, 3, 0, 0, 0, 0x0a, 0x02, 0x00, 0x00, 0x80, 0x3f, 127, 0xc0, 0};
    assert_int_equal(bytes, sizeof expected);
    assert_memory_equal(packet, expected, sizeof expected);
    assert_true(value[0] == 127.0f && value[1] == -64.0f && value[2] == 0.0f); // 0.5 rounds to even
}

static void takes_the_smallest_index_section(void **state)
{
    (void)state;
    uint32_t index[64];
    float value[64];
    uint8_t packet[400];
    size_t bytes = 0;
    for (uint32_t i = 0; i < 64; i++) {
        index[i] = i;
        value[i] = 1.0f;
    }
    struct compress_sparse all = sparse_of(index, value, 64);
    assert_int_equal(compress_delta_encode(&all, 64, COMPRESS_FP32, packet, sizeof packet, &bytes), BASE_OK);
    assert_int_equal(packet[0], 0x00);
    assert_int_equal(bytes, 6 + 4 * 64);

    index[0] = 999999;
    struct compress_sparse one = sparse_of(index, value, 1);
    assert_int_equal(compress_delta_encode(&one, 1000000, COMPRESS_FP16, packet, sizeof packet, &bytes),
                     BASE_OK);
    assert_int_equal(packet[0], 0x11);
    assert_int_equal(bytes, 6 + 3 + 2);

    struct compress_sparse none = sparse_of(index, value, 0);
    assert_int_equal(compress_delta_encode(&none, 1000000, COMPRESS_INT8, packet, sizeof packet, &bytes),
                     BASE_OK);
    assert_int_equal(bytes, 6);
    assert_int_equal(compress_delta_decode(packet, bytes, 1000000, &none), BASE_OK);
    assert_int_equal(compress_delta_encode(&none, 0, COMPRESS_INT8, packet, sizeof packet, &bytes), BASE_OK);
    assert_int_equal(compress_delta_decode(packet, bytes, 0, &none), BASE_OK);
    assert_int_equal(none.count, 0);
}

// With parameter 0 the gaps are a bitmap, however the entries are spread.
static void never_longer_than_a_bitmap(void **state)
{
    (void)state;
    uint32_t index[32];
    float value[32];
    uint8_t packet[64];
    size_t bytes = 0;
    for (uint32_t i = 0; i < 32; i++) {
        index[i] = i < 30 ? i : i + 30;
        value[i] = 1.0f;
    }
    struct compress_sparse sparse = sparse_of(index, value, 32);
    assert_int_equal(compress_delta_encode(&sparse, 64, COMPRESS_INT8, packet, sizeof packet, &bytes),
                     BASE_OK);
    assert_int_equal(bytes, 6 + 8 + 4 + 32);
    static const uint8_t section[] = {0xff, 0xff, 0xff, 0x3f, 0x00, 0x00, 0x00, 0x30};
    assert_int_equal(packet[1], 0);
    assert_memory_equal(packet + 6, section, sizeof section);
}

static void encoder_refuses(void **state)
{
    (void)state;
    uint32_t index[] = {4, 7, 9};
    float value[] = {0.3f, 0.1f, 0.2f}, before[3];
    uint8_t packet[64];
    size_t bytes = 77;
    memcpy(before, value, sizeof value);
    struct compress_sparse sparse = sparse_of(index, value, 3);
    size_t needed = 0;
    assert_int_equal(compress_delta_encode(&sparse, 10, COMPRESS_FP32, packet, sizeof packet, &needed),
                     BASE_OK);
    for (size_t capacity = 0; capacity < needed; capacity++)
        assert_int_equal(compress_delta_encode(&sparse, 10, COMPRESS_FP32, packet, capacity, &bytes),
                         BASE_ELIMIT);
    assert_int_equal(compress_delta_encode(&sparse, 10, COMPRESS_INT8, packet, 8, &bytes), BASE_ELIMIT);
    assert_int_equal(compress_delta_encode(&sparse, 9, COMPRESS_INT8, packet, 64, &bytes), BASE_EINVAL);
    assert_int_equal(compress_delta_encode(&sparse, (size_t)1 << 31, COMPRESS_INT8, packet, 64, &bytes),
                     BASE_ELIMIT);
    assert_int_equal(compress_delta_encode(&sparse, 10, (enum compress_values)3, packet, 64, &bytes),
                     BASE_EINVAL);
    index[1] = 4;
    assert_int_equal(compress_delta_encode(&sparse, 10, COMPRESS_INT8, packet, 64, &bytes), BASE_EINVAL);
    index[1] = 7;
    assert_memory_equal(value, before, sizeof value);
    value[2] = NAN;
    assert_int_equal(compress_delta_encode(&sparse, 10, COMPRESS_INT8, packet, 64, &bytes), BASE_EFORMAT);
    assert_int_equal(bytes, 77);
}

// A good packet with one byte changed, by what is wrong then. Vector of 1,000.
static void decoder_refuses(void **state)
{
    (void)state;
    static const uint8_t good[] = {0x12, 1, 3, 0, 0, 0, 0x0a, 0x02, 0x00, 0x00, 0x80, 0x3f, 127, 0xc0, 0};
    static const struct {
        size_t at;
        uint8_t byte;
        enum base_error error;
    } changes[] = {
        {0, 0x13, BASE_EFORMAT},  // unknown values
        {0, 0x22, BASE_EFORMAT},  // unknown index section
        {0, 0x02, BASE_EFORMAT},  // "all", but three of 1,000
        {0, 0x11, BASE_EFORMAT},  // fp16: the rest is no Rice section
        {1, 31, BASE_EFORMAT},    // parameter out of range
        {1, 8, BASE_EFORMAT},     // bits run out
        {2, 2, BASE_EFORMAT},     // too few entries for the section
        {2, 4, BASE_ELIMIT},      // over the capacity
        {3, 4, BASE_EFORMAT},     // more entries than elements
        {7, 0x82, BASE_EFORMAT},  // padding
        {7, 0x00, BASE_EFORMAT},  // a run of zeros without an end
        {11, 0xbf, BASE_EFORMAT}, // negative scale
        {11, 0x7f, BASE_EFORMAT}, // infinite scale
        {13, 0x80, BASE_EFORMAT}, // code -128
    };
    uint32_t index[3] = {1, 2, 3};
    float value[3] = {5.0f, 6.0f, 7.0f};
    struct compress_sparse sparse = sparse_of(index, value, 3);
    sparse.count = 2;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        uint8_t packet[sizeof good];
        memcpy(packet, good, sizeof good);
        packet[changes[i].at] = changes[i].byte;
        assert_int_equal(compress_delta_decode(packet, sizeof packet, 1000, &sparse), changes[i].error);
        assert_true(sparse.count == 2 && index[0] == 1 && value[2] == 7.0f);
    }
    assert_int_equal(compress_delta_decode(good, sizeof good, 12, &sparse), BASE_EFORMAT); // index 12 of 12
    assert_int_equal(compress_delta_decode(good, sizeof good, 13, &sparse), BASE_OK);
    assert_int_equal(sparse.count, 3);
    assert_int_equal(compress_delta_decode(good, sizeof good, (size_t)1 << 40, &sparse), BASE_ELIMIT);
}

static void decoder_refuses_non_finite(void **state)
{
    (void)state;
    uint32_t index[1];
    float value[1];
    struct compress_sparse sparse = sparse_of(index, value, 1);
    static const uint8_t fp32[][4] = {
        {0, 0, 0x80, 0x7f}, {0, 0, 0x80, 0xff}, {1, 0, 0x80, 0x7f}, {0, 0, 0xc0, 0xff}};
    static const uint8_t fp16[][2] = {{0, 0x7c}, {0, 0xfc}, {1, 0x7c}, {0xff, 0xff}};
    for (size_t i = 0; i < 4; i++) {
        uint8_t packet[10] = {0x00, 0, 1, 0, 0, 0};
        memcpy(packet + 6, fp32[i], 4);
        assert_int_equal(compress_delta_decode(packet, 10, 1, &sparse), BASE_EFORMAT);
        packet[0] = 0x01;
        memcpy(packet + 6, fp16[i], 2);
        assert_int_equal(compress_delta_decode(packet, 8, 1, &sparse), BASE_EFORMAT);
    }
    // Scales: zero with a code, denormal, 127 times it infinite, NaN, negative zero.
    static const uint8_t scales[][4] = {
        {0, 0, 0, 0},       {1, 0, 0, 0},       {0xff, 0xff, 0x7f, 0},
        {0, 0, 0x80, 0x7c}, {1, 0, 0x80, 0x7f}, {0, 0, 0, 0x80},
    };
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        uint8_t packet[11] = {0x02, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
        memcpy(packet + 6, scales[i], 4);
        assert_int_equal(compress_delta_decode(packet, sizeof packet, 1, &sparse), BASE_EFORMAT);
    }
    assert_int_equal(sparse.count, 1);
}

static void entries_of_a_header(void **state)
{
    (void)state;
    static const uint8_t packet[] = {0x12, 1, 0x01, 0x02, 0x03, 0x04};
    for (size_t bytes = 0; bytes < 6; bytes++)
        assert_int_equal(compress_delta_entries(packet, bytes), 0);
    assert_int_equal(compress_delta_entries(packet, 6), 0x04030201);
}

static void figures_of_size(void **state)
{
    (void)state;
    // 1 in 32 and 1 in 100 at even distances: close to the worst that the bound allows, and inside the
    // targets.
    assert_true(compress_delta_bound(203530, 203530 / 32, COMPRESS_INT8) < 203530 / 32 * 2);
    assert_true(compress_delta_bound(1u << 30, 1u << 30, COMPRESS_FP32) ==
                6 + ((size_t)1 << 27) + ((size_t)1 << 32));
    assert_int_equal(compress_delta_bound(0, 0, COMPRESS_FP32), 6);
    assert_int_equal(compress_delta_bound(5, 9, COMPRESS_FP16), compress_delta_bound(5, 5, COMPRESS_FP16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_as_documented),
        cmocka_unit_test(takes_the_smallest_index_section),
        cmocka_unit_test(never_longer_than_a_bitmap),
        cmocka_unit_test(encoder_refuses),
        cmocka_unit_test(decoder_refuses),
        cmocka_unit_test(decoder_refuses_non_finite),
        cmocka_unit_test(entries_of_a_header),
        cmocka_unit_test(figures_of_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
