// Packets over lists of all kinds and sizes, on every path: the bytes are the same, the index code is the
// shortest one, and decoding in pieces of any size gives what the sender kept. A changed packet is refused or
// gives another valid list.
#include "compress/packet.h"
#include "compress_lists.h"
#include "test/support/compress_tools.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct sent {
    struct compress_sparse sparse;
    uint8_t *packet; // in a block of its exact length, so that AddressSanitizer finds a read past the end
    size_t bytes;
};

// The energy that quantising removes from a list.
static double taken_of(const struct list *list, const struct compress_sparse *sent)
{
    double taken = 0;
    for (size_t i = 0; i < list->entries; i++) {
        const double was = (double)list->value[i], left = was - (double)sent->value[i];
        taken += was * was - left * left;
    }
    return taken;
}

static struct sent sent_make(const struct kernels *kernels, const struct list *list,
                             enum kernels_format format, const struct compress_keys *known)
{
    struct sent sent;
    assert_int_equal(compress_sparse_create(list->entries, &sent.sparse), BASE_OK);
    memcpy(sent.sparse.index, list->index, list->entries * sizeof *list->index);
    memcpy(sent.sparse.value, list->value, list->entries * sizeof *list->value);
    sent.sparse.count = list->entries;
    const size_t bound = compress_packet_bound(list->count, list->entries, format);
    assert_true(bound <= compress_packet_bound(list->count, list->entries + 1, format));
    uint8_t *room = malloc(bound);
    assert_non_null(room);
    assert_int_equal(
        compress_packet_encode(kernels, &sent.sparse, list->count, format, known, room, bound, &sent.bytes),
        BASE_OK);
    assert_true(sent.bytes <= bound);
    const double taken = taken_of(list, &sent.sparse);
    assert_true(fabs(sent.sparse.taken - taken) <= 1e-12 * fabs(taken));
    assert_int_equal(compress_packet_entries(room, sent.bytes), list->entries);
    sent.packet = malloc(sent.bytes);
    assert_non_null(sent.packet);
    memcpy(sent.packet, room, sent.bytes);
    free(room);
    return sent;
}

static void sent_free(struct sent *sent)
{
    compress_sparse_destroy(&sent->sparse);
    free(sent->packet);
}

// Reads in pieces of `room`, into blocks of the exact length of each piece.
static void assert_reads(const struct kernels *kernels, const struct sent *sent, size_t count, size_t room,
                         const struct compress_keys *known)
{
    struct compress_reader reader;
    const size_t entries = sent->sparse.count;
    assert_int_equal(compress_reader_open(kernels, sent->packet, sent->bytes, count, entries, known, &reader),
                     BASE_OK);
    size_t done = 0;
    while (done < entries) {
        const size_t expected = entries - done < room ? entries - done : room;
        uint32_t *index = malloc(expected * sizeof *index);
        float *value = malloc(expected * sizeof *value);
        assert_true(index && value);
        assert_int_equal(compress_reader_next(&reader, room, index, value), expected);
        assert_memory_equal(index, sent->sparse.index + done, expected * sizeof *index);
        assert_memory_equal(value, sent->sparse.value + done, expected * sizeof *value);
        free(index);
        free(value);
        done += expected;
    }
    assert_int_equal(compress_reader_next(&reader, room, NULL, NULL), 0);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t bytes_of(uint64_t bits)
{
    return (size_t)((bits + 7) / 8);
}

// The shortest Rice section, by trying every parameter.
static size_t rice_bytes(const struct list *list)
{
    size_t best = SIZE_MAX;
    for (unsigned p = 1; p <= 30; p++) {
        uint64_t zeros = 0;
        uint32_t next = 0;
        for (size_t i = 0; i < list->entries; i++) {
            zeros += (list->index[i] - next) >> p;
            next = list->index[i] + 1;
        }
        best = least(best, bytes_of(list->entries + zeros) + bytes_of((uint64_t)list->entries * p));
    }
    return list->entries > 0 ? best : 0;
}

static size_t smallest(const struct list *list)
{
    if (list->entries == list->count)
        return 0;
    const size_t bitmap = list->entries > 0 ? list->index[list->entries - 1] / 8 + 1 : 0;
    return least(bitmap, rice_bytes(list));
}

static void assert_round_trip(const struct kernels *const *paths, size_t found, const struct list *list,
                              enum kernels_format format)
{
    static const size_t rooms[] = {256, 512, 768, 4096, 1u << 20};
    struct sent plain = sent_make(paths[0], list, format, NULL);
    assert_int_equal(plain.bytes, 6 + smallest(list) + kernels_section_bytes(format, list->entries));
    for (size_t path = 0; path < found; path++) {
        struct sent sent = sent_make(paths[path], list, format, NULL);
        assert_int_equal(sent.bytes, plain.bytes);
        assert_memory_equal(sent.packet, plain.packet, sent.bytes);
        for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
            assert_reads(paths[path], &sent, list->count, rooms[i], NULL);
        sent_free(&sent);
    }
    sent_free(&plain);
}

static const double densities[] = {0.0005, 0.01, 0.1, 0.3, 0.7, 1.0};

static void packets_at_all_borders_survive_a_round_trip(void **state)
{
    (void)state;
    const struct kernels *paths[3];
    const size_t found = list_paths(paths);
    struct base_rng rng;
    base_rng_seed(&rng, lists_seed());
    unsigned format = 0;
    for (size_t count = 0; count < 1100; count += count < 140 ? 1 : 37) {
        for (unsigned kind = 0; kind < LIST_KINDS; kind++) {
            for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++) {
                struct list list = list_make(&rng, (enum list_kind)kind, count, densities[i]);
                assert_round_trip(paths, found, &list, (enum kernels_format)(format++ % KERNELS_FORMATS));
                list_free(&list);
            }
        }
    }
}

static void packets_of_long_lists_survive_a_round_trip(void **state)
{
    (void)state;
    const struct kernels *paths[3];
    const size_t found = list_paths(paths);
    struct base_rng rng;
    base_rng_seed(&rng, lists_seed());
    for (unsigned kind = 0; kind < LIST_KINDS; kind++) {
        for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++) {
            struct list list = list_make(&rng, (enum list_kind)kind, 70000 + 13 * kind, densities[i]);
            assert_round_trip(paths, found, &list, KERNELS_INT8);
            list_free(&list);
        }
    }
}

// A few entries of the longest possible vector: the widest parameters.
static void packets_with_wide_gaps_survive_a_round_trip(void **state)
{
    (void)state;
    const struct kernels *paths[3];
    const size_t found = list_paths(paths);
    struct base_rng rng;
    base_rng_seed(&rng, lists_seed());
    for (unsigned bits = 10; bits <= 30; bits++) {
        for (size_t entries = 1; entries <= 600; entries += 1 + entries / 3) {
            uint32_t index[600];
            float value[600];
            const size_t count = (size_t)1 << bits;
            if (entries * 2 > count)
                continue;
            for (size_t i = 0; i < entries; i++) {
                const uint64_t step = count / entries;
                index[i] = (uint32_t)(i * step + base_rng_below(&rng, (uint32_t)step));
                value[i] = 1.0f;
            }
            index[entries - 1] = (uint32_t)count - 1;
            struct list list = {.index = index, .value = value, .entries = entries, .count = count};
            assert_round_trip(paths, found, &list, KERNELS_SIGN);
        }
    }
}

static void the_indices_of_same_keys_take_eight_bytes(void **state)
{
    (void)state;
    const struct kernels *paths[3];
    const size_t found = list_paths(paths);
    struct base_rng rng;
    base_rng_seed(&rng, lists_seed());
    struct list list = list_make(&rng, LIST_UNIFORM, 50000, 0.02);
    struct compress_keys known = {
        .index = list.index, .count = list.entries, .hash = compress_keys_hash(list.index, list.entries)};
    for (size_t path = 0; path < found; path++) {
        struct sent sent = sent_make(paths[path], &list, KERNELS_INT4, &known);
        assert_int_equal(sent.bytes, 6 + 8 + kernels_section_bytes(KERNELS_INT4, list.entries));
        assert_reads(paths[path], &sent, list.count, 256, &known);
        assert_reads(paths[path], &sent, list.count, 4096, &known);

        struct compress_reader reader, before;
        memset(&reader, 0x5a, sizeof reader);
        before = reader;
        struct compress_keys other = known;
        other.hash++;
        assert_int_equal(compress_reader_open(paths[path], sent.packet, sent.bytes, list.count, list.entries,
                                              &other, &reader),
                         BASE_ENOTFOUND);
        assert_int_equal(compress_reader_open(paths[path], sent.packet, sent.bytes, list.count, list.entries,
                                              NULL, &reader),
                         BASE_ENOTFOUND);
        assert_memory_equal(&reader, &before, sizeof reader);
        sent_free(&sent);
    }
    list_free(&list);
}

// What is read is a valid list of entries; on an error nothing has changed.
static void assert_refused_or_valid(const struct kernels *kernels, const uint8_t *packet, size_t bytes,
                                    size_t count, struct compress_sparse *received, bool *accepted)
{
    received->count = SIZE_MAX;
    const enum base_error error = packet_decode(kernels, packet, bytes, count, received);
    *accepted = !error;
    if (!*accepted) {
        assert_true(error == BASE_EFORMAT || error == BASE_ELIMIT || error == BASE_ENOTFOUND);
        assert_true(received->count == SIZE_MAX);
        return;
    }
    assert_true(received->count <= received->capacity && received->count <= count);
    for (size_t i = 0; i < received->count; i++) {
        assert_true(isfinite(received->value[i]) && received->index[i] < count);
        assert_true(i == 0 || received->index[i] > received->index[i - 1]);
    }
}

static void break_packet(const struct kernels *kernels, const struct sent *sent, size_t count)
{
    struct compress_sparse received;
    bool accepted;
    assert_int_equal(compress_sparse_create(sent->sparse.count, &received), BASE_OK);
    for (size_t bit = 0; bit < sent->bytes * 8; bit++) {
        sent->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_refused_or_valid(kernels, sent->packet, sent->bytes, count, &received, &accepted);
        sent->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bytes = 0; bytes <= sent->bytes + 9; bytes++) {
        uint8_t *other = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(other);
        memset(other, 0, bytes);
        memcpy(other, sent->packet, least(bytes, sent->bytes));
        assert_refused_or_valid(kernels, other, bytes, count, &received, &accepted);
        assert_true(accepted == (bytes == sent->bytes));
        free(other);
    }
    compress_sparse_destroy(&received);
}

static void broken_packets_are_refused(void **state)
{
    (void)state;
    const struct kernels *paths[3];
    const size_t found = list_paths(paths);
    struct base_rng rng;
    base_rng_seed(&rng, lists_seed());
    for (unsigned kind = 0; kind < LIST_KINDS; kind++) {
        for (size_t i = 1; i < sizeof densities / sizeof densities[0]; i++) {
            struct list list = list_make(&rng, (enum list_kind)kind, i < 3 ? 6000 : 400, densities[i]);
            for (size_t path = 0; path < found; path++) {
                struct sent sent = sent_make(paths[path], &list, KERNELS_SIGN, NULL);
                break_packet(paths[path], &sent, list.count);
                sent_free(&sent);
            }
            list_free(&list);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_at_all_borders_survive_a_round_trip),
        cmocka_unit_test(packets_of_long_lists_survive_a_round_trip),
        cmocka_unit_test(packets_with_wide_gaps_survive_a_round_trip),
        cmocka_unit_test(the_indices_of_same_keys_take_eight_bytes),
        cmocka_unit_test(broken_packets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
