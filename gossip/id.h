// A node's name to the protocols: its Ed25519 public key. Ordered bytewise; "the lower id wins" means this
// order.
#ifndef GOSSIP_ID_H
#define GOSSIP_ID_H

#include <stdint.h>
#include <string.h>

#define GOSSIP_ID_BYTES 32
#define GOSSIP_ID_HEX   (2 * GOSSIP_ID_BYTES + 1)

struct gossip_id {
    uint8_t bytes[GOSSIP_ID_BYTES];
};

static inline int gossip_id_compare(const struct gossip_id *a, const struct gossip_id *b)
{
    return memcmp(a->bytes, b->bytes, GOSSIP_ID_BYTES);
}

#endif
