// RESYNC blocks: their size, chosen so that a block takes about the same time on any link, and how long to
// wait for an answer of that size. Both follow the speed of the latest blocks.
#ifndef GOSSIP_EXCHANGE_BLOCKS_H
#define GOSSIP_EXCHANGE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct gossip_blocks {
    size_t elements;     // of the next block; 0: no block has been exchanged yet
    double ns_of_a_byte; // round trip of the latest block, for each byte; 0: not known
};
size_t gossip_block_elements(const struct gossip_blocks *blocks);
void gossip_block_learn(struct gossip_blocks *blocks, size_t bytes, uint64_t answer_ns);
void gossip_block_late(struct gossip_blocks *blocks); // an answer did not come in time
uint64_t gossip_block_patience(const struct gossip_blocks *blocks, size_t bytes, uint64_t ceiling_ns);

#endif
