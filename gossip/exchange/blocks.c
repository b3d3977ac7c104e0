#include "gossip/exchange/blocks.h"

#include "base/error.h"
#include "base/limits.h"

#define BLOCK_FIRST  16384u       // elements: 64 KiB
#define BLOCK_MIN    1024u        // of a slow link
#define BLOCK_TAKES  1000000000.0 // ns that a block should take, there and back
#define BLOCK_TIMES  4            // an answer that takes this many times as long as the latest one is late
#define SLOWEST_BYTE 250000.0     // ns, there and back: 64 kbit/s, if nothing is known

size_t gossip_block_elements(const struct gossip_blocks *blocks)
{
    return blocks->elements ? blocks->elements : BLOCK_FIRST;
}

// The size at most doubles or halves at a time, so a block that was delayed by something else changes little.
void gossip_block_learn(struct gossip_blocks *blocks, size_t bytes, uint64_t answer_ns)
{
    size_t elements = gossip_block_elements(blocks);

    BASE_ASSERT(elements >= BLOCK_MIN && elements <= LIMIT_RESYNC_BLOCK);
    blocks->ns_of_a_byte = (double)answer_ns / (double)(bytes ? bytes : 1);
    double takes = blocks->ns_of_a_byte * (double)(elements * sizeof(float));
    if (2 * takes < BLOCK_TAKES)
        elements *= 2;
    else if (takes > 2 * BLOCK_TAKES)
        elements /= 2;
    blocks->elements = elements < BLOCK_MIN            ? BLOCK_MIN
                       : elements > LIMIT_RESYNC_BLOCK ? LIMIT_RESYNC_BLOCK
                                                       : elements;
}

void gossip_block_late(struct gossip_blocks *blocks)
{
    double slower = 2 * blocks->ns_of_a_byte;

    BASE_ASSERT(blocks->ns_of_a_byte >= 0);
    blocks->ns_of_a_byte = slower > 0 && slower < SLOWEST_BYTE ? slower : SLOWEST_BYTE;
}

uint64_t gossip_block_patience(const struct gossip_blocks *blocks, size_t bytes, uint64_t ceiling_ns)
{
    double ns = blocks->ns_of_a_byte > 0 ? BLOCK_TIMES * blocks->ns_of_a_byte : SLOWEST_BYTE;
    double wait = ns * (double)bytes;

    return ceiling_ns + (wait < 1e15 ? (uint64_t)wait : (uint64_t)1e15);
}
