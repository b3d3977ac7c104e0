// Bytes of a program's own that travel with its model: a late joiner gets them in the snapshot, a resumed
// node in the checkpoint. Nothing but the program reads them.
#ifndef GOSSIP_BLOB_H
#define GOSSIP_BLOB_H

#include "base/limits.h"
#include <stdint.h>

struct gossip_blob {
    uint32_t bytes; // at most LIMIT_BLOB_BYTES
    uint8_t data[LIMIT_BLOB_BYTES];
};

#endif
