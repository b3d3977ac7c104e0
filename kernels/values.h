// Rounding of values for the wire, and back: bit-identical on every backend and path, because what an encoder
// keeps as "sent" must be what every decoder gets (DESIGN: averaging, identity 2). Only IEEE additions,
// multiplications, divisions and exact conversions; no fused multiply-add, no libm.
//
// value[] and section[] are in the backend's memory. section[] needs no alignment beyond 4 bytes.
#ifndef KERNELS_VALUES_H
#define KERNELS_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_VALUES_BLOCK 256u // entries that share a scale

// As on the wire (compress/README.md).
enum kernels_format {
    KERNELS_FP32 = 0, // 4 bytes
    KERNELS_FP16 = 1, // IEEE binary16, to nearest even; overflow becomes the largest finite number
    KERNELS_INT8 = 2, // the formats from here on: blocks of fp32 scale, then the codes
    KERNELS_BF16 = 3, // the upper half of fp32, to nearest even, no scale; overflow: largest finite number
    KERNELS_INT4 = 4, // sign and one of eight levels (blocks of two scales, low and high), two codes a byte
    KERNELS_INT2 = 5, // sign and one of two levels (blocks of two scales, low and high), four codes a byte
    KERNELS_SIGN = 6, // one bit an entry; the scale is the mean magnitude of its block
};
#define KERNELS_FORMATS 7u

// Length of a section, the same for every content.
size_t kernels_section_bytes(enum kernels_format format, size_t count);

struct kernels_values {
    // Writes kernels_section_bytes() and puts into value[] what they decode to. Values must be finite. For
    // every format and every finite block, sum (value - decoded)^2 <= sum value^2.
    void (*write)(enum kernels_format format, size_t count, float *value, uint8_t *section);
    // Any bytes are safe; what `valid` has refused may give NaN.
    void (*read)(enum kernels_format format, size_t count, const uint8_t *section, float *value);
    // Could the writer have made it? One pass: scales finite, not negative, not denormal, product with the
    // largest code finite; no unused code; only the code 0 for what a scale of 0 makes zero; of two scales
    // the lower first; padding zero; numbers finite.
    bool (*valid)(enum kernels_format format, size_t count, const uint8_t *section);
};

#endif
