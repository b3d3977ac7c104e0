// The codec: a vector `a` -> top-k entries -> quantised values and coded indices -> one packet, and back.
//
// What the sender records as sent is the DEQUANTISED value, which the receiver will decode with the same bits
// on every machine (DESIGN: averaging, identity 2). The receiver knows the length of the vector, so every
// count, index and size of a packet is checked against it before anything is written. Packet layout:
// compress/LAYOUT.md.
//
// All memory belongs to the caller. No state; any thread, one owner per workspace.
#ifndef COMPRESS_COMPRESS_H
#define COMPRESS_COMPRESS_H

#include "base/error.h"
#include "kernels/values.h"
#include <stddef.h>
#include <stdint.h>

struct kernels;

const char *compress_format_name(enum kernels_format format); // "fp32", "int4"

// Entries of a vector: index[i] ascending and unique, value[i] finite. Arrays of `capacity`, owned by the
// caller.
struct compress_sparse {
    uint32_t *index;
    float *value;
    size_t count, capacity;
    double taken;                  // sum of v^2 - (v - q)^2, v quantised to q by the latest encoding
    const struct kernels *kernels; // the backend whose memory the arrays are in; NULL: ordinary memory
};
enum base_error compress_sparse_create(size_t capacity, struct compress_sparse *sparse) BASE_CHECK;
// The same in the backend's memory, as compress_select requires.
enum base_error compress_sparse_create_on(const struct kernels *kernels, size_t capacity,
                                          struct compress_sparse *sparse) BASE_CHECK;
void compress_sparse_destroy(struct compress_sparse *sparse);

// A dense run of `count` fp32 values, unchanged (RESYNC blocks). Bound: 4*count bytes. The decoder
// rejects NaN, Inf and any other length.
enum base_error compress_block_encode(const float *values, size_t count, uint8_t *block, size_t capacity,
                                      size_t *block_bytes) BASE_CHECK;
enum base_error compress_block_decode(const uint8_t *block, size_t block_bytes, float *values,
                                      size_t count) BASE_CHECK;

// Non-negative values (Adam's second moments) on a logarithmic scale, 8 bits each: code 0 is zero, code c > 0
// is largest * 2^((c - 255) / 8), largest = the run's maximum, sent as fp32. values[count] is replaced by the
// values that the receiver will decode. Decoding uses a table of constants, not libm, so that all machines
// agree. A run whose maximum is below 2^-94 becomes zeros. BASE_EFORMAT for negative, NaN or infinite values.
// Bound: count + 4 bytes.
enum base_error compress_log8_encode(float *values, size_t count, uint8_t *block, size_t capacity,
                                     size_t *block_bytes) BASE_CHECK;
enum base_error compress_log8_decode(const uint8_t *block, size_t block_bytes, float *values,
                                     size_t count) BASE_CHECK;

#endif
