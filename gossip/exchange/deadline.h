// How long to wait for one neighbour's answer, learned from its earlier answer times.
#ifndef GOSSIP_EXCHANGE_DEADLINE_H
#define GOSSIP_EXCHANGE_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

#define GOSSIP_DEADLINE_SAMPLES 15

struct gossip_deadline {
    uint64_t samples_ns[GOSSIP_DEADLINE_SAMPLES]; // the latest answer times; a ring buffer
    size_t count, next;
};

void gossip_deadline_learn(struct gossip_deadline *deadline, uint64_t answer_ns);
uint64_t gossip_deadline_median(const struct gossip_deadline *deadline); // 0 without samples
// median + 6 * median absolute deviation, within [floor, ceiling]; the ceiling without samples.
uint64_t gossip_deadline_after(const struct gossip_deadline *deadline, uint64_t floor_ns,
                               uint64_t ceiling_ns);

// RESYNC blocks: their size, chosen so that a block takes about the same time on any link, and how long to
// wait for an answer of that size. Both follow the speed of the latest blocks.
struct gossip_blocks {
    size_t elements;     // of the next block; 0: no block has been exchanged yet
    double ns_of_a_byte; // round trip of the latest block, for each byte; 0: not known
};
size_t gossip_block_elements(const struct gossip_blocks *blocks);
void gossip_block_learn(struct gossip_blocks *blocks, size_t bytes, uint64_t answer_ns);
void gossip_block_late(struct gossip_blocks *blocks); // an answer did not come in time
uint64_t gossip_block_patience(const struct gossip_blocks *blocks, size_t bytes, uint64_t ceiling_ns);

#endif
