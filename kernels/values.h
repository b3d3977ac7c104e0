// Encoding and decoding of values for the wire. The bits are the same on every backend and path, because the
// values that an encoder records as sent must be those that every decoder gets (DESIGN: averaging, identity
// 2). Only IEEE additions, multiplications, divisions and exact conversions; no fused multiply-add, no libm.
//
// value[] and section[] are in the backend's memory. section[] needs no alignment beyond 4 bytes.
#ifndef KERNELS_VALUES_H
#define KERNELS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_VALUES_BLOCK 256u // entries that share a scale

// The numbers are those on the wire (compress/LAYOUT.md).
enum kernels_format {
    KERNELS_FP32 = 0, // 4 bytes
    KERNELS_FP16 = 1, // IEEE binary16, to nearest even; overflow becomes the largest finite number
    KERNELS_INT8 = 2, // this and all later formats except bf16: blocks, each with one or two fp32 scales,
                      // then the codes
    KERNELS_BF16 = 3, // the upper half of fp32, to nearest even, no scale; overflow becomes the largest
                      // finite number
    KERNELS_INT4 = 4, // sign and one of eight levels (blocks of two scales, low and high), two codes a byte
    KERNELS_INT2 = 5, // sign and one of two levels (blocks of two scales, low and high), four codes a byte
    KERNELS_SIGN = 6, // one bit an entry; the scale is the mean magnitude of its block
};
#define KERNELS_FORMATS 7u

// Length of a section; it does not depend on the values.
size_t kernels_section_bytes(enum kernels_format format, size_t count);

struct kernels_values {
    // Writes kernels_section_bytes() bytes, and replaces value[] by the values that they decode to. Values
    // must be finite. For every format and every finite block, sum (value - decoded)^2 <= sum value^2.
    void (*write)(enum kernels_format format, size_t count, float *value, uint8_t *section);
    // Safe for any bytes; bytes that `valid` refuses may decode to NaN.
    void (*read)(enum kernels_format format, size_t count, const uint8_t *section, float *value);
    // Could `write` have produced these bytes? Checks in one pass: scales are finite, not negative, not
    // denormal, and their product with the largest code is finite; no unused codes; values that a scale of 0
    // makes zero have code 0; of two scales the lower one is first; padding is zero; numbers are finite.
    bool (*valid)(enum kernels_format format, size_t count, const uint8_t *section);
};

#endif
