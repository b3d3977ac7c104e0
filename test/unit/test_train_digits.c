// The built-in digits, and copies of rows.
#include "base/hash.h"
#include "train/dataset.h"
#include "train/glyphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PIXELS 784u

static struct train_dataset digits(uint64_t seed, uint64_t first, size_t count)
{
    struct train_dataset data;
    struct base_reason why = {""};
    if (train_dataset_make_digits(seed, first, count, &data, &why))
        fail_msg("%s", why.text);
    return data;
}

static void digits_have_shape_and_range(void **state)
{
    (void)state;
    struct train_dataset data = digits(1, 0, 500);
    assert_int_equal(data.examples, 500);
    assert_int_equal(data.features, PIXELS);
    assert_int_equal(data.classes, 10);
    assert_int_equal((uintptr_t)data.x % 64, 0);
    for (size_t i = 0; i < 500; i++) {
        size_t dark = 0;
        for (size_t p = 0; p < PIXELS; p++) {
            float value = data.x[i * PIXELS + p];
            assert_true(value >= 0 && value <= 1);
            dark += value > 0.4f;
        }
        if (dark < 8 || dark > PIXELS / 2)
            fail_msg("digit %zu, a %u, has %zu dark pixels", i, data.labels[i], dark);
    }
    train_dataset_destroy(&data);
}

static void digits_depend_only_on_seed_and_number(void **state)
{
    (void)state;
    struct train_dataset all = digits(5, 0, 60), later = digits(5, 40, 20), other = digits(6, 40, 20);
    assert_memory_equal(later.x, all.x + 40 * PIXELS, 20 * PIXELS * sizeof(float));
    assert_memory_equal(later.labels, all.labels + 40, 20 * sizeof(uint32_t));
    for (size_t i = 0; i < 20; i++)
        assert_memory_not_equal(later.x + i * PIXELS, other.x + i * PIXELS, PIXELS * sizeof(float));
    train_dataset_destroy(&all);
    train_dataset_destroy(&later);
    train_dataset_destroy(&other);
}

// Only operations with exactly one result are used, so this holds on every machine and compiler.
static void digits_are_the_same_on_every_machine(void **state)
{
    (void)state;
    struct train_dataset data = digits(1, 0, 100);
    uint64_t hash = base_hash_vector(data.x, 100 * PIXELS) + base_hash_bytes(1, data.labels, 400);
    if (hash != 0xcf63ee38ba72a351u)
        fail_msg("the pictures changed: their hash is %#llx", (unsigned long long)hash);
    train_dataset_destroy(&data);
}

static void every_class_is_equally_frequent(void **state)
{
    (void)state;
    struct train_dataset data = digits(3, 1000, 4000);
    size_t seen[10] = {0};
    for (size_t i = 0; i < data.examples; i++)
        seen[data.labels[i]]++;
    for (size_t c = 0; c < 10; c++)
        assert_in_range(seen[c], 320, 480); // 400 +- 4 standard deviations
    train_dataset_destroy(&data);
}

// Nearest class mean of 2,000 digits: far better than chance, so labels belong to pictures, and far from
// perfect.
static void digits_can_be_told_apart(void **state)
{
    (void)state;
    struct train_dataset data = digits(4, 0, 3000);
    static double means[10][PIXELS];
    size_t seen[10] = {0}, right = 0;
    for (size_t i = 0; i < 2000; i++) {
        seen[data.labels[i]]++;
        for (size_t p = 0; p < PIXELS; p++)
            means[data.labels[i]][p] += (double)data.x[i * PIXELS + p];
    }
    for (size_t i = 2000; i < 3000; i++) {
        double nearest = 1e300;
        uint32_t best = 0;
        for (uint32_t c = 0; c < 10; c++) {
            double distance = 0;
            for (size_t p = 0; p < PIXELS; p++) {
                double d = means[c][p] / (double)seen[c] - (double)data.x[i * PIXELS + p];
                distance += d * d;
            }
            best = distance < nearest ? c : best;
            nearest = distance < nearest ? distance : nearest;
        }
        right += best == data.labels[i];
    }
    print_message("nearest mean: %zu of 1000\n", right);
    assert_in_range(right, 500, 850);
    train_dataset_destroy(&data);
}

static void invalid_ranges_are_refused(void **state)
{
    (void)state;
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(train_dataset_make_digits(1, 0, 0, &data, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "0 examples"));
    assert_int_equal(train_dataset_make_digits(1, UINT64_MAX, 2, &data, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "2 digits from number 18446744073709551615 on"));
    assert_int_equal(train_dataset_make_digits(1, 0, (size_t)1 << 32, &data, &why), BASE_ELIMIT);
    assert_non_null(strstr(why.text, "over the limit of 2147483648 values"));
    assert_int_equal(train_dataset_make_digits(1, 0, SIZE_MAX, &data, &why), BASE_ELIMIT);
    assert_int_equal(data.examples, 77);
    struct train_dataset last = digits(1, UINT64_MAX, 1);
    train_dataset_destroy(&last);
}

static void glyphs_stay_within_their_bounds(void **state)
{
    (void)state;
    for (unsigned digit = 0; digit < 10; digit++) {
        size_t ways;
        const struct glyph *glyphs = train_glyphs_of(digit, &ways);
        assert_in_range(ways, 3, 10);
        for (size_t w = 0; w < ways; w++) {
            size_t points = 0;
            for (size_t s = 0; s < GLYPH_STROKES; s++) {
                assert_int_not_equal(glyphs[w].points[s], 1);
                points += glyphs[w].points[s];
            }
            assert_in_range(points, 2, GLYPH_POINTS);
            for (size_t i = 0; i < GLYPH_POINTS; i++) { // the number of points follows from the strokes
                bool given = glyphs[w].at[i][0] != 0 || glyphs[w].at[i][1] != 0;
                assert_int_equal(given, i < points);
                assert_true(glyphs[w].at[i][0] <= 100 && glyphs[w].at[i][1] <= 100);
            }
        }
    }
}

static void subset_copies_rows(void **state)
{
    (void)state;
    struct train_dataset data = digits(9, 0, 10), subset = {0};
    static const uint32_t rows[3] = {7, 0, 7};
    assert_int_equal(train_dataset_subset(&data, rows, 3, &subset), BASE_OK);
    assert_int_equal(subset.examples, 3);
    assert_int_equal(subset.features, PIXELS);
    assert_int_equal(subset.classes, 10);
    assert_int_equal((uintptr_t)subset.x % 64, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(subset.x + i * PIXELS, data.x + rows[i] * PIXELS, PIXELS * sizeof(float));
        assert_int_equal(subset.labels[i], data.labels[rows[i]]);
    }
    train_dataset_destroy(&subset);
    static const uint32_t beyond[1] = {10};
    assert_int_equal(train_dataset_subset(&data, beyond, 1, &subset), BASE_EINVAL);
    assert_int_equal(train_dataset_subset(&data, rows, 0, &subset), BASE_EINVAL);
    assert_null(subset.x);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_have_shape_and_range),
        cmocka_unit_test(digits_depend_only_on_seed_and_number),
        cmocka_unit_test(digits_are_the_same_on_every_machine),
        cmocka_unit_test(every_class_is_equally_frequent),
        cmocka_unit_test(digits_can_be_told_apart),
        cmocka_unit_test(invalid_ranges_are_refused),
        cmocka_unit_test(glyphs_stay_within_their_bounds),
        cmocka_unit_test(subset_copies_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
