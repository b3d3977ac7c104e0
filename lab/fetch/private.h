// How bytes arrive: over libcurl (transfer_curl.c), or not at all (transfer_none.c).
#ifndef LAB_FETCH_PRIVATE_H
#define LAB_FETCH_PRIVATE_H

#include "base/error.h"
#include <stdio.h>

// What `url` has, to `out`; `path` is what messages call it. At most LIMIT_DATA_FILE_BYTES. A transfer
// that stands still for 30 s has failed; a slow one may take as long as it moves. BASE_EIO, BASE_ELIMIT,
// BASE_ESTATE.
enum base_error lab_fetch_transfer(const char *url, const char *authority, FILE *out, const char *path,
                                   struct base_reason *why) BASE_CHECK;

#endif
