// The vectors of a node: model, second moment, correction and what is held back (P2PML_*), in whole pages.
// They lie in private memory, or in a file in memory that another process maps, too. One thread at a time.
#ifndef LIB_VECTORS_H
#define LIB_VECTORS_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

#define LIB_VECTORS 4

struct lib_vectors {
    size_t parameters;
    size_t bytes;           // of each vector, rounded up to whole pages
    int file;               // vector i begins at i * bytes; -1: private memory
    float *at[LIB_VECTORS]; // [parameters] each; NULL: not wanted
};

// All zero. shared: in a file. BASE_ENOMEM, BASE_EIO; call lib_vectors_destroy() after an error, too.
enum base_error lib_vectors_create(struct lib_vectors *vectors, size_t parameters,
                                   const bool wanted[LIB_VECTORS], bool shared,
                                   struct base_reason *why) BASE_CHECK;
void lib_vectors_destroy(struct lib_vectors *vectors);
// Moves shared vectors to another file, at the same addresses: a process that still writes into the old one
// no longer reaches them. On failure they stay where they are.
enum base_error lib_vectors_renew(struct lib_vectors *vectors, struct base_reason *why) BASE_CHECK;

#endif
