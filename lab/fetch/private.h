// The transfer of bytes: by libcurl (transfer_curl.c), or none (transfer_none.c).
#ifndef LAB_FETCH_PRIVATE_H
#define LAB_FETCH_PRIVATE_H

#include "base/error.h"
#include "lab/fetch/fetch.h"
#include <stdio.h>

// Writes the content of `url` to `out`; messages call it `path`. At most `most` bytes. Authority and
// wait_s of the options. BASE_EIO, BASE_ELIMIT, BASE_ESTATE.
enum base_error lab_fetch_transfer(const char *url, size_t most, const struct lab_fetch_options *options,
                                   FILE *out, const char *path, struct base_reason *why) BASE_CHECK;

#endif
