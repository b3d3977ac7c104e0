// Writes pieces of memory to an open file, one after the other. Much of it (BASE_DIRECT_MIN) goes past the
// page cache where the file system can: a copy into the cache costs more processor time than the disk does,
// and pushes out what other programs read.
#ifndef BASE_WRITE_SPANS_H
#define BASE_WRITE_SPANS_H

#include "base/file.h"
#include <stdbool.h>

#define BASE_DIRECT_MIN ((size_t)32 << 20)

// The file is empty and open for writing at its beginning. False: errno says why. Nothing is synced.
bool base_write_spans(int file, const struct base_span *spans, size_t n_spans) BASE_CHECK;

#endif
