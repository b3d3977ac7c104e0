// CIFAR-10's binary files, valid and broken; random crops and flips.
#include "test/support/folder.h"
#include "train/augment.h"
#include "train/cifar.h"
#include "train/loaders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RECORD 3073u

// Two images; pixel p of channel c of image i is (7 p + 50 c + i) mod 256.
static void fill(uint8_t records[2 * RECORD], uint8_t first_label)
{
    for (size_t i = 0; i < 2; i++) {
        uint8_t *record = records + i * RECORD;
        record[0] = (uint8_t)(first_label + i);
        for (size_t k = 0; k < RECORD - 1; k++)
            record[1 + k] = (uint8_t)(7 * (k % 1024) + 50 * (k / 1024) + i);
    }
}

static void colour_planes_become_pixels(void **state)
{
    (void)state;
    uint8_t records[2 * RECORD];
    struct train_dataset data = {0};
    struct base_reason why = {""};
    fill(records, 3);
    const struct train_bytes file = {"batch", records, sizeof records};
    assert_int_equal(train_cifar10_parse(&file, 1, &data, &why), BASE_OK);
    assert_int_equal(data.examples, 2);
    assert_int_equal(data.features, 3072);
    assert_int_equal(data.classes, 10);
    assert_true(data.height == 32 && data.width == 32 && data.channels == 3);
    assert_int_equal(data.labels[1], 4);
    assert_string_equal(data.meaning->classes.items[data.labels[0]], "cat");
    for (size_t p = 0; p < 1024; p++)
        for (size_t c = 0; c < 3; c++)
            assert_true(data.x[3072 + 3 * p + c] == (float)((7 * p + 50 * c + 1) % 256) / 255.0f);
    train_dataset_destroy(&data);
}

static void a_folder_is_read_in_order(void **state)
{
    (void)state;
    uint8_t records[2 * RECORD];
    struct train_dataset data = {0};
    struct base_reason why = {""};
    for (uint8_t f = 2; f >= 1; f--) {
        char name[32];
        fill(records, (uint8_t)(2 * f));
        snprintf(name, sizeof name, "data_batch_%u.bin", f);
        folder_write(name, records, sizeof records);
    }
    fill(records, 8);
    folder_write("test_batch.bin", records, sizeof records);
    if (train_dataset_load_cifar10(folder, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.examples, 4);
    assert_memory_equal(data.labels, ((const uint32_t[]){2, 3, 4, 5}), 16);
    train_dataset_destroy(&data);
    assert_int_equal(train_dataset_load_cifar10("/nonexistent", &data, &why), BASE_ENOTFOUND);
}

static void refused(const uint8_t *bytes, size_t count, const char *text)
{
    struct train_dataset data = {0};
    struct base_reason why = {""};
    const struct train_bytes file = {"batch", bytes, count};
    assert_int_equal(train_cifar10_parse(&file, 1, &data, &why), BASE_EFORMAT);
    if (!strstr(why.text, text) || !strstr(why.text, "batch"))
        fail_msg("%s: expected '%s'", why.text, text);
    assert_null(data.x);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    uint8_t records[2 * RECORD];
    fill(records, 9); // the second label is 10
    refused(records, 2 * RECORD, "the label of image 1 is 10, expected 0 to 9");
    refused(records, 2 * RECORD - 1, "found 6145 bytes");
    refused(records, 0, "it is empty");
}

// An image whose values show where they were: 1 + 100 y + x, in both channels.
#define SIDE 6u
static const struct train_dataset images = {
    .examples = 1, .features = SIDE * SIDE * 2, .height = SIDE, .width = SIDE, .channels = 2};

static void make_image(float image[SIDE * SIDE * 2])
{
    for (size_t i = 0; i < SIDE * SIDE * 2; i++)
        image[i] = (float)(1 + 100 * (i / 2 / SIDE) + i / 2 % SIDE);
}

static float pixel(const float *image, long y, long x)
{
    return y < 0 || x < 0 || y >= (long)SIDE || x >= (long)SIDE ? 0.0f
                                                                : image[2 * ((size_t)y * SIDE + (size_t)x)];
}

// Finds the one shift (and flip) that turns `from` into `to`.
static bool explain(const float *from, const float *to, long crop, long found[3])
{
    for (long down = -crop; down <= crop; down++)
        for (long right = -crop; right <= crop; right++)
            for (long flip = 0; flip < 2; flip++) {
                bool same = true;
                for (long i = 0; i < (long)(SIDE * SIDE); i++) {
                    const long y = i / (long)SIDE, x = i % (long)SIDE;
                    const float wanted = pixel(from, y + down, (flip ? (long)SIDE - 1 - x : x) + right);
                    same = same && to[2 * i] == wanted && to[2 * i + 1] == wanted;
                }
                if (same) {
                    found[0] = down;
                    found[1] = right;
                    found[2] = flip;
                    return true;
                }
            }
    return false;
}

static void every_shift_and_flip_is_equally_likely(void **state)
{
    (void)state;
    enum { CROP = 2, SHIFTS = 2 * CROP + 1, DRAWS = 5000 };
    const struct train_augment augment = {.crop = CROP, .flip = true};
    float from[SIDE * SIDE * 2], to[SIDE * SIDE * 2], again[SIDE * SIDE * 2];
    size_t counts[SHIFTS][SHIFTS][2] = {0};
    make_image(from);
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        long found[3] = {0};
        train_augment_image(&augment, &images, draw, from, to);
        train_augment_image(&augment, &images, draw, from, again);
        assert_memory_equal(to, again, sizeof to);
        assert_true(explain(from, to, CROP, found));
        counts[found[0] + CROP][found[1] + CROP][found[2]]++;
    }
    const double mean = (double)DRAWS / (SHIFTS * SHIFTS * 2);
    for (size_t i = 0; i < SHIFTS * SHIFTS * 2; i++) {
        const size_t count = counts[i / (2 * SHIFTS)][i / 2 % SHIFTS][i % 2];
        if ((double)count < mean / 2 || (double)count > mean * 1.5)
            fail_msg("shift %zu came %zu times, expected about %.0f", i, count, mean);
    }
}

static void flips_without_crops_lose_nothing(void **state)
{
    (void)state;
    const struct train_augment augment = {.flip = true};
    float from[SIDE * SIDE * 2], to[SIDE * SIDE * 2];
    size_t flipped = 0;
    make_image(from);
    for (uint64_t draw = 0; draw < 100; draw++) {
        long found[3] = {0};
        train_augment_image(&augment, &images, draw, from, to);
        assert_true(explain(from, to, 0, found));
        flipped += (size_t)found[2];
    }
    assert_in_range(flipped, 30, 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colour_planes_become_pixels),
        cmocka_unit_test(a_folder_is_read_in_order),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(every_shift_and_flip_is_equally_likely),
        cmocka_unit_test(flips_without_crops_lose_nothing),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
