// Opaque bytes that are sent and stored with a model: the state of the program that trains, or the data
// scaling of the built-in trainer. A late joiner receives them in the snapshot, a resumed node in the
// checkpoint. Only that program or trainer reads them.
#ifndef GOSSIP_BLOB_H
#define GOSSIP_BLOB_H

#include "base/hash.h"
#include "base/limits.h"
#include <stdint.h>

struct gossip_blob {
    uint32_t bytes; // at most LIMIT_BLOB_BYTES
    uint8_t data[LIMIT_BLOB_BYTES];
};

// 0: the blob is empty.
static inline uint64_t gossip_blob_hash(const struct gossip_blob *blob)
{
    return blob->bytes > 0 ? base_hash_bytes(1, blob->data, blob->bytes) | 1 : 0;
}

#endif
