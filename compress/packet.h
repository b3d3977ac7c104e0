// The packet: entries -> header, index section, value section, and back. Layout: compress/LAYOUT.md.
//
// What the sender records as sent is the DEQUANTISED value, which the receiver will decode with the same bits
// on every machine (DESIGN: averaging, identity 2). The receiver knows the length of the vector, so every
// count, index and size of a packet is checked against it before anything is written.
//
// The entries that the encoder reads are in the backend's memory; packets, and the entries that the reader
// returns, are in ordinary memory. No state; any thread, one owner per object.
#ifndef COMPRESS_PACKET_H
#define COMPRESS_PACKET_H

#include "compress/compress.h"
#include "kernels/kernels.h"
#include <stdbool.h>

// A list of indices that both ends already have; a packet over it contains only values (filter "same-keys").
struct compress_keys {
    const uint32_t *index; // ascending, unique; borrowed; ordinary memory
    size_t count;
    uint64_t hash; // compress_keys_hash of the list
};
uint64_t compress_keys_hash(const uint32_t *index, size_t count);

// The largest possible packet with up to `entries` entries of a vector of `count` elements.
size_t compress_packet_bound(size_t count, size_t entries, enum kernels_format format);

// Quantises entries->value in place to the values that the receiver will decode, computes entries->taken, and
// writes the packet with the shortest index code. known: a list that the receiver has, or NULL. Entries that
// quantise to zero stay. On error nothing has changed. BASE_ELIMIT: `capacity` is too small for the packet.
// BASE_EINVAL: the indices are not ascending or not below `count`. BASE_EFORMAT: a value is not finite.
// BASE_ENOMEM: only if the backend has its own memory.
enum base_error compress_packet_encode(const struct kernels *kernels, struct compress_sparse *entries,
                                       size_t count, enum kernels_format format,
                                       const struct compress_keys *known, uint8_t *packet, size_t capacity,
                                       size_t *packet_bytes) BASE_CHECK;

// Copies a packet and replaces its indices by the hash of `known`, which is the list of these indices, for a
// receiver that has the list. BASE_ELIMIT: `capacity` is too small. BASE_EINVAL: the list has another length.
enum base_error compress_packet_shorten(const uint8_t *packet, size_t packet_bytes,
                                        const struct compress_keys *known, uint8_t *shorter, size_t capacity,
                                        size_t *shorter_bytes) BASE_CHECK;

// The number of entries in the header of a packet, unchecked; 0 if the packet is shorter than a header.
size_t compress_packet_entries(const uint8_t *packet, size_t packet_bytes);

// Reads a packet piece by piece, with a few KiB of memory. Copy the struct to read a packet twice. The packet
// must outlive it.
struct compress_reader {
    const struct kernels *host;      // the CPU's table
    const uint8_t *indices, *values; // sections
    size_t index_bytes, value_bytes;
    unsigned code, parameter; // of the index section
    enum kernels_format format;
    size_t count, entries, done; // elements of the vector; entries of the packet; entries already read
    uint64_t at[4];              // position of the index code
    struct compress_keys known;
};

// Checks ALL of the packet: exact length, ascending indices below `count`, values that the encoder can
// produce, canonical padding (otherwise BASE_EFORMAT), and at most `most` entries (otherwise BASE_ELIMIT).
// BASE_ENOTFOUND: a well-formed packet over a list that is not `known`, which may be NULL. After BASE_OK
// reading cannot fail.
enum base_error compress_reader_open(const struct kernels *kernels, const uint8_t *packet,
                                     size_t packet_bytes, size_t count, size_t most,
                                     const struct compress_keys *known,
                                     struct compress_reader *reader) BASE_CHECK;
// Reads the next entries, ascending: all that are left, but at most `room`, which is a multiple of
// KERNELS_VALUES_BLOCK. Returns their number, 0 at the end.
size_t compress_reader_next(struct compress_reader *reader, size_t room, uint32_t *index, float *value);
// The same, with the values as they stand in the packet: their section (kernels/values.h), for a backend that
// is to read them into its own memory.
size_t compress_reader_piece(struct compress_reader *reader, size_t room, uint32_t *index,
                             const uint8_t **section);

// An upper bound of the magnitudes in the packet: from the scales if the format has scales, else from the
// values. Does not advance the reader.
float compress_reader_largest(const struct compress_reader *reader);

#endif
