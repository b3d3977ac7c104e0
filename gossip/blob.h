// Bytes of a program's own that travel with its model, or the scaling of the built-in trainer's data: a late
// joiner gets them in the snapshot, a resumed node in the checkpoint. Nothing but their owner reads them.
#ifndef GOSSIP_BLOB_H
#define GOSSIP_BLOB_H

#include "base/limits.h"
#include <stdint.h>

struct gossip_blob {
    uint32_t bytes; // at most LIMIT_BLOB_BYTES
    uint8_t data[LIMIT_BLOB_BYTES];
};

#endif
