// Bytes of a program's own that travel with its model, or the scaling of the built-in trainer's data: a late
// joiner gets them in the snapshot, a resumed node in the checkpoint. Nothing but their owner reads them.
#ifndef GOSSIP_BLOB_H
#define GOSSIP_BLOB_H

#include "base/hash.h"
#include "base/limits.h"
#include <stdint.h>

struct gossip_blob {
    uint32_t bytes; // at most LIMIT_BLOB_BYTES
    uint8_t data[LIMIT_BLOB_BYTES];
};

// 0: there is none.
static inline uint64_t gossip_blob_hash(const struct gossip_blob *blob)
{
    return blob->bytes > 0 ? base_hash_bytes(1, blob->data, blob->bytes) | 1 : 0;
}

#endif
