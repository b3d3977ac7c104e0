// The codec: a vector `a` -> top-k entries -> quantised values and coded indices -> one packet, and back.
//
// What the sender keeps as "sent" is the DEQUANTISED value that the receiver will decode, bit for bit the
// same on every machine (DESIGN: averaging, identity 2). The receiver knows the length of the vector, so
// every count, index and size of a packet is held against it before anything is written. Packet layout:
// compress/README.md.
//
// All memory belongs to the caller. No state; any thread, one owner per workspace.
#ifndef COMPRESS_COMPRESS_H
#define COMPRESS_COMPRESS_H

#include "base/error.h"
#include "kernels/values.h"
#include <stddef.h>
#include <stdint.h>

struct kernels;

// "fp32", "fp16", "int8", "bf16", "int4", "int2", "sign". BASE_EINVAL names the known ones.
enum base_error compress_format_parse(const char *name, enum kernels_format *format,
                                      struct base_reason *why) BASE_CHECK;
const char *compress_format_name(enum kernels_format format);

enum compress_values { COMPRESS_FP32 = 0, COMPRESS_FP16 = 1, COMPRESS_INT8 = 2 };

// BASE_EINVAL, naming the known ones, for an unknown name ("fp32", "fp16", "int8").
enum base_error compress_values_parse(const char *name, enum compress_values *values,
                                      struct base_reason *why) BASE_CHECK;
const char *compress_values_name(enum compress_values values);

// Entries of a vector: index[i] ascending and unique, value[i] finite. Arrays of `capacity`, owned by the
// caller.
struct compress_sparse {
    uint32_t *index;
    float *value;
    size_t count, capacity;
    const struct kernels *kernels; // whose memory the arrays are; NULL: ordinary memory
};
enum base_error compress_sparse_create(size_t capacity, struct compress_sparse *sparse) BASE_CHECK;
// The same in a backend's memory, which compress_select asks for.
enum base_error compress_sparse_create_on(const struct kernels *kernels, size_t capacity,
                                          struct compress_sparse *sparse) BASE_CHECK;
void compress_sparse_destroy(struct compress_sparse *sparse);

// The k entries of a[count] that are largest in magnitude, exactly k (or `count`, if smaller), ties by lower
// index; deterministic. Needs capacity >= min(k, count). BASE_EFORMAT if any element of `a` is NaN or
// infinite: nothing of `sparse` changes then. Zeros are never selected: fewer than k entries where `a` has
// fewer non-zeros.
enum base_error compress_select_topk(const float *a, size_t count, size_t k,
                                     struct compress_sparse *sparse) BASE_CHECK;

// Largest packet that `entries` entries of a vector of `count` elements can need.
size_t compress_delta_bound(size_t count, size_t entries, enum compress_values values);

// Quantises sparse->value in place (to the value that the receiver will see) and writes the packet. Entries
// that quantise to zero stay in the packet with value 0. BASE_ELIMIT when `capacity` is less than the packet
// needs, BASE_EINVAL for indices that are not ascending below `count`, BASE_EFORMAT for values not finite.
enum base_error compress_delta_encode(struct compress_sparse *sparse, size_t count,
                                      enum compress_values values, uint8_t *packet, size_t capacity,
                                      size_t *packet_bytes) BASE_CHECK;

// Strict: exact length, ascending indices below `count`, finite values, canonical padding, count of entries
// at most sparse->capacity (BASE_ELIMIT). Anything else: BASE_EFORMAT, and sparse->count stays as it was.
enum base_error compress_delta_decode(const uint8_t *packet, size_t packet_bytes, size_t count,
                                      struct compress_sparse *sparse) BASE_CHECK;

// How many entries a well-formed packet claims to hold (its header only), 0 for anything shorter than a
// header.
size_t compress_delta_entries(const uint8_t *packet, size_t packet_bytes);

// A dense run of `count` fp32 values as they are (BOOT blocks). Bound: 4*count + 8 bytes. The decoder rejects
// NaN, Inf and any other length.
enum base_error compress_block_encode(const float *values, size_t count, uint8_t *block, size_t capacity,
                                      size_t *block_bytes) BASE_CHECK;
enum base_error compress_block_decode(const uint8_t *block, size_t block_bytes, float *values,
                                      size_t count) BASE_CHECK;

// Non-negative values (Adam's second moments) on a logarithmic scale, 8 bits each: code 0 is zero, code c > 0
// is largest * 2^((c - 255) / 8), largest = the run's maximum, sent as fp32. values[count] become what the
// receiver will see. Decoding uses a table of constants, not libm, so that all machines agree. A run whose
// maximum is below 2^-94 becomes zeros. BASE_EFORMAT for negative, NaN or infinite values. Bound: count + 8
// bytes.
enum base_error compress_log8_encode(float *values, size_t count, uint8_t *block, size_t capacity,
                                     size_t *block_bytes) BASE_CHECK;
enum base_error compress_log8_decode(const uint8_t *block, size_t block_bytes, float *values,
                                     size_t count) BASE_CHECK;

#endif
