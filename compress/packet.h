// The packet: entries -> header, index section, value section, and back. Layout: compress/README.md.
//
// What the sender keeps as "sent" is the DEQUANTISED value that the receiver will decode, bit for bit the
// same on every machine (DESIGN: averaging, identity 2). The receiver knows the length of the vector, so
// every count, index and size of a packet is checked against it before anything is written.
//
// The entries handed to the encoder are in the backend's memory; packets and what the reader gives are
// ordinary memory. No state; any thread, one owner per object.
#ifndef COMPRESS_PACKET_H
#define COMPRESS_PACKET_H

#include "compress/compress.h"
#include "kernels/kernels.h"
#include <stdbool.h>

// A list of indices that both ends already have: then a packet needs values only (filter "same-keys").
struct compress_keys {
    const uint32_t *index; // ascending, unique; borrowed; ordinary memory
    size_t count;
    uint64_t hash; // compress_keys_hash of it
};
uint64_t compress_keys_hash(const uint32_t *index, size_t count);

// Largest packet that up to `entries` entries of a vector of `count` elements can need.
size_t compress_packet_bound(size_t count, size_t entries, enum kernels_format format);

// Quantises entries->value in place (to what the receiver will see), measures in entries->taken what that
// takes of their energy, and writes the packet, with the smallest of the index codes. known: a list the
// receiver has, or NULL. Entries that quantise to zero stay. BASE_ELIMIT when `capacity` is less than the
// packet needs, BASE_EINVAL for indices that are not ascending below `count`, BASE_EFORMAT for values not
// finite, BASE_ENOMEM where the backend has memory of its own: nothing has changed then.
enum base_error compress_packet_encode(const struct kernels *kernels, struct compress_sparse *entries,
                                       size_t count, enum kernels_format format,
                                       const struct compress_keys *known, uint8_t *packet, size_t capacity,
                                       size_t *packet_bytes) BASE_CHECK;

// Copies a packet of the encoder with the hash of `known`, the list of its indices, in the place of these
// indices: for a receiver that has the list. The original packet can be read without it. BASE_ELIMIT when
// `capacity` is too small, BASE_EINVAL for a list of another length.
enum base_error compress_packet_shorten(const uint8_t *packet, size_t packet_bytes,
                                        const struct compress_keys *known, uint8_t *shorter, size_t capacity,
                                        size_t *shorter_bytes) BASE_CHECK;

// How many entries a packet claims to hold (its header only), 0 for anything shorter than a header.
size_t compress_packet_entries(const uint8_t *packet, size_t packet_bytes);

// Reads a packet piece by piece, in memory of a few KiB. A plain struct: copy it to read twice. The packet
// must outlive it.
struct compress_reader {
    const struct kernels *host;      // the CPU's table
    const uint8_t *indices, *values; // sections
    size_t index_bytes, value_bytes;
    unsigned code, parameter; // of the index section
    enum kernels_format format;
    size_t count, entries, done; // elements of the vector; entries in all and handed out
    uint64_t at[4];              // where the index code stands
    struct compress_keys known;
};

// Checks ALL of the packet: exact length, ascending indices below `count`, values that the encoder could have
// made, canonical padding, at most `most` entries (BASE_ELIMIT). BASE_EFORMAT: anything else. BASE_ENOTFOUND:
// a well-formed packet over a list of keys that is not `known` (may be NULL). After BASE_OK reading cannot
// fail.
enum base_error compress_reader_open(const struct kernels *kernels, const uint8_t *packet,
                                     size_t packet_bytes, size_t count, size_t most,
                                     const struct compress_keys *known,
                                     struct compress_reader *reader) BASE_CHECK;
// The next entries, ascending: as many as there are, at most `room`, which is a multiple of
// KERNELS_VALUES_BLOCK. Returns their number, 0 at the end.
size_t compress_reader_next(struct compress_reader *reader, size_t room, uint32_t *index, float *value);

// No value of the packet is larger: from the scales of the formats that have some, from the values themselves
// of the others. Does not advance the reader.
float compress_reader_largest(const struct compress_reader *reader);

#endif
