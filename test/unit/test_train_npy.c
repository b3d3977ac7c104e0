// NumPy's arrays: what they become, and everything that can be wrong with them.
#include "train/loaders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

enum { ROOM = 1024 };

struct file {
    uint8_t bytes[ROOM];
    size_t count;
};

static void put(struct file *f, const void *bytes, size_t count)
{
    assert_true(count <= ROOM - f->count);
    memcpy(f->bytes + f->count, bytes, count);
    f->count += count;
}

static void put_number(struct file *f, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        put(f, &(uint8_t){i < 8 ? (uint8_t)(value >> (8 * i)) : 0}, 1);
}

// As numpy.save writes it: `header` is the dictionary.
static struct file npy(const char *header, const void *values, size_t bytes)
{
    struct file f = {{0}, 0};
    put(&f, "\x93NUMPY\x01\x00", 8);
    put_number(&f, strlen(header) + 1, 2);
    put(&f, header, strlen(header));
    put(&f, "\n", 1);
    put(&f, values, bytes);
    return f;
}

#define HEADER(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }"

static struct train_bytes of(const struct file *f, const char *name)
{
    return (struct train_bytes){name, f->bytes, f->count};
}

static enum base_error parse(const struct file *x, const struct file *y, bool regression,
                             struct train_meaning *like, struct train_dataset *data, struct base_reason *why)
{
    const struct train_bytes a = of(x, "x.npy"), b = y ? of(y, "y.npy") : a;
    return train_npy_parse(&a, y ? &b : NULL, regression, like, data, why);
}

static const double X[] = {1, 2, 3, 4, 5, 6};

static void arrays_of_several_types_are_read(void **state)
{
    (void)state;
    const struct file x = npy(HEADER("<f8", "(3, 1, 2)"), X, sizeof X),
                      y = npy(HEADER("|i1", "(3,)"), "\xff\x07\xff", 3);
    struct train_dataset data = {0}, again = {0};
    struct base_reason why = {""};
    if (parse(&x, &y, false, NULL, &data, &why))
        fail_msg("%s", why.text);
    assert_int_equal(data.examples, 3);
    assert_int_equal(data.features, 2);
    assert_true(data.x[5] == 6.0f);
    assert_memory_equal(data.labels, ((const uint32_t[]){0, 1, 0}), 12);
    assert_string_equal(data.meaning->classes.items[0], "-1");
    const struct file other = npy(HEADER("<i8", "(3, 1)"), (const int64_t[]){7, 7, -1}, 24);
    assert_int_equal(parse(&x, &other, false, data.meaning, &again, &why), BASE_OK);
    assert_memory_equal(again.labels, ((const uint32_t[]){1, 1, 0}), 12);
    train_dataset_destroy(&again);
    const struct file unknown = npy(HEADER("<u2", "(3,)"), "\x07\x00\x08\x00\x07\x00", 6);
    assert_int_equal(parse(&x, &unknown, false, data.meaning, &again, &why), BASE_EMISMATCH);
    train_dataset_destroy(&data);
}

static void a_regression_may_have_several_outputs(void **state)
{
    (void)state;
    const float targets[] = {1.5f, 2, 3, 4, 5, 6};
    const struct file x = npy(HEADER("<f8", "(3, 2)"), X, sizeof X),
                      y = npy(HEADER("<f4", "(3, 2)"), targets, 24);
    struct train_dataset data = {0};
    struct base_reason why = {""};
    assert_int_equal(parse(&x, &y, true, NULL, &data, &why), BASE_OK);
    assert_int_equal(data.outputs, 2);
    assert_memory_equal(data.targets, targets, sizeof targets);
    train_dataset_destroy(&data);
    assert_int_equal(parse(&x, &y, false, NULL, &data, &why), BASE_EFORMAT);
    assert_string_equal(
        why.text, "y.npy: found y with 2 values per example, expected one class per example (several targets "
                  "need model.loss mse or mae)");
}

// -- zip

static void put_member(struct file *zip, struct file *directory, const char *name, const struct file *plain,
                       bool deflates)
{
    struct file packed = *plain;
    if (deflates) {
        z_stream z = {0};
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        z.next_in = (Bytef *)(uintptr_t)plain->bytes;
        z.avail_in = (uInt)plain->count;
        z.next_out = packed.bytes;
        z.avail_out = ROOM;
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        packed.count = z.total_out;
        deflateEnd(&z);
    }
    const uint64_t crc = crc32_z(0, plain->bytes, plain->count), offset = zip->count;
    struct file *both[] = {zip, directory};
    for (int i = 0; i < 2; i++) {
        struct file *f = both[i];
        put(f, i ? "PK\x01\x02\x2d\x00" : "PK\x03\x04", i ? 6 : 4);
        put_number(f, 45, 2);
        put_number(f, 0, 2);
        put_number(f, deflates ? 8 : 0, 2);
        put_number(f, 0, 4);
        put_number(f, crc, 4);
        put_number(f, packed.count, 4);
        put_number(f, plain->count, 4);
        put_number(f, strlen(name), 2);
        put_number(f, i ? 0 : 4, 2); // numpy puts an extra field into the local header
        if (i) {
            put_number(f, 0, 10);
            put_number(f, offset, 4);
        }
        put(f, name, strlen(name));
        if (!i)
            put_number(f, 0, 4);
    }
    put(zip, packed.bytes, packed.count);
}

static struct file npz(const struct file *x, const struct file *y, bool deflates)
{
    struct file zip = {{0}, 0}, directory = {{0}, 0};
    put_member(&zip, &directory, "x.npy", x, deflates);
    put_member(&zip, &directory, "y.npy", y, deflates);
    const size_t start = zip.count;
    put(&zip, directory.bytes, directory.count);
    put(&zip, "PK\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00", 12);
    put_number(&zip, directory.count, 4);
    put_number(&zip, start, 4);
    put_number(&zip, 0, 2);
    return zip;
}

static void stored_and_deflated_members_are_read(void **state)
{
    (void)state;
    const struct file x = npy(HEADER("<f8", "(3, 2)"), X, sizeof X),
                      y = npy(HEADER("|u1", "(3,)"), "\x00\x01\x01", 3);
    for (int deflates = 0; deflates < 2; deflates++) {
        struct file zip = npz(&x, &y, deflates);
        struct train_dataset data = {0};
        struct base_reason why = {""};
        if (parse(&zip, NULL, false, NULL, &data, &why))
            fail_msg("%s", why.text);
        assert_int_equal(data.examples, 3);
        assert_true(data.x[4] == 5.0f);
        train_dataset_destroy(&data);
        // No truncation and no flipped byte may crash the reader or change a value unnoticed.
        for (size_t at = 0; at < zip.count; at++) {
            struct file bad = zip;
            bad.bytes[at] ^= 0x41;
            if (!parse(&bad, NULL, false, NULL, &data, &why)) {
                assert_true(data.x[4] == 5.0f);
                train_dataset_destroy(&data);
            }
            bad = zip;
            bad.count = at;
            assert_int_not_equal(parse(&bad, NULL, false, NULL, &data, &why), BASE_OK);
        }
    }
}

static void mistakes_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
    } wrong[] = {
        {HEADER(">f8", "(3, 2)"),
         "x.npy: found the type '>f8', expected float32, float64, an integer or bool; it is "
         "big-endian: x.astype(x.dtype.newbyteorder('<'))"},
        {HEADER("|O", "(3, 2)"),
         "x.npy: found the type '|O', expected float32, float64, an integer or bool; Python objects "
         "are never read"},
        {HEADER("<c8", "(3, 2)"),
         "x.npy: found the type '<c8', expected float32, float64, an integer or bool"},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2), }",
         "x.npy: found Fortran order, expected C order: numpy.ascontiguousarray(x) before saving"},
        {HEADER("<f8", "(4, 2)"), "x.npy: found 48 bytes of values, expected 64 (8 of 8 bytes)"},
        {HEADER("<f8", "(0, 2)"), "x.npy: found an empty array (axis 1 is 0), expected numbers"},
        {HEADER("<f8", "(99999999999, 9)"),
         "x.npy: the header states more than the limit of 2147483648 values"},
        {HEADER("<f8", "(3, 2"), "x.npy: an invalid shape in its header, expected what numpy.save writes"},
        {"{'descr': '<f8', 'shape': (3, 2), }",
         "x.npy: a missing key or text after the dictionary in its header, expected what numpy.save writes"},
        {"{'descr': '<f8', 'descr': '<f8', 'shape': (3, 2), }",
         "x.npy: an unknown or repeated key in its header, expected what numpy.save writes"},
        {HEADER("<f8", "(2, 3)"), "x.npy has 2 examples, but y.npy has 3: they do not belong together (y)"},
    };
    const struct file y = npy(HEADER("|u1", "(3,)"), "\x00\x01\x01", 3);
    struct train_dataset data = {.examples = 77};
    struct base_reason why;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct file x = npy(wrong[i].header, X, sizeof X);
        why.text[0] = 0;
        assert_int_not_equal(parse(&x, &y, false, NULL, &data, &why), BASE_OK);
        assert_string_equal(why.text, wrong[i].message);
    }
    const double holes[] = {1, 2, 3, 0.0 / 0.0, 5, 6}, halves[] = {0, 1.5, 1};
    struct file x = npy(HEADER("<f8", "(3, 2)"), holes, sizeof holes);
    assert_int_equal(parse(&x, &y, false, NULL, &data, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "x.npy: x of example 1, number 1 in it, is "));
    x = npy(HEADER("<f8", "(3, 2)"), X, sizeof X);
    const struct file half = npy(HEADER("<f8", "(3,)"), halves, sizeof halves);
    assert_int_equal(parse(&x, &half, false, NULL, &data, &why), BASE_EFORMAT);
    assert_string_equal(why.text, "y.npy: y of example 1 is 1.5, expected a class as a whole number; for a "
                                  "quantity set model.loss mse");
    assert_int_equal(data.examples, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_several_types_are_read),
        cmocka_unit_test(a_regression_may_have_several_outputs),
        cmocka_unit_test(stored_and_deflated_members_are_read),
        cmocka_unit_test(mistakes_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
