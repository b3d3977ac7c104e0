// Data files in memory, unpacked. Memory grows with the data that arrives, never with what a header promises.
// For train/, and for `p2pml data info`, which looks into files. Any thread; blocking.
#ifndef TRAIN_UNPACK_H
#define TRAIN_UNPACK_H

#include "base/error.h"
#include "train/loaders.h"
#include <stdbool.h>

// The file's bytes; those of a gzip file unpacked, at most LIMIT_DATA_FILE_BYTES. *owned is malloc'ed, for
// the caller to free; file->data points into it, file->name is `path`.
enum base_error train_unpack_file(const char *path, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why) BASE_CHECK;

// The same of bytes that are there: plain ones are borrowed (*owned NULL).
enum base_error train_unpack_gzip(const struct train_bytes *packed, struct train_bytes *file, uint8_t **owned,
                                  struct base_reason *why) BASE_CHECK;

// Raw deflate (RFC 1951) of exactly `expected` bytes, whose CRC-32 is `crc`.
enum base_error train_unpack_deflated(const struct train_bytes *packed, size_t expected, uint32_t crc,
                                      uint8_t **owned, struct base_reason *why) BASE_CHECK;
bool train_unpack_crc_fits(const uint8_t *data, size_t bytes, uint32_t crc);

#endif
