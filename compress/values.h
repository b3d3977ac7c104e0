// Private to compress/: the value section of a packet. Layout: compress/README.md.
#ifndef COMPRESS_VALUES_H
#define COMPRESS_VALUES_H

#include "compress/compress.h"
#include <stdbool.h>

#define COMPRESS_INT8_BLOCK 256u // entries that share one scale

// Length of the section; the same for every content.
size_t compress_values_bytes(enum compress_values values, size_t count);
bool compress_values_finite(const float *value, size_t count);
// Writes exactly compress_values_bytes() bytes and puts into value[] what they decode to. value[] must be
// finite.
void compress_values_write(enum compress_values values, float *value, size_t count, uint8_t *out);
// BASE_EFORMAT unless the section is one that the writer could have made.
enum base_error compress_values_check(enum compress_values values, const uint8_t *in,
                                      size_t count) BASE_CHECK;
// The section must have passed the check.
void compress_values_read(enum compress_values values, const uint8_t *in, size_t count, float *value);

// IEEE 754 binary16: round to nearest even; what would overflow becomes the largest finite number.
uint16_t compress_half_from(float value);
float compress_half_to(uint16_t half);

#endif
