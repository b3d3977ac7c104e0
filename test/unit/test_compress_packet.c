// Packets byte by byte as in compress/README.md, what the encoder refuses, and backends with their own
// memory.
#include "compress/packet.h"
#include "kernels/cpu/cpu.h"
#include "test/support/compress_tools.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_section(const uint32_t *list, size_t entries, size_t count, const uint8_t *head,
                           const uint8_t *section, size_t bytes)
{
    uint32_t index[8], back[8];
    float value[8] = {1, 1, 1, 1, 1, 1, 1, 1}, read[8];
    uint8_t packet[128];
    size_t length = 0;
    if (entries > 0) {
        memcpy(index, list, entries * sizeof *list);
    }
    struct compress_sparse sparse = {.index = index, .value = value, .count = entries, .capacity = 8};
    const struct kernels *kernels = kernels_cpu_table(NULL);
    assert_int_equal(
        compress_packet_encode(kernels, &sparse, count, KERNELS_FP32, NULL, packet, sizeof packet, &length),
        BASE_OK);
    assert_int_equal(length, 6 + bytes + 4 * entries);
    assert_memory_equal(packet, head, 6);
    assert_memory_equal(packet + 6, section, bytes);
    struct compress_sparse received = {.index = back, .value = read, .capacity = 8};
    assert_int_equal(packet_decode(kernels, packet, length, count, &received), BASE_OK);
    assert_int_equal(received.count, entries);
    assert_memory_equal(back, list, entries * sizeof *list);
}

static void a_packet_is_encoded_as_documented(void **state)
{
    (void)state;
    // Gaps 100, 199, 0 with parameter 5: 3, 6 and 0 zeros before the ones, then 4, 7, 0 in five bits each.
    assert_section((const uint32_t[]){100, 300, 301}, 3, 100000, (const uint8_t[]){0x30, 5, 3, 0, 0, 0},
                   (const uint8_t[]){0x08, 0x0c, 0xe4, 0x00}, 4);
    assert_section((const uint32_t[]){1, 3, 9}, 3, 100000, (const uint8_t[]){0x10, 0, 3, 0, 0, 0},
                   (const uint8_t[]){0x0a, 0x02}, 2);
    assert_section((const uint32_t[]){0, 1, 2, 3}, 4, 4, (const uint8_t[]){0x00, 0, 4, 0, 0, 0}, NULL, 0);
    assert_section(NULL, 0, 1000, (const uint8_t[]){0x10, 0, 0, 0, 0, 0}, NULL, 0);
    assert_section(NULL, 0, 0, (const uint8_t[]){0x00, 0, 0, 0, 0, 0}, NULL, 0);
}

// A packet with code 2 is refused even if its section is valid Elias-Fano code, which the number meant until
// protocol 13. The bitmap shows that only the number is wrong.
static void unknown_index_codes_are_refused(void **state)
{
    (void)state;
    uint8_t bitmap[] = {0x16, 0, 2, 0, 0, 0, 0x0a, 0x00, 0x00, 0x80, 0x3f, 0x02};
    const uint8_t elias_fano[] = {0x26, 0,    2,    0,    0,    0,    // sign, code 2, two entries
                                  4,    6,    0,                      // width, bytes of the high stream
                                  0x00, 0x00, 0x04, 0x00, 0x00, 0x10, // bits 18 and 44
                                  0xcc,                               // 12, 12
                                  0x00, 0x00, 0x80, 0x3f, 0x02};      // 1, -1
    uint32_t index[2] = {7, 8};
    float value[2];
    struct compress_sparse received = {.index = index, .value = value, .count = 77, .capacity = 2};
    const struct kernels *kernels = kernels_cpu_table(NULL);
    assert_int_equal(packet_decode(kernels, elias_fano, sizeof elias_fano, 701, &received), BASE_EFORMAT);
    for (unsigned code = 5; code < 16; code++) {
        bitmap[0] = (uint8_t)(KERNELS_SIGN | code << 4);
        assert_int_equal(packet_decode(kernels, bitmap, sizeof bitmap, 701, &received), BASE_EFORMAT);
    }
    assert_true(received.count == 77 && index[0] == 7 && index[1] == 8);
    bitmap[0] = 0x16;
    assert_int_equal(packet_decode(kernels, bitmap, sizeof bitmap, 701, &received), BASE_OK);
    assert_true(received.count == 2 && index[0] == 1 && index[1] == 3);
}

// A packet of known keys has some: with none there would be no last key to look at.
static void a_packet_of_no_known_keys_is_refused(void **state)
{
    (void)state;
    const uint8_t packet[] = {0x46, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}; // sign, code 4, no entry
    const uint32_t index[] = {5};
    const struct compress_keys known = {.index = index, .count = 1, .hash = 0x0807060504030201};
    struct compress_reader reader;
    const struct kernels *kernels = kernels_cpu_table(NULL);
    assert_int_equal(compress_reader_open(kernels, packet, sizeof packet, 701, 10, &known, &reader),
                     BASE_EFORMAT);
}

static void a_packet_has_no_more_entries_than_the_vector(void **state)
{
    (void)state;
    for (size_t count = 1; count < 100; count += 7)
        assert_int_equal(compress_packet_bound(count, count + 50, KERNELS_INT8),
                         compress_packet_bound(count, count, KERNELS_INT8));
}

static void the_encoder_refuses_invalid_lists(void **state)
{
    (void)state;
    uint32_t index[] = {4, 7, 9};
    float value[] = {0.3f, 0.1f, 0.2f};
    uint8_t packet[64], before[64];
    size_t bytes = 77;
    memset(packet, 0x11, sizeof packet);
    memcpy(before, packet, sizeof packet);
    struct compress_sparse sparse = {.index = index, .value = value, .count = 3, .capacity = 3};
    const struct kernels *kernels = kernels_cpu_table(NULL);
    struct {
        size_t count, capacity;
        enum kernels_format format;
        enum base_error error;
    } cases[] = {{9, 64, KERNELS_INT8, BASE_EINVAL}, // index 9 of 9
                 {2, 64, KERNELS_INT8, BASE_EINVAL}, // more entries than elements
                 {10, 64, (enum kernels_format)KERNELS_FORMATS, BASE_EINVAL},
                 {(size_t)1 << 31, 64, KERNELS_INT8, BASE_ELIMIT},
                 {10, 14, KERNELS_INT8, BASE_ELIMIT}}; // 6 + 2 + 7 bytes are needed
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(compress_packet_encode(kernels, &sparse, cases[i].count, cases[i].format, NULL,
                                                packet, cases[i].capacity, &bytes),
                         cases[i].error);
    value[1] = NAN;
    assert_int_equal(compress_packet_encode(kernels, &sparse, 10, KERNELS_INT8, NULL, packet, 64, &bytes),
                     BASE_EFORMAT);
    value[1] = 0.1f;
    index[1] = 4;
    assert_int_equal(compress_packet_encode(kernels, &sparse, 10, KERNELS_INT8, NULL, packet, 64, &bytes),
                     BASE_EINVAL);
    assert_true(bytes == 77 && value[0] == 0.3f && value[1] == 0.1f && value[2] == 0.2f);
    assert_memory_equal(packet, before, sizeof packet);
}

// A backend that does not share the host's memory gives the same packet.
static void entries_in_other_memory_are_encoded_alike(void **state)
{
    (void)state;
    uint32_t index[] = {4, 70, 900};
    float here[] = {0.3f, -0.1f, 0.2f}, there[] = {0.3f, -0.1f, 0.2f};
    uint8_t packet[2][64];
    size_t bytes[2];
    const struct kernels *kernels = kernels_cpu_table(NULL);
    struct kernels apart = *kernels;
    apart.shares_host = false;
    struct compress_sparse sparse = {.index = index, .value = here, .count = 3, .capacity = 3};
    assert_int_equal(
        compress_packet_encode(kernels, &sparse, 1000, KERNELS_INT4, NULL, packet[0], 64, &bytes[0]),
        BASE_OK);
    const double taken = sparse.taken;
    sparse.value = there;
    assert_int_equal(
        compress_packet_encode(&apart, &sparse, 1000, KERNELS_INT4, NULL, packet[1], 64, &bytes[1]), BASE_OK);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(packet[0], packet[1], bytes[0]);
    assert_memory_equal(here, there, sizeof here);
    assert_true(taken > 0 && sparse.taken > taken * (1 - 1e-12) && sparse.taken < taken * (1 + 1e-12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_packet_is_encoded_as_documented),
                                       cmocka_unit_test(unknown_index_codes_are_refused),
                                       cmocka_unit_test(a_packet_of_no_known_keys_is_refused),
                                       cmocka_unit_test(a_packet_has_no_more_entries_than_the_vector),
                                       cmocka_unit_test(the_encoder_refuses_invalid_lists),
                                       cmocka_unit_test(entries_in_other_memory_are_encoded_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
