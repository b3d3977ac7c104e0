// Files of all kinds through the configuration of a node: what is split, scaled and shared; and 24 wrong
// files, each with its name or line, what was found and what was expected.
#include "node/config/compatibility.h"
#include "node/config/config.h"
#include "node/learn/data.h"
#include "node/learn/takeover.h"
#include "test/support/folder.h"

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

// "@" in a setting stands for the folder.
static struct node_config configure(const char *settings)
{
    struct node_config config;
    struct base_reason why = {""};
    char text[512], *rest = text;
    memset(&config, 0, sizeof config);
    snprintf(text, sizeof text, "%s", settings);
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    for (char *word; (word = strsep(&rest, " "));) {
        char assignment[512];
        const char *at = strchr(word, '@');
        if (!word[0])
            continue;
        if (at)
            snprintf(assignment, sizeof assignment, "%.*s%s/%s", (int)(at - word), word, folder, at + 1);
        else
            snprintf(assignment, sizeof assignment, "%s", word);
        if (node_schema_set(&node_config_schema, assignment, &config, &why))
            fail_msg("%s", why.text);
    }
    return config;
}

static enum base_error load(const char *settings, struct train_dataset *train, struct train_dataset *test,
                            struct base_reason *why)
{
    struct node_config config = configure(settings);
    enum base_error error = node_config_check(&config, why);
    if (!error)
        error = node_data_load(&config, config.data.shard, train, test, why);
    node_schema_free(&node_config_schema, &config);
    return error;
}

static void load_well(const char *settings, struct train_dataset *train, struct train_dataset *test)
{
    struct base_reason why = {""};
    if (load(settings, train, test, &why))
        fail_msg("%s", why.text);
}

static void write_table(const char *name, size_t rows, double step)
{
    FILE *file = fopen(folder_path(name), "w");
    assert_non_null(file);
    fprintf(file, "a,b,y\n");
    for (size_t i = 0; i < rows; i++)
        fprintf(file, "%g,%zu,%s\n", step * (double)i, i % 7, i % 3 ? "no" : "yes");
    fclose(file);
}

#define CSV "data.kind=csv data.train_file=@t.csv "

// Every example occurs once, for training or for testing, the same for all nodes, and is scaled by the
// training examples.
static void one_file_is_split_and_scaled(void **state)
{
    (void)state;
    struct train_dataset train = {0}, test = {0}, shard = {0}, plain = {0};
    write_table("t.csv", 100, 1);
    load_well(CSV "data.scale=standard", &train, &test);
    load_well(CSV, &plain, NULL);
    assert_in_range(test.examples, 10, 30); // each draws for itself
    assert_int_equal(train.examples + test.examples, 100);
    assert_int_equal(train.whole, train.examples);
    assert_true(train.meaning == test.meaning);
    double mean = 0, square = 0;
    const double n = (double)train.examples;
    for (size_t i = 0; i < train.examples; i++) {
        const double x = (double)train.x[2 * i], there = (double)plain.x[2 * i];
        mean += x / n;
        square += x * x / n;
        assert_true(fabs((there - (double)train.meaning->shift[0]) * (double)train.meaning->factor[0] - x) <
                    1e-5);
        for (size_t k = 0; k < test.examples; k++)
            assert_true(train.x[2 * i] != test.x[2 * k]);
    }
    assert_true(fabs(mean) < 1e-5 && fabs(square - 1) < 1e-5);
    // A shard is scaled as all examples are, not by itself.
    load_well(CSV "data.scale=standard data.shards=4 data.shard=2", &shard, NULL);
    assert_in_range(shard.examples, train.examples / 4, train.examples / 4 + 1);
    assert_true(train_meaning_digest(shard.meaning) == train_meaning_digest(train.meaning));
    train_dataset_destroy(&train);
    train_dataset_destroy(&test);
    train_dataset_destroy(&shard);
    train_dataset_destroy(&plain);
}

static void greet(const struct train_dataset *data, struct gossip_greeting *greeting)
{
    *greeting = (struct gossip_greeting){.parameters = 9};
    snprintf(greeting->model, sizeof greeting->model, "softmax 2-2");
    node_greeting_data(data->meaning, greeting->model, sizeof greeting->model);
    greeting->schema = 5 ^ train_meaning_digest(data->meaning);
}

// Nodes with different files refuse each other until they share the statistics of one.
static void nodes_must_share_statistics(void **state)
{
    (void)state;
    struct train_dataset a = {0}, b = {0};
    struct gossip_greeting ours, theirs;
    struct base_reason why = {""};
    write_table("t.csv", 100, 1);
    write_table("u.csv", 100, 3);
    load_well(CSV "data.scale=minmax", &a, NULL);
    load_well("data.kind=csv data.train_file=@u.csv data.scale=minmax", &b, NULL);
    greet(&a, &ours);
    greet(&b, &theirs);
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "its data mean something else: softmax 2-2, data "));
    assert_non_null(strstr(why.text, "name it in data.scale_from"));
    assert_int_equal(node_data_meaning_write(folder_path("stats"), a.meaning, &why), BASE_OK);
    train_dataset_destroy(&b);
    load_well("data.kind=csv data.train_file=@u.csv data.scale=minmax data.scale_from=@stats", &b, NULL);
    greet(&b, &theirs);
    assert_int_equal(node_greeting_compare(&ours, &theirs, &why), BASE_OK);
    assert_true(b.x[2 * (b.examples - 1)] > 1); // beyond the range of the statistics
    train_dataset_destroy(&b);
    assert_int_equal(load("data.kind=csv data.train_file=@u.csv data.scale_from=@stats", &b, NULL, &why),
                     BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "data.scale: found none, but "));
    train_dataset_destroy(&a);
}

static void data_without_columns_can_be_scaled_too(void **state)
{
    (void)state;
    struct train_dataset train = {0}, test = {0};
    folder_write("l", "1 1:10 2:1\n0 1:20 2:1\n1 1:30\n", 29);
    load_well("data.kind=libsvm data.features=2 data.classes=2 data.train_file=@l data.test_file=@l "
              "data.scale=minmax",
              &train, &test);
    assert_true(train.x[0] == 0 && train.x[2] == 0.5f && train.x[4] == 1 && train.x[5] == 0);
    assert_memory_equal(train.x, test.x, 6 * sizeof(float));
    train_dataset_destroy(&train);
    train_dataset_destroy(&test);
}

// A node that takes over a shard reads the table as at the start, even if the configuration has been freed.
static void a_shard_that_is_taken_over_is_read_as_at_the_start(void **state)
{
    (void)state;
    struct train_dataset own = {0};
    struct node_shards *shards = NULL;
    struct node_shards_set set;
    struct base_reason why = {""};
    FILE *file = fopen(folder_path("t.csv"), "w");
    assert_non_null(file);
    fprintf(file, "id;y;a\n");
    for (int i = 0; i < 60; i++)
        fprintf(file, "row %d;%d;%d\n", i, i % 2 + 5, 10 * i);
    fclose(file);
    struct node_config config = configure(
        CSV "data.delimiter=; data.target=y data.ignore=id data.scale=standard data.shards=2 model.loss=mae");
    assert_int_equal(node_data_load(&config, 0, &own, NULL, &why), BASE_OK);
    assert_int_equal(node_shards_create(&config, &own, &shards), BASE_OK);
    node_schema_free(&node_config_schema, &config);
    node_shards_want(shards, (const uint32_t[]){0}, 1);
    assert_true(node_shards_wait(shards, UINT64_MAX));
    assert_true(node_shards_ready(shards, 1, &set));
    assert_int_equal(set.data->examples, own.whole);
    assert_int_equal(set.data->outputs, 1);
    assert_true(train_meaning_digest(set.data->meaning) == train_meaning_digest(own.meaning));
    node_shards_destroy(shards, UINT64_MAX);
    train_dataset_destroy(&own);
}

#define NPY_HEAD "\x93NUMPY\x01\x00"
#define IDX      "data.kind=idx data.train_images=@x data.train_labels=@y data.test_images=@x data.test_labels=@y "
#define LIBSVM   "data.kind=libsvm data.features=3 data.classes=2 data.train_file=@x data.test_file=@x"
#define NPY      "data.kind=npy data.train_file=@x.npy data.train_labels=@x.npy "
#define IMAGES   "data.kind=images data.train_file=@images"

static const struct {
    const char *name, *bytes;
    size_t count;
    const char *settings, *message;
} wrong[] = {
#define FILE_OF(name, text) name, text, sizeof(text) - 1
    {FILE_OF("t.csv", ""), CSV, "t.csv: the file is empty, expected lines of columns"},
    {FILE_OF("t.csv", "a,y\n1,0\n2,1,5\n"), CSV, "t.csv:3: found 3 columns, expected 2 as in the first line"},
    {FILE_OF("t.csv", "a,y\n1,0\n?,1\n"), CSV,
     "t.csv:3: column 1 (a): found \"?\", a missing value, expected a value; fill it in or leave the line out"},
    {FILE_OF("t.csv", "a,y\n1,0\n\"x,1\n"), CSV, "t.csv:3: column 1: the quote is never closed"},
    {FILE_OF("t.csv", "a,y\n1,0\n2,1\n"), CSV "data.target=price",
     "t.csv: data.target: found no column \"price\", expected one of 2: a, y"},
    {FILE_OF("t.csv", "a;y\n1;0\n2;1\n"), CSV,
     "t.csv: found 1 columns, expected at least one besides the target; is data.delimiter right?"},
    {FILE_OF("t.csv", "a,y\n1,cheap\n2,dear\n"), CSV "model.loss=mse",
     "t.csv:2: column 2 (y): found \"cheap\", expected a finite decimal number"},
    {FILE_OF("t.csv", "\x1f\x8b\x08\x00zz"), CSV, "t.csv: "},
    {FILE_OF("u.csv", "a,y\n1,0\n2,9\n"), "data.kind=csv data.train_file=@good.csv data.test_file=@u.csv",
     "u.csv:3: column 2 (y): found \"9\", expected one of the 2 classes that the training examples have, "
     "from \"0\" to \"1\""},
    {FILE_OF("u.csv", "b,y\n1,0\n"), "data.kind=csv data.train_file=@good.csv data.test_file=@u.csv",
     "u.csv: found no column \"a\" among 2, expected it, as in the training examples"},
    {FILE_OF("x.npy", ""), NPY, "x.npy: does not begin like a .npy file, expected one (numpy.save)"},
    {FILE_OF("x.npy", NPY_HEAD "\xff\xff{"), NPY, "x.npy: the file ends inside its header"},
    {FILE_OF("x.npy", NPY_HEAD "\x3c\x00{'descr': '>f8', 'fortran_order': False, 'shape': (1, 2), }\n"), NPY,
     "x.npy: found the type '>f8', expected float32, float64"},
    {FILE_OF("x.npy", NPY_HEAD "\x3b\x00{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2), }\n12"), NPY,
     "x.npy: found Fortran order, expected C order"},
    {FILE_OF("x.npz", "PK\x03\x04 no zip"), "data.kind=npy data.train_file=@x.npz",
     "x.npz: no directory of a zip file at its end, expected a .npz as numpy.savez writes it"},
    {FILE_OF("x", "\x00\x00\x08\x01\x00\x00\x00\x01\x00"), IDX,
     "x: starts with 00000801, expected 00000803 (IDX images): are the names of images and labels swapped?"},
    {FILE_OF("x", ""), IDX, "x: the file is empty, expected an IDX header of 16 bytes"},
    {FILE_OF("x", "1 4:1\n"), LIBSVM, "x:1: index 4, but the data set was said to have 3 features"},
    {FILE_OF("x", "1 1:nan\n"), LIBSVM, "x:1: value \"nan\" of index 1 is not a finite decimal number"},
    {FILE_OF("images/b/1.png", "GIF89a  "), IMAGES,
     "images/b/1.png: begins like neither, expected the bytes of a PNG or JPEG"},
    {"images/b/1.png", wide_png, sizeof wide_png - 1, IMAGES,
     "images/b/1.png: found 4 x 2 pixels, expected 2 x 2 like the first; data.image_size converts them to one "
     "size"},
    {"images/b/1.jpg", grey_jpeg, 200, IMAGES, "images/b/1.jpg: is not a complete JPEG: "},
    {FILE_OF("images/b/notes.txt", "?"), IMAGES,
     "images/b/notes.txt: is not a .png, .jpg or .jpeg, and the folder of a class may contain nothing else"},
    {FILE_OF("stats", "{\"p2pml_data\": 1}"),
     "data.kind=csv data.train_file=@good.csv data.scale_from=@stats",
     "\"features\" is missing or not valid, expected what 'p2pml data info --stats' writes"},
    {FILE_OF("stats", "{,"), "data.kind=csv data.train_file=@good.csv data.scale_from=@stats",
     "stats:1: found "},
};

static void wrong_files_are_reported_with_their_place(void **state)
{
    (void)state;
    folder_write("good.csv", "a,y\n1,0\n2,1\n", 12);
    folder_write("y", "\x00\x00\x08\x01\x00\x00\x00\x01\x00", 9);
    mkdir(folder_path("images"), 0700);
    mkdir(folder_path("images/a"), 0700);
    mkdir(folder_path("images/b"), 0700);
    folder_write("images/a/1.png", grey_png, sizeof grey_png - 1);
    folder_write("images/b/0.png", grey_png, sizeof grey_png - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct train_dataset train = {.examples = 77}, test = {.examples = 77};
        struct base_reason why = {""};
        folder_write(wrong[i].name, wrong[i].bytes, wrong[i].count);
        if (!load(wrong[i].settings, &train, &test, &why) || !strstr(why.text, wrong[i].message))
            fail_msg("%zu: found \"%s\", expected \"%s\"", i, why.text, wrong[i].message);
        assert_true(train.examples == 77 && test.examples == 77);
        remove(folder_path(wrong[i].name));
    }
}

static void invalid_settings_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {CSV "data.delimiter=ab", "data.delimiter: found \"ab\", expected one character"},
        {CSV "data.test_first=5", "data.test_first: found a range without data.test_file"},
        {"model.loss=mse", "model.loss: found a regression with data.kind digits"},
        {CSV "model.loss=mse data.partition=dirichlet data.shards=2", "data.partition: found dirichlet"},
        {"data.kind=images data.train_file=@t.csv", "which cannot be read as a folder"},
        {"data.kind=images data.train_file=/tmp data.image_size=28",
         "data.image_size: found \"28\", expected width and height"},
        {"data.kind=npy data.train_file=@t.csv",
         "data.train_labels: found \"\", expected a file with the training labels"},
    };
    write_table("t.csv", 10, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_reason why = {""};
        struct node_config config = configure(cases[i][0]);
        if (!node_config_check(&config, &why) || !strstr(why.text, cases[i][1]))
            fail_msg("%s: found \"%s\", expected \"%s\"", cases[i][0], why.text, cases[i][1]);
        node_schema_free(&node_config_schema, &config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_file_is_split_and_scaled, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(nodes_must_share_statistics, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(data_without_columns_can_be_scaled_too, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(a_shard_that_is_taken_over_is_read_as_at_the_start, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(wrong_files_are_reported_with_their_place, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(invalid_settings_are_refused, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
