// A node's identity in all protocols: its Ed25519 public key. Ordered bytewise; "the lower id wins" means
// this order.
#ifndef GOSSIP_ID_H
#define GOSSIP_ID_H

#include <stdbool.h>
#include <stddef.h>
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

// The beginning of an id, for messages that need not carry all of it.
static inline uint64_t gossip_id_beginning(const struct gossip_id *id)
{
    uint64_t beginning = 0;
    for (unsigned i = 0; i < 8; i++)
        beginning |= (uint64_t)id->bytes[i] << 8 * i;
    return beginning;
}

// The place of `id`, or the place at which to insert it, among `count` rows of `bytes` bytes, which begin
// with their id and are in ascending order.
static inline size_t gossip_id_place(const struct gossip_id *id, const void *rows, size_t count, size_t bytes,
                                     bool *there)
{
    size_t low = 0, high = count;
    *there = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp((const char *)rows + middle * bytes, id->bytes, GOSSIP_ID_BYTES);
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
            *there |= order == 0;
        }
    }
    return low;
}

#endif
