// Nodes compare hashes, so their values are fixed for good. The expected numbers come from a separate
// implementation.
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_values_are_fixed(void **state)
{
    (void)state;
    const uint8_t zeros[16] = {0};
    const float values[] = {0.0f, 1.0f, -2.5f};
    assert_int_equal(base_hash_bytes(0, NULL, 0), 0x33fe8bd4f9c57863ull);
    assert_int_equal(base_hash_bytes(42, "The quick brown fox", 19), 0x38ab6b16d48c7a4eull);
    assert_int_equal(base_hash_bytes(1, zeros, 8), 0xd5c67049c06c4fefull);
    assert_int_equal(base_hash_bytes(1, zeros, 16), 0x495954e756c8385bull);
    assert_int_equal(base_hash_vector(values, 3), 0xd51c98f4f7757b1dull);
    assert_int_equal(base_hash_vector(values, 0), 0);
}

static void the_hash_does_not_depend_on_the_address(void **state)
{
    (void)state;
    uint8_t bytes[64 + 8], moved[64 + 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37);
    for (size_t offset = 0; offset < 8; offset++) {
        memcpy(moved + offset, bytes, 61);
        assert_int_equal(base_hash_bytes(5, moved + offset, 61), base_hash_bytes(5, bytes, 61));
    }
}

static void every_bit_length_and_seed_counts(void **state)
{
    (void)state;
    uint8_t bytes[23] = {0};
    uint64_t plain = base_hash_bytes(9, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        uint64_t changed = base_hash_bytes(9, bytes, sizeof bytes);
        int distance = __builtin_popcountll(plain ^ changed);
        assert_in_range(distance, 10, 54); // 32 expected, standard deviation 4
        bytes[bit / 8] = 0;
    }
    for (size_t length = 0; length < sizeof bytes; length++)
        assert_int_not_equal(base_hash_bytes(9, bytes, length), plain);
    assert_int_not_equal(base_hash_bytes(10, bytes, sizeof bytes), plain);
}

static void a_vector_hash_follows_its_elements(void **state)
{
    (void)state;
    float values[100];
    for (size_t i = 0; i < 100; i++)
        values[i] = (float)i * 0.25f;
    uint64_t hash = base_hash_vector(values, 100);
    for (size_t i = 0; i < 100; i += 7) {
        hash += base_hash_element(i, -1.5f) - base_hash_element(i, values[i]);
        values[i] = -1.5f;
    }
    assert_int_equal(hash, base_hash_vector(values, 100));
    assert_int_not_equal(base_hash_element(0, 0.0f), base_hash_element(0, -0.0f));
    values[0] = values[99];
    values[99] = -1.5f;
    assert_int_not_equal(hash, base_hash_vector(values, 100)); // two elements exchanged
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_values_are_fixed),
        cmocka_unit_test(the_hash_does_not_depend_on_the_address),
        cmocka_unit_test(every_bit_length_and_seed_counts),
        cmocka_unit_test(a_vector_hash_follows_its_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
