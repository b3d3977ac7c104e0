// Folders of images: classes, sizes, colours, and everything that can be wrong with them.
#include "test/support/folder.h"
#include "train/image.h"
#include "train/images.h"

#include "pictures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define WRITE(name, bytes) folder_write(name, bytes, sizeof(bytes) - 1)

static int make_folder(void **state)
{
    folder_make(state);
    assert_int_equal(mkdir(folder_path("b"), 0700), 0); // not in alphabetical order
    assert_int_equal(mkdir(folder_path("a"), 0700), 0);
    return 0;
}

static enum base_error load(struct train_images_options options, struct train_dataset *data,
                            struct base_reason *why)
{
    why->text[0] = 0;
    return train_dataset_load_images(folder, &options, data, why);
}

static void every_folder_is_a_class(void **state)
{
    (void)state;
    struct train_dataset data = {0}, test = {0};
    struct base_reason why;
    WRITE("b/1.png", grey_png);
    WRITE("a/x.JPG", grey_jpeg);
    WRITE("a/w.png", grey_png);
    WRITE("a/.hidden", "");
    WRITE("README", "");
    if (load((struct train_images_options){0}, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.examples, 3);
    assert_int_equal(data.features, 4);
    assert_memory_equal(data.labels, ((const uint32_t[]){0, 0, 1}), 12);
    assert_string_equal(data.meaning->classes.items[1], "b");
    assert_true(data.x[1] == 1.0f && data.x[2] == 51.0f / 255.0f);      // a/w.png
    assert_true(fabs((double)data.x[4] - 128.0 / 255.0) < 2.0 / 255.0); // a/x.JPG
    if (load((struct train_images_options){.like = data.meaning}, &test, &why))
        fail_msg("%s", why.text);
    assert_memory_equal(test.x, data.x, 12 * sizeof(float));
    train_dataset_destroy(&test);
    train_dataset_destroy(&data);
}

// The mean of the area: 4 x 2 to 2 x 1, and 2 x 2 to 1 x 1 with three colours.
static void images_are_converted_to_one_size_and_colour(void **state)
{
    (void)state;
    struct train_dataset data = {0};
    struct base_reason why;
    WRITE("b/1.png", colour_png);
    WRITE("a/1.png", wide_png);
    if (load((struct train_images_options){.width = 1, .height = 1, .channels = 3}, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.features, 3);
    const double grey = (4 * 0 + 255 + 255 + 10 + 20 + 30 + 40) / 8.0 / 255.0;
    assert_true(fabs((double)data.x[0] - grey) < 1e-6 && data.x[0] == data.x[2]);
    assert_true(fabs((double)data.x[3] - (255 + 10) / 4.0 / 255.0) < 1e-6);
    train_dataset_destroy(&data);
    struct train_picture image = {3, 1, 1, (uint8_t[]){0, 90, 30}};
    float two[2];
    train_image_fit(&image, 2, 1, two); // 1.5 pixels each
    assert_true(fabs((double)two[0] * 255 - 30) < 1e-4 && fabs((double)two[1] * 255 - 50) < 1e-4);
}

static void an_error_names_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *name, *message; // after the name of the folder
    } wrong[] = {
        {wide_png, sizeof wide_png - 1, "b/1.png",
         "/b/1.png: found 4 x 2 pixels, expected 2 x 2 like the first; data.image_size converts them to one "
         "size"},
        {colour_png, sizeof colour_png - 1, "b/1.png",
         "/b/1.png: found a colour image, expected a grey one like the first; data.image_colour: grey or rgb "
         "converts all of them"},
        {"", 0, "b/1.png", "/b/1.png: the file is empty, expected the bytes of a PNG or JPEG"},
        {"GIF89a..", 8, "b/1.png", "/b/1.png: begins like neither, expected the bytes of a PNG or JPEG"},
        {grey_png, sizeof grey_png - 22, "b/1.png", "/b/1.png: the PNG is damaged: "},
        {grey_jpeg, sizeof grey_jpeg - 6, "b/1.jpeg", "/b/1.jpeg: is not a complete JPEG: "},
        {"", 0, "b/labels.csv",
         "/b/labels.csv: is not a .png, .jpg or .jpeg, and the folder of a class may contain nothing else"},
    };
    struct train_dataset data = {.examples = 77};
    struct base_reason why;
    WRITE("a/1.png", grey_png);
    WRITE("b/0.png", grey_png);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        folder_write(wrong[i].name, wrong[i].bytes, wrong[i].count);
        assert_int_not_equal(load((struct train_images_options){0}, &data, &why), BASE_OK);
        assert_memory_equal(why.text, folder, strlen(folder));
        if (strncmp(why.text + strlen(folder), wrong[i].message, strlen(wrong[i].message)) != 0)
            fail_msg("found \"%s\", expected \"%s\"", why.text + strlen(folder), wrong[i].message);
        remove(folder_path(wrong[i].name));
    }
    assert_int_equal(load((struct train_images_options){0}, &data, &why), BASE_OK);
    struct train_dataset other = {0};
    assert_int_equal(mkdir(folder_path("c"), 0700), 0);
    WRITE("c/1.png", grey_png);
    assert_int_equal(load((struct train_images_options){.like = data.meaning}, &other, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "found a folder \"c\", expected one of the 2 classes"));
    train_dataset_destroy(&data);
    remove(folder_path("c/1.png"));
    assert_int_equal(load((struct train_images_options){0}, &data, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "/c: is empty, expected the images of a class"));
}

// Whatever the bytes are, an orientation from 1 to 8 comes out, and no byte behind them is read (asan).
static void any_exif_data_have_an_orientation(void **state)
{
    (void)state;
    static const uint8_t turned[] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                     0,   1,   0,   0, 0, 6, 0, 0, 0, 0, 0,    0, 0};
    assert_int_equal(train_exif_orientation(turned, sizeof turned), 6);
    for (size_t bytes = 0; bytes <= sizeof turned; bytes++)
        for (size_t at = 0; at < bytes; at++) {
            uint8_t *copy = malloc(bytes);
            assert_non_null(copy);
            memcpy(copy, turned, bytes);
            copy[at] ^= 0xff;
            assert_in_range(train_exif_orientation(copy, bytes), 1, 8);
            free(copy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_folder_is_a_class, make_folder, folder_remove),
        cmocka_unit_test_setup_teardown(images_are_converted_to_one_size_and_colour, make_folder,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(an_error_names_the_file, make_folder, folder_remove),
        cmocka_unit_test(any_exif_data_have_an_orientation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
