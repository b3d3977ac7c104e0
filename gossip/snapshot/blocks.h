// How a vector is divided into blocks, the same at both ends. Private to gossip/snapshot.
#ifndef GOSSIP_SNAPSHOT_BLOCKS_H
#define GOSSIP_SNAPSHOT_BLOCKS_H

#include "base/limits.h"
#include "gossip/wire/message.h"
#include <stddef.h>

// Values are sent as they are in memory.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks of a snapshot are little-endian");

#define SNAPSHOT_BLOCKS_AHEAD 64u // open asks of one joiner at a time, at most

static inline size_t blocks_count(size_t parameters)
{
    return (parameters + LIMIT_SNAPSHOT_BLOCK - 1) / LIMIT_SNAPSHOT_BLOCK;
}

// The vectors one after another, then the blob.
static inline size_t blocks_of_all_parts(size_t parameters)
{
    return GOSSIP_PARTS * blocks_count(parameters) + 1;
}

static inline size_t block_length(size_t parameters, size_t block)
{
    const size_t left = parameters - block * LIMIT_SNAPSHOT_BLOCK;
    return left < LIMIT_SNAPSHOT_BLOCK ? left : LIMIT_SNAPSHOT_BLOCK;
}

#endif
