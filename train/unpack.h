// Unpacks data files in memory. Memory grows with the unpacked data, never by the size in a header. For
// train/, and for `p2pml data info`, which inspects files. Any thread; blocking.
#ifndef TRAIN_UNPACK_H
#define TRAIN_UNPACK_H

#include "base/error.h"
#include "train/loaders.h"
#include <stdbool.h>

// Reads a file and unpacks it if it is gzip; at most LIMIT_DATA_FILE_BYTES. *owned is malloc'ed, for the
// caller to free; file->data points into it, file->name is `path`.
enum base_error train_unpack_file(const char *path, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why) BASE_CHECK;

// The same for bytes in memory: plain bytes are borrowed (*owned NULL).
enum base_error train_unpack_gzip(const struct train_bytes *packed, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why) BASE_CHECK;

// Raw deflate (RFC 1951) of exactly `expected` bytes, whose CRC-32 is `crc`.
enum base_error train_unpack_deflated(const struct train_bytes *packed, size_t expected, uint32_t crc,
                                      uint8_t **owned, struct base_reason *why) BASE_CHECK;
bool train_unpack_crc_fits(const uint8_t *data, size_t bytes, uint32_t crc);

#endif
