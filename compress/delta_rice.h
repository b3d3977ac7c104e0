// Private to compress/: the index section of a packet, gaps in Golomb-Rice code. Layout: compress/README.md.
// With parameter 0 the section is a bitmap that ends with its last one, so it is never longer than a bitmap.
#ifndef COMPRESS_DELTA_RICE_H
#define COMPRESS_DELTA_RICE_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

#define COMPRESS_DELTA_RICE_MAX 30u // no gap reaches 2^30: LIMIT_PARAMETERS

// The parameter that makes the section of these ascending indices smallest, and that section's length.
unsigned compress_delta_rice_parameter(const uint32_t *index, size_t entries, size_t *bytes);
// Longest section that the best parameter can leave for any `entries` indices below `count`.
size_t compress_delta_rice_bound(size_t count, size_t entries);
// `bytes` as compress_delta_rice_parameter() gave it.
void compress_delta_rice_write(const uint32_t *index, size_t entries, unsigned parameter, uint8_t *out,
                               size_t bytes);
// Reads a section of exactly `bytes`; index may be NULL, to check only. BASE_EFORMAT.
enum base_error compress_delta_rice_read(const uint8_t *in, size_t bytes, unsigned parameter, size_t count,
                                         size_t entries, uint32_t *index) BASE_CHECK;

#endif
