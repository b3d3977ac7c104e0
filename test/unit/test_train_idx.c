// IDX files: what they become, and everything that can be wrong with them.
#include "base/limits.h"
#include "test/support/data_sets.h"
#include "train/dataset.h"
#include "train/loaders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define IMAGES 3u
#define VALUES (IMAGES * 2 * 2)

// Three images of 2 x 2 and their labels, with one spare byte behind each.
struct sample {
    uint8_t images[16 + VALUES + 1], labels[8 + IMAGES + 1];
    size_t image_bytes, label_bytes;
};

static struct sample good_sample(void)
{
    struct sample sample = {.images = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2},
                            .labels = {0, 0, 8, 1, 0, 0, 0, 3, 4, 0, 9},
                            .image_bytes = 16 + VALUES,
                            .label_bytes = 8 + IMAGES};
    for (size_t i = 0; i < VALUES; i++)
        sample.images[16 + i] = (uint8_t)(i * 23);
    sample.images[16 + VALUES - 1] = 255;
    return sample;
}

static enum base_error parse(const struct sample *sample, size_t first, size_t count, size_t classes,
                             struct train_dataset *data, struct base_reason *why)
{
    struct train_bytes images = {"images", sample->images, sample->image_bytes};
    struct train_bytes labels = {"labels", sample->labels, sample->label_bytes};
    return train_idx_parse(&images, &labels, first, count, classes, data, why);
}

// It fails with this error and message, and leaves the caller's data set unchanged.
static void assert_fails(const struct sample *sample, enum base_error code, const char *text)
{
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(parse(sample, 0, 0, 10, &data, &why), code);
    if (!strstr(why.text, text))
        fail_msg("expected '%s' in '%s'", text, why.text);
    assert_int_equal(data.examples, 77);
    assert_null(data.x);
}

static void images_and_labels_are_read(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    struct train_dataset data;
    struct base_reason why = {""};
    assert_int_equal(parse(&sample, 0, 0, 10, &data, &why), BASE_OK);
    assert_int_equal(data.examples, IMAGES);
    assert_int_equal(data.features, 4);
    assert_int_equal(data.classes, 10);
    assert_int_equal((uintptr_t)data.x % 64, 0);
    for (size_t i = 0; i < VALUES; i++)
        assert_true(data.x[i] == (float)sample.images[16 + i] / 255.0f);
    assert_true(data.x[VALUES - 1] == 1.0f);
    assert_int_equal(data.labels[0], 4);
    assert_int_equal(data.labels[2], 9);
    train_dataset_destroy(&data);
    assert_null(data.x);
    assert_int_equal(data.examples, 0);
}

static void a_range_of_examples_is_read(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    struct train_dataset data;
    struct base_reason why = {""};
    assert_int_equal(parse(&sample, 1, 1, 10, &data, &why), BASE_OK);
    assert_int_equal(data.examples, 1);
    assert_int_equal(data.labels[0], 0);
    assert_true(data.x[0] == 92 / 255.0f);
    train_dataset_destroy(&data);
    assert_int_equal(parse(&sample, 1, 3, 10, &data, &why), BASE_EINVAL);
    assert_string_equal(why.text, "images has 3 examples, but 3 from number 1 on were asked for");
    assert_int_equal(parse(&sample, 3, 0, 10, &data, &why), BASE_EINVAL);
    assert_int_equal(parse(&sample, 1, SIZE_MAX, 10, &data, &why), BASE_EINVAL);
    assert_int_equal(parse(&sample, 0, 0, 0, &data, &why), BASE_EINVAL);
    assert_int_equal(parse(&sample, 0, 0, LIMIT_CLASSES + 1, &data, &why), BASE_EINVAL);
}

static void wrong_lengths_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    sample.image_bytes--;
    assert_fails(&sample, BASE_EFORMAT, "images: truncated, fewer bytes than the 3 images of 2 x 2");
    sample.image_bytes += 2;
    assert_fails(&sample, BASE_EFORMAT, "images: more bytes than the 3 images of 2 x 2");
    sample.image_bytes = 11;
    assert_fails(&sample, BASE_EFORMAT,
                 "images: the file ends inside its header, expected an IDX header of 16 bytes");
    sample.image_bytes = 0;
    assert_fails(&sample, BASE_EFORMAT, "images: the file is empty");
    sample = good_sample();
    sample.label_bytes--;
    assert_fails(&sample, BASE_EFORMAT, "labels: truncated, fewer bytes than the 3 labels");
    sample.label_bytes += 2;
    assert_fails(&sample, BASE_EFORMAT, "labels: more bytes than the 3 labels");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    struct train_dataset data;
    struct base_reason why;
    for (sample.image_bytes = 0; sample.image_bytes < 16 + VALUES; sample.image_bytes++)
        assert_int_equal(parse(&sample, 0, 0, 10, &data, &why), BASE_EFORMAT);
    for (sample.label_bytes = 0; sample.label_bytes < 8 + IMAGES; sample.label_bytes++)
        assert_int_equal(parse(&sample, 0, 0, 10, &data, &why), BASE_EFORMAT);
}

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    sample.images[0] = 'P';
    assert_fails(&sample, BASE_EFORMAT,
                 "images: starts with 50000803, expected 00000803 (IDX images): is it an IDX");
    sample.images[0] = 0;
    sample.images[3] = 1;
    assert_fails(&sample, BASE_EFORMAT, "are the names of images and labels swapped?");
    sample.images[3] = 4;
    assert_fails(&sample, BASE_EFORMAT, "another number of dimensions");
    sample.images[3] = 3;
    sample.images[2] = 0x0d;
    assert_fails(&sample, BASE_EFORMAT, "another type of values than unsigned bytes");
    sample = good_sample();
    sample.labels[3] = 3;
    assert_fails(&sample, BASE_EFORMAT, "labels: starts with 00000803, expected 00000801 (IDX labels)");
    sample = good_sample();
    sample.images[11] = 0;
    assert_fails(&sample, BASE_EFORMAT, "images: dimension 2 of 3 is 0");
}

static void huge_sizes_in_a_header_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    sample.images[4] = 0x80; // 2^31 + 3 images of 4 bytes
    assert_fails(&sample, BASE_ELIMIT, "images: the header states more than the limit of 2147483648 values");
    sample = good_sample();
    memset(sample.images + 4, 0xff, 12);
    assert_fails(&sample, BASE_ELIMIT, "images: the header states more than the limit");
    sample = good_sample();
    sample.images[4] = sample.labels[4] = 0x1f; // within the limit, but not in the file
    assert_fails(&sample, BASE_EFORMAT, "truncated, fewer bytes");
}

static void wrong_labels_and_counts_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    sample.labels[9] = 10;
    assert_fails(&sample, BASE_EFORMAT, "labels: label 1 is 10, expected 0 to 9 (10 classes)");
    sample = good_sample();
    sample.labels[7] = 2;
    sample.label_bytes--;
    assert_fails(&sample, BASE_EMISMATCH, "images has 3 images, but labels has 2 labels");
}

struct packed {
    uint8_t images[256], labels[256];
    size_t image_bytes, label_bytes;
};

static uint32_t crc32_of(const uint8_t *data, size_t bytes)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

// One gzip member (RFC 1952) with one stored block (RFC 1951, section 3.2.4): bytes + 23 bytes.
static size_t pack(const uint8_t *data, size_t bytes, uint8_t *out, size_t capacity)
{
    uint8_t head[15] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1};
    assert_true(bytes + 23 <= capacity && bytes < 256);
    head[11] = (uint8_t)bytes;
    head[13] = (uint8_t)~bytes;
    head[14] = 0xff;
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, data, bytes);
    uint8_t *tail = out + sizeof head + bytes;
    uint32_t crc = crc32_of(data, bytes);
    for (int k = 0; k < 4; k++) {
        tail[k] = (uint8_t)(crc >> 8 * k);
        tail[4 + k] = k == 0 ? (uint8_t)bytes : 0;
    }
    return bytes + 23;
}

static struct packed pack_sample(const struct sample *sample)
{
    struct packed packed;
    packed.image_bytes = pack(sample->images, sample->image_bytes, packed.images, sizeof packed.images);
    packed.label_bytes = pack(sample->labels, sample->label_bytes, packed.labels, sizeof packed.labels);
    return packed;
}

static enum base_error parse_packed(const struct packed *packed, struct train_dataset *data,
                                    struct base_reason *why)
{
    struct train_bytes images = {"images.gz", packed->images, packed->image_bytes};
    struct train_bytes labels = {"labels.gz", packed->labels, packed->label_bytes};
    return train_idx_parse(&images, &labels, 0, 0, 10, data, why);
}

static void assert_packed_fails(const struct packed *packed, enum base_error code, const char *text)
{
    struct train_dataset data = {.examples = 77};
    struct base_reason why = {""};
    assert_int_equal(parse_packed(packed, &data, &why), code);
    if (!strstr(why.text, text))
        fail_msg("expected '%s' in '%s'", text, why.text);
    assert_int_equal(data.examples, 77);
}

static void a_gzip_file_reads_like_a_plain_one(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    struct packed packed = pack_sample(&sample);
    struct train_dataset plain, data;
    struct base_reason why = {""};
    assert_int_equal(parse(&sample, 0, 0, 10, &plain, &why), BASE_OK);
    assert_int_equal(parse_packed(&packed, &data, &why), BASE_OK);
    assert_int_equal(data.examples, IMAGES);
    assert_memory_equal(data.x, plain.x, VALUES * sizeof(float));
    assert_memory_equal(data.labels, plain.labels, IMAGES * sizeof(uint32_t));
    train_dataset_destroy(&data);
    packed.image_bytes = pack(sample.images, 20, packed.images, 128); // two members, one after the other
    packed.image_bytes +=
        pack(sample.images + 20, sample.image_bytes - 20, packed.images + packed.image_bytes, 128);
    assert_int_equal(parse_packed(&packed, &data, &why), BASE_OK);
    assert_memory_equal(data.x, plain.x, VALUES * sizeof(float));
    train_dataset_destroy(&data);
    train_dataset_destroy(&plain);
}

// What gzip itself makes of three blank images of 2 x 20.
static void a_deflated_gzip_file_is_read(void **state)
{
    (void)state;
    static const uint8_t blank[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63, 0x60,
                                    0xe0, 0x60, 0x66, 0x60, 0x60, 0x00, 0x61, 0x26, 0x20, 0x16, 0x61, 0x18,
                                    0x20, 0x00, 0x00, 0x1d, 0x6d, 0xb6, 0x3d, 0x88, 0x00, 0x00, 0x00};
    struct sample sample = good_sample();
    struct packed packed = pack_sample(&sample);
    memcpy(packed.images, blank, sizeof blank);
    packed.image_bytes = sizeof blank;
    struct train_dataset data;
    struct base_reason why = {""};
    if (parse_packed(&packed, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.features, 40);
    for (size_t i = 0; i < 120; i++)
        assert_true(data.x[i] == 0);
    train_dataset_destroy(&data);
}

static void damaged_gzip_files_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    struct packed good = pack_sample(&sample), packed = good;
    struct train_dataset data;
    struct base_reason why;
    for (packed.image_bytes = 2; packed.image_bytes < good.image_bytes; packed.image_bytes++)
        assert_int_equal(parse_packed(&packed, &data, &why), BASE_EFORMAT);
    packed.image_bytes = good.image_bytes - 9;
    assert_packed_fails(&packed, BASE_EFORMAT, "images.gz: the packed data end early, the file is truncated");
    packed = good;
    packed.images[packed.image_bytes - 6] ^= 1; // of the checksum
    assert_packed_fails(&packed, BASE_EFORMAT, "images.gz: incorrect data check");
    packed = good;
    memset(packed.images + packed.image_bytes, 'x', 20);
    packed.image_bytes += 20;
    assert_packed_fails(&packed, BASE_EFORMAT, "images.gz: incorrect header check");
}

static void wrong_lengths_in_gzip_are_refused(void **state)
{
    (void)state;
    struct sample sample = good_sample();
    sample.image_bytes--;
    struct packed packed = pack_sample(&sample);
    assert_packed_fails(&packed, BASE_EFORMAT,
                        "images.gz: truncated, fewer bytes than the 3 images of 2 x 2");
    sample.image_bytes += 2;
    packed = pack_sample(&sample);
    assert_packed_fails(&packed, BASE_EFORMAT, "images.gz: more bytes than the 3 images of 2 x 2");
    sample.image_bytes = 0;
    packed = pack_sample(&sample);
    assert_packed_fails(&packed, BASE_EFORMAT, "images.gz: the file is empty");
    sample = good_sample();
    sample.images[4] = sample.labels[4] = 0x1f; // 2 GB must not be allocated because of a header
    packed = pack_sample(&sample);
    assert_packed_fails(&packed, BASE_EFORMAT, "labels.gz: truncated, fewer bytes");
}

static void put(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void pairs_of_files_are_read(void **state)
{
    (void)state;
    char directory[] = "/tmp/p2pml-idx-XXXXXX", images[64], labels[64];
    assert_non_null(mkdtemp(directory));
    snprintf(images, sizeof images, "%s/images", directory);
    snprintf(labels, sizeof labels, "%s/labels", directory);
    struct sample sample = good_sample();
    struct packed packed = pack_sample(&sample);
    put(images, sample.images, sample.image_bytes);
    put(labels, packed.labels, packed.label_bytes);
    struct train_dataset data = {0};
    struct base_reason why = {""};
    assert_int_equal(train_dataset_load_idx(images, labels, 0, 2, 10, &data, &why), BASE_OK);
    assert_int_equal(data.examples, 2);
    train_dataset_destroy(&data);

    put(images, sample.images, 0);
    assert_int_equal(train_dataset_load_idx(images, labels, 0, 0, 10, &data, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "images: the file is empty"));
    assert_int_equal(train_dataset_load_idx(directory, labels, 0, 0, 10, &data, &why), BASE_EIO);
    assert_non_null(strstr(why.text, directory));
    unlink(images);
    assert_int_equal(train_dataset_load_idx(images, labels, 0, 0, 10, &data, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, images));
    assert_int_equal(train_dataset_load_idx(labels, images, 0, 0, 10, &data, &why), BASE_ENOTFOUND);
    assert_null(data.x);
    unlink(labels);
    rmdir(directory);
}

static void mnist_is_read(void **state)
{
    (void)state;
    const char *directory = data_sets_directory();
    if (!directory) {
        print_message("no data sets: neither P2PML_DATA nor ../shared/data\n");
        skip();
    }
    char images[512], labels[512];
    snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte.gz", directory);
    snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte.gz", directory);
    struct train_dataset data;
    struct base_reason why = {""};
    if (train_dataset_load_idx(images, labels, 0, 0, 10, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.examples, 10000);
    assert_int_equal(data.features, 784);
    uint64_t fnv = 0xcbf29ce484222325u; // FNV-1a of the pixels as bytes
    for (size_t i = 0; i < data.examples * data.features; i++)
        fnv = (fnv ^ (uint8_t)(data.x[i] * 255 + 0.5f)) * 0x100000001b3u;
    assert_true(fnv == 0x8614c3e55764d65fu);
    static const size_t expected[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    size_t seen[10] = {0};
    for (size_t i = 0; i < data.examples; i++)
        seen[data.labels[i]]++;
    assert_memory_equal(seen, expected, sizeof seen);
    train_dataset_destroy(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_and_labels_are_read),
        cmocka_unit_test(a_range_of_examples_is_read),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(huge_sizes_in_a_header_are_refused),
        cmocka_unit_test(wrong_labels_and_counts_are_refused),
        cmocka_unit_test(a_gzip_file_reads_like_a_plain_one),
        cmocka_unit_test(a_deflated_gzip_file_is_read),
        cmocka_unit_test(damaged_gzip_files_are_refused),
        cmocka_unit_test(wrong_lengths_in_gzip_are_refused),
        cmocka_unit_test(pairs_of_files_are_read),
        cmocka_unit_test(mnist_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
