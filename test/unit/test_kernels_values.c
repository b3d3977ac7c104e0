// The value formats on every CPU path: the bytes and values of a plain reference, decoding of what was
// encoded, contraction, the ends of the range, and everything that is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels_values_reference.h"
#include "test/property/compress_vectors.h"

enum { GUARD = 64, LONGEST = 1000, SECTION = 4 * LONGEST + 64 };

static const char *const path_names[] = {"scalar", "avx2", "avx512"};
static const struct kernels_values *paths[3];
static size_t n_paths;
static uint64_t seed;

static const size_t sizes[] = {127, 128, 129, 255, 256, 257, 511, 512, 513, 767, 1000};

static size_t size_at(size_t i)
{
    return i <= 70 ? i : sizes[i - 71];
}
enum { SIZES = 71 + sizeof sizes / sizeof sizes[0] };

// Runs one path's writer between guards and compares its bytes and values with the reference's.
static void writes_like(const struct kernels_values *k, enum kernels_format format, size_t count,
                        const float *from, const float *expected, const uint8_t *bytes)
{
    float value[LONGEST + GUARD];
    uint8_t section[SECTION + GUARD];
    size_t length = kernels_section_bytes(format, count);
    memset(section, 0xa5, sizeof section);
    memset(value, 0xa5, sizeof value);
    memcpy(value, from, count * sizeof *value);
    k->write(format, count, value, section);
    assert_memory_equal(section, bytes, length);
    assert_memory_equal(value, expected, count * sizeof *value);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(section[length + i], 0xa5);
        assert_int_equal(reference_bits(value[count + i]), 0xa5a5a5a5u);
    }
}

static void reads_like(const struct kernels_values *k, enum kernels_format format, size_t count,
                       const uint8_t *bytes, const float *expected)
{
    float value[LONGEST + GUARD];
    memset(value, 0xa5, sizeof value);
    // At the very end of an allocation, where a sanitizer detects one byte too many.
    size_t length = kernels_section_bytes(format, count);
    uint8_t *section = malloc(length + 1);
    assert_non_null(section);
    memcpy(section + 1, bytes, length);
    assert_true(k->valid(format, count, section + 1));
    k->read(format, count, section + 1, value);
    free(section);
    assert_memory_equal(value, expected, count * sizeof *value);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(reference_bits(value[count + i]), 0xa5a5a5a5u);
}

// Exact enough: differences and squares of fp32 in long double, with room for sums.
static void contracts(size_t count, const float *from, const float *decoded)
{
    long double left = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        long double v = (long double)from[i], rest = v - (long double)decoded[i];
        all += v * v;
        left += rest * rest;
    }
    assert_true(left <= all * (1 + 1e-15L));
}

static void check(enum kernels_format format, size_t count, const float *from)
{
    float expected[LONGEST];
    uint8_t bytes[SECTION];
    memcpy(expected, from, count * sizeof *from);
    reference_write(format, count, expected, bytes);
    for (size_t p = 0; p < n_paths; p++) {
        writes_like(paths[p], format, count, from, expected, bytes);
        reads_like(paths[p], format, count, bytes, expected);
    }
    for (size_t i = 0; i < count; i += KERNELS_VALUES_BLOCK) {
        size_t length = count - i < KERNELS_VALUES_BLOCK ? count - i : KERNELS_VALUES_BLOCK;
        contracts(length, from + i, expected + i);
    }
}

static void every_path_matches_the_reference(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    float from[LONGEST];
    for (size_t i = 0; i < SIZES; i++)
        for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
            vector_fill(&rng, (enum vector_kind)kind, from, size_at(i));
            for (unsigned format = 0; format < KERNELS_FORMATS; format++)
                check((enum kernels_format)format, size_at(i), from);
        }
}

// What selection gives: magnitudes above a threshold.
static void values_of_a_tail_match_the_reference(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed + 1);
    float from[LONGEST];
    for (size_t i = 0; i < LONGEST;) {
        float value = (float)base_rng_normal(&rng);
        if (fabsf(value) > 2.0f)
            from[i++] = value;
    }
    for (unsigned format = 0; format < KERNELS_FORMATS; format++)
        check((enum kernels_format)format, LONGEST, from);
}

// Blocks whose scale is just normal or just denormal, and blocks of the largest numbers.
static void values_at_the_ends_of_the_range_match_the_reference(void **state)
{
    (void)state;
    static const float edges[] = {FLT_MIN,       2 * FLT_MIN, 7 * FLT_MIN, 127 * FLT_MIN, 256 * FLT_MIN,
                                  FLT_TRUE_MIN,  0x1p-14f,    0x1p-24f,    0x1p-25f,      65504.0f,
                                  65520.0f,      0x1.fep127f, 0x1.ffp127f, FLT_MAX,       FLT_MAX / 7,
                                  FLT_MAX / 127, 0x1p-133f,   0x1p-134f,   0x1p-94f,      0.0f};
    float from[257];
    for (size_t e = 0; e < sizeof edges / sizeof edges[0]; e++)
        for (int step = -3; step <= 3; step++) {
            uint32_t bits = reference_bits(edges[e]) + (uint32_t)step;
            if (bits > reference_bits(FLT_MAX))
                continue;
            for (size_t i = 0; i < 257; i++)
                from[i] = reference_float(bits | (i % 3 == 0 ? 0x80000000u : 0));
            for (unsigned format = 0; format < KERNELS_FORMATS; format++) {
                check((enum kernels_format)format, 1, from);
                check((enum kernels_format)format, 3, from);
                check((enum kernels_format)format, 257, from);
            }
            from[1] = 1.0f;
            from[5] = -0.0f;
            for (unsigned format = 0; format < KERNELS_FORMATS; format++)
                check((enum kernels_format)format, 17, from);
        }
}

static void put_scale(uint8_t *section, uint32_t bits)
{
    reference_put(&section, bits, 4);
}

// Blocks of int4 with any two scales: the levels ascend from one to the other, none of them is denormal, and
// writing what was read gives the same bytes.
static void int4_levels_ascend(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed + 3);
    const uint32_t least = reference_bits(0x1p-94f), most = reference_bits(FLT_MAX);
    for (size_t round = 0; round < 20000; round++) {
        uint32_t high = least + (uint32_t)base_rng_below(&rng, most - least + 1);
        uint32_t low = round % 3 == 0   ? high - (uint32_t)base_rng_below(&rng, 20)
                       : round % 3 == 1 ? 0x00800000u + (uint32_t)base_rng_below(&rng, high - 0x00800000u)
                                        : 0;
        uint8_t section[16] = {0}, again[16];
        put_scale(section, low);
        put_scale(section + 4, high);
        for (size_t i = 0; i < 8; i++)
            section[8 + i] = (uint8_t)(i < 4 ? 0x10 + 0x22 * i : (i == 4 ? 0x91 : 0x98 + 0x22 * (i - 4)));
        for (size_t p = 0; p < n_paths; p++) {
            float value[16];
            assert_true(paths[p]->valid(KERNELS_INT4, 16, section));
            paths[p]->read(KERNELS_INT4, 16, section, value);
            assert_int_equal(reference_bits(value[0]), low);
            assert_int_equal(reference_bits(value[7]), high);
            for (size_t i = 0; i < 16; i++) {
                assert_true(value[i] == 0.0f || fabsf(value[i]) >= FLT_MIN);
                assert_true(i == 0 || i > 7 || value[i] >= value[i - 1]);
            }
            paths[p]->write(KERNELS_INT4, 16, value, again);
            assert_memory_equal(section, again, low + 20 < high ? 16 : 8);
        }
    }
}

static void every_binary16_is_converted_exactly(void **state)
{
    (void)state;
    enum { HALVES = 0x10000 };
    uint8_t *section = malloc(2 * HALVES), *again = malloc(2 * HALVES);
    float *value = malloc(HALVES * sizeof *value);
    assert_true(section && again && value);
    size_t n = 0;
    for (unsigned half = 0; half < HALVES; half++)
        if ((half & 0x7c00) != 0x7c00) {
            section[2 * n] = (uint8_t)half;
            section[2 * n++ + 1] = (uint8_t)(half >> 8);
        }
    for (size_t p = 0; p < n_paths; p++) {
        assert_true(paths[p]->valid(KERNELS_FP16, n, section));
        paths[p]->read(KERNELS_FP16, n, section, value);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(
                reference_bits(value[i]),
                reference_bits(reference_half_value((unsigned)(section[2 * i] | section[2 * i + 1] << 8))));
        paths[p]->write(KERNELS_FP16, n, value, again);
        assert_memory_equal(again, section, 2 * n);
    }
    free(section);
    free(again);
    free(value);
}

// A number between two neighbours of a 16-bit format goes to the nearer one; exactly in the middle, to the
// even one.
static void middles_round_to_even(void **state)
{
    (void)state;
    for (unsigned half = 0; half < 0x7bff; half++) {
        float middle = (reference_half_value(half) + reference_half_value(half + 1)) / 2; // exact: 12 bits
        float value[4] = {middle, -middle, nextafterf(middle, 0.0f), nextafterf(middle, INFINITY)};
        unsigned even = half + (half & 1), expected[4] = {even, even | 0x8000, half, half + 1};
        uint8_t section[8];
        for (size_t p = 0; p < n_paths; p++) {
            float copy[4];
            memcpy(copy, value, sizeof copy);
            paths[p]->write(KERNELS_FP16, 4, copy, section);
            for (size_t i = 0; i < 4; i++)
                assert_int_equal(section[2 * i] | section[2 * i + 1] << 8, expected[i]);
        }
    }
}

static bool all_valid(enum kernels_format format, size_t count, const uint8_t *section)
{
    bool first = paths[0]->valid(format, count, section);
    for (size_t p = 1; p < n_paths; p++)
        assert_int_equal(paths[p]->valid(format, count, section), first);
    return first;
}

// One invalid number at any place of a section.
static void numbers_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const enum kernels_format formats[] = {KERNELS_FP32, KERNELS_FP16, KERNELS_BF16};
    static const uint32_t broken[3][4] = {{0x7f800000, 0xff800000, 0x7f800001, 0xffffffff},
                                          {0x7c00, 0xfc00, 0x7c01, 0xffff},
                                          {0x7f80, 0xff80, 0x7f81, 0xffff}};
    for (size_t f = 0; f < 3; f++)
        for (size_t at = 0; at < 67; at++)
            for (size_t b = 0; b < 4; b++) {
                uint8_t section[4 * 67] = {0};
                size_t width = kernels_section_bytes(formats[f], 1);
                assert_true(all_valid(formats[f], 67, section));
                uint8_t *place = section + at * width;
                reference_put(&place, broken[f][b], width);
                assert_false(all_valid(formats[f], 67, section));
                assert_true(all_valid(formats[f], at, section));
            }
}

static void invalid_scales_are_refused(void **state)
{
    (void)state;
    static const enum kernels_format formats[] = {KERNELS_INT8, KERNELS_INT4, KERNELS_INT2, KERNELS_SIGN};
    static const float most[] = {127.0f, 1.0f, 1.0f, 1.0f};
    static const uint32_t broken[] = {1,          0x007fffff, 0x80000000, 0x80800000,
                                      0xbf800000, 0x7f800000, 0x7fc00000, 0xffffffff};
    for (size_t f = 0; f < 4; f++)
        for (size_t block = 0; block < 3; block++) {
            uint8_t section[SECTION] = {0};
            uint8_t *place = section + block * kernels_section_bytes(formats[f], KERNELS_VALUES_BLOCK);
            const bool pair = formats[f] == KERNELS_INT2 || formats[f] == KERNELS_INT4;
            place += pair ? 4 : 0; // the high level alone may be zero
            assert_true(all_valid(formats[f], 513, section));
            for (size_t b = 0; b < sizeof broken / sizeof broken[0]; b++) {
                put_scale(place, broken[b]);
                assert_false(all_valid(formats[f], 513, section));
            }
            float largest = FLT_MAX / most[f];
            while (isinf(most[f] * largest))
                largest = nextafterf(largest, 0.0f);
            put_scale(place, reference_bits(largest));
            assert_true(all_valid(formats[f], 513, section));
            put_scale(place, reference_bits(nextafterf(largest, INFINITY)) + (most[f] > 1.0f));
            assert_false(all_valid(formats[f], 513, section));
        }
}

static void codes_that_no_writer_makes_are_refused(void **state)
{
    (void)state;
    for (size_t at = 0; at < 300; at++) {
        uint8_t section[SECTION] = {0};
        size_t block = at / 256, in = at % 256;
        put_scale(section, 0x3f800000);
        put_scale(section + 260, 0x3f800000);
        section[block * 260 + 4 + in] = 0x81; // -127
        assert_true(all_valid(KERNELS_INT8, 300, section));
        section[block * 260 + 4 + in] = 0x80;
        assert_false(all_valid(KERNELS_INT8, 300, section));

        memset(section, 0, sizeof section); // minus zero
        put_scale(section + 4, 0x3f800000);
        put_scale(section + 136 + 4, 0x3f800000);
        section[block * 136 + 8 + in / 2] = (uint8_t)(15u << in % 2 * 4);
        assert_true(all_valid(KERNELS_INT4, 300, section));
        section[block * 136 + 8 + in / 2] = (uint8_t)(8u << in % 2 * 4);
        assert_false(all_valid(KERNELS_INT4, 300, section));
        put_scale(section + block * 136, 0x00800000); // with the smallest normal scale
        assert_true(all_valid(KERNELS_INT4, 300, section));

        memset(section, 0, sizeof section); // minus zero
        put_scale(section + 4, 0x3f800000);
        put_scale(section + 72 + 4, 0x3f800000);
        section[block * 72 + 8 + in / 4] = (uint8_t)(3u << in % 4 * 2);
        assert_true(all_valid(KERNELS_INT2, 300, section));
        section[block * 72 + 8 + in / 4] = (uint8_t)(2u << in % 4 * 2);
        assert_false(all_valid(KERNELS_INT2, 300, section));
    }
}

static void invalid_pairs_of_scales_are_refused(void **state)
{
    (void)state;
    static const enum kernels_format formats[] = {KERNELS_INT4, KERNELS_INT2};
    for (size_t f = 0; f < 2; f++) {
        uint8_t levels[9] = {0}; // the higher one first
        put_scale(levels, 0x3f800001);
        put_scale(levels + 4, 0x3f800000);
        assert_false(all_valid(formats[f], 1, levels));
        put_scale(levels, 0x3f800000);
        assert_true(all_valid(formats[f], 1, levels));
    }
    uint8_t small[9] = {0}; // levels in between would be denormal
    put_scale(small + 4, reference_bits(0x1p-94f));
    assert_true(all_valid(KERNELS_INT4, 1, small));
    put_scale(small + 4, reference_bits(0x1p-94f) - 1);
    assert_false(all_valid(KERNELS_INT4, 1, small));
}

static void codes_without_a_scale_and_set_padding_bits_are_refused(void **state)
{
    (void)state;
    static const enum kernels_format formats[] = {KERNELS_INT8, KERNELS_INT4, KERNELS_INT2, KERNELS_SIGN};
    static const size_t bits[] = {8, 4, 2, 1}, head[] = {4, 8, 8, 4};
    for (size_t f = 0; f < 4; f++)
        for (size_t at = 0; at < 300; at++)
            for (size_t count = 1; count <= 300; count += 23) {
                uint8_t section[SECTION] = {0};
                size_t block = kernels_section_bytes(formats[f], KERNELS_VALUES_BLOCK);
                size_t byte = at / 256 * block + head[f] + at % 256 * bits[f] / 8;
                if (byte >= kernels_section_bytes(formats[f], count))
                    continue;
                section[byte] = (uint8_t)(1u << at % 256 * bits[f] % 8);
                assert_false(all_valid(formats[f], count, section)); // the scale is 0
                put_scale(section, 0x3f800000);
                put_scale(section + head[f] - 4, 0x3f800000);
                if (count > 256) {
                    put_scale(section + block, 0x3f800000);
                    put_scale(section + block + head[f] - 4, 0x3f800000);
                }
                assert_int_equal(all_valid(formats[f], count, section), at < count);
            }
}

// On the tail of a Gaussian, eight levels must be better than two, two better than one, and one much better
// than zero.
static void more_levels_keep_more_energy(void **state)
{
    (void)state;
    struct base_rng rng;
    base_rng_seed(&rng, seed + 2);
    double left[KERNELS_FORMATS] = {0}, all = 0;
    for (size_t block = 0; block < 200; block++) {
        float from[KERNELS_VALUES_BLOCK], value[KERNELS_VALUES_BLOCK];
        uint8_t section[SECTION];
        for (size_t i = 0; i < KERNELS_VALUES_BLOCK;) {
            from[i] = (float)base_rng_normal(&rng);
            i += fabsf(from[i]) > 2.576f; // the top one percent
        }
        for (unsigned format = 0; format < KERNELS_FORMATS; format++) {
            memcpy(value, from, sizeof from);
            paths[0]->write((enum kernels_format)format, KERNELS_VALUES_BLOCK, value, section);
            for (size_t i = 0; i < KERNELS_VALUES_BLOCK; i++) {
                double rest = (double)from[i] - (double)value[i];
                left[format] += rest * rest;
                all += format == 0 ? (double)from[i] * (double)from[i] : 0.0;
            }
        }
    }
    for (unsigned format = 0; format < KERNELS_FORMATS; format++)
        printf("format %u leaves %.2e of the energy\n", format, left[format] / all);
    assert_true(left[KERNELS_SIGN] < 0.02 * all);
    assert_true(left[KERNELS_INT2] < 0.4 * left[KERNELS_SIGN]);
    assert_true(left[KERNELS_INT4] < 0.2 * left[KERNELS_INT2]);
    assert_true(left[KERNELS_INT8] < 1e-4 * all && left[KERNELS_FP16] < left[KERNELS_BF16]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_matches_the_reference),
        cmocka_unit_test(values_of_a_tail_match_the_reference),
        cmocka_unit_test(values_at_the_ends_of_the_range_match_the_reference),
        cmocka_unit_test(int4_levels_ascend),
        cmocka_unit_test(every_binary16_is_converted_exactly),
        cmocka_unit_test(middles_round_to_even),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(invalid_scales_are_refused),
        cmocka_unit_test(codes_that_no_writer_makes_are_refused),
        cmocka_unit_test(invalid_pairs_of_scales_are_refused),
        cmocka_unit_test(codes_without_a_scale_and_set_padding_bits_are_refused),
        cmocka_unit_test(more_levels_keep_more_energy),
    };
    seed = vectors_seed();
    for (size_t p = 0; p < sizeof path_names / sizeof path_names[0]; p++) {
        const struct kernels *table = kernels_cpu_table(path_names[p]);
        if (!table)
            printf("path %s is not tested: this processor lacks it\n", path_names[p]);
        else
            paths[n_paths++] = table->values;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
