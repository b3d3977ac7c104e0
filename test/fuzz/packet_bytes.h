// What the fuzz targets of the packet share: any bytes are refused, or give a valid list, the same in one
// piece and in many, on every path. Nothing of a refused packet is written.
#ifndef TEST_FUZZ_PACKET_BYTES_H
#define TEST_FUZZ_PACKET_BYTES_H

#include "compress/packet.h"
#include "kernels/cpu/cpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES_KNOWN 700u // entries of the list that the receiver knows

struct packet_bytes_list {
    uint32_t *index;
    float *value;
    size_t count;
    enum base_error error;
};

static inline struct compress_keys packet_bytes_known(void)
{
    static uint32_t index[PACKET_BYTES_KNOWN];
    for (uint32_t i = 0; i < PACKET_BYTES_KNOWN; i++)
        index[i] = 3 * i + i % 3;
    return (struct compress_keys){
        .index = index, .count = PACKET_BYTES_KNOWN, .hash = compress_keys_hash(index, PACKET_BYTES_KNOWN)};
}

// In pieces of `room`, into memory of their exact lengths.
static inline struct packet_bytes_list packet_bytes_read(const struct kernels *kernels, const uint8_t *packet,
                                                         size_t bytes, size_t count, size_t most, size_t room)
{
    const struct compress_keys known = packet_bytes_known();
    struct packet_bytes_list list = {0};
    struct compress_reader reader;
    list.error = compress_reader_open(kernels, packet, bytes, count, most, &known, &reader);
    if (list.error)
        return list;
    BASE_ASSERT(reader.entries <= most && reader.entries <= count);
    list.count = reader.entries;
    list.index = malloc(list.count * sizeof *list.index + 1);
    list.value = malloc(list.count * sizeof *list.value + 1);
    BASE_ASSERT(list.index && list.value);
    for (size_t done = 0, now; done < list.count; done += now) {
        now = compress_reader_next(&reader, room, list.index + done, list.value + done);
        BASE_ASSERT(now > 0 && (now == room || done + now == list.count));
    }
    BASE_ASSERT(compress_reader_next(&reader, room, NULL, NULL) == 0);
    for (size_t i = 0; i < list.count; i++) {
        BASE_ASSERT(isfinite(list.value[i]) && list.index[i] < count);
        BASE_ASSERT(i == 0 || list.index[i] > list.index[i - 1]);
    }
    return list;
}

// Encoding what was read gives the same indices again, in a packet that is not longer.
static inline void packet_bytes_again(const struct kernels *kernels, const struct packet_bytes_list *list,
                                      size_t count, enum kernels_format format)
{
    const struct compress_keys known = packet_bytes_known();
    struct compress_sparse again;
    BASE_ASSERT(!compress_sparse_create(list->count, &again));
    memcpy(again.index, list->index, list->count * sizeof *list->index);
    memcpy(again.value, list->value, list->count * sizeof *list->value);
    again.count = list->count;
    const size_t bound = compress_packet_bound(count, list->count, format);
    uint8_t *packet = malloc(bound);
    size_t bytes = 0;
    BASE_ASSERT(packet != NULL);
    BASE_ASSERT(!compress_packet_encode(kernels, &again, count, format, &known, packet, bound, &bytes));
    struct packet_bytes_list read = packet_bytes_read(kernels, packet, bytes, count, list->count, 256);
    BASE_ASSERT(!read.error && read.count == list->count);
    BASE_ASSERT(memcmp(read.index, list->index, read.count * sizeof *read.index) == 0);
    BASE_ASSERT(memcmp(read.value, again.value, read.count * sizeof *read.value) == 0);
    free(read.index);
    free(read.value);
    free(packet);
    compress_sparse_destroy(&again);
}

// `packet` in a block of its exact length.
static inline void packet_bytes_check(const uint8_t *packet, size_t bytes, size_t count, size_t most)
{
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    struct packet_bytes_list plain =
        packet_bytes_read(&kernels_cpu_scalar, packet, bytes, count, most, 1u << 30);
    for (size_t i = 0; i < 3; i++) {
        const struct kernels *kernels = kernels_cpu_table(names[i]);
        if (!kernels)
            continue;
        struct packet_bytes_list list = packet_bytes_read(kernels, packet, bytes, count, most, 256);
        BASE_ASSERT(list.error == plain.error && list.count == plain.count);
        if (!list.error) {
            BASE_ASSERT(memcmp(list.index, plain.index, list.count * sizeof *list.index) == 0);
            BASE_ASSERT(memcmp(list.value, plain.value, list.count * sizeof *list.value) == 0);
            packet_bytes_again(kernels, &list, count, (enum kernels_format)(packet[0] & 0xf));
        }
        free(list.index);
        free(list.value);
    }
    free(plain.index);
    free(plain.value);
}

// A target for one code of indices. Input: length of the vector (3 bytes), parameter (1), entries (2),
// section; valid one-bit values are appended.
static inline void packet_bytes_section(unsigned code, const uint8_t *data, size_t size)
{
    if (size < 6)
        return;
    const size_t count = (size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
    const size_t entries = (size_t)data[4] | (size_t)data[5] << 8, section = size - 6;
    const size_t values = kernels_section_bytes(KERNELS_SIGN, entries), bytes = 6 + section + values;
    uint8_t *packet = calloc(1, bytes); // scale 0 and no sign: zeros
    BASE_ASSERT(packet != NULL);
    packet[0] = (uint8_t)(KERNELS_SIGN | code << 4);
    packet[1] = data[3];
    packet[2] = data[4];
    packet[3] = data[5];
    memcpy(packet + 6, data + 6, section);
    packet_bytes_check(packet, bytes, count, entries);
    free(packet);
}

#endif
