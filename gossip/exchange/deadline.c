#include "gossip/exchange/deadline.h"

#include "base/error.h"
#include "base/limits.h"
#include <string.h>

#define BLOCK_FIRST  16384u       // elements: 64 KiB
#define BLOCK_MIN    1024u        // of a slow link
#define BLOCK_TAKES  1000000000.0 // ns that a block should take, there and back
#define BLOCK_TIMES  4            // an answer that takes this many times as long as the latest one is late
#define SLOWEST_BYTE 250000.0     // ns, there and back: 64 kbit/s, if nothing is known

static uint64_t median(uint64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) { // insertion sort: at most 15 values
        uint64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return count ? values[count / 2] : 0;
}

void gossip_deadline_learn(struct gossip_deadline *deadline, uint64_t answer_ns)
{
    BASE_ASSERT(deadline->next < GOSSIP_DEADLINE_SAMPLES && deadline->count <= GOSSIP_DEADLINE_SAMPLES);
    deadline->samples_ns[deadline->next] = answer_ns;
    deadline->next = (deadline->next + 1) % GOSSIP_DEADLINE_SAMPLES;
    if (deadline->count < GOSSIP_DEADLINE_SAMPLES)
        deadline->count++;
}

uint64_t gossip_deadline_median(const struct gossip_deadline *deadline)
{
    uint64_t sorted[GOSSIP_DEADLINE_SAMPLES];

    memcpy(sorted, deadline->samples_ns, sizeof sorted);
    return median(sorted, deadline->count);
}

uint64_t gossip_deadline_after(const struct gossip_deadline *deadline, uint64_t floor_ns, uint64_t ceiling_ns)
{
    uint64_t middle = gossip_deadline_median(deadline);
    uint64_t spread[GOSSIP_DEADLINE_SAMPLES];

    if (deadline->count == 0)
        return ceiling_ns;
    for (size_t i = 0; i < deadline->count; i++) {
        uint64_t sample = deadline->samples_ns[i];
        spread[i] = sample > middle ? sample - middle : middle - sample;
    }
    // One answer says nothing about the spread: half of it is assumed (RFC 6298, section 2.2).
    uint64_t spreads = deadline->count > 1 ? median(spread, deadline->count) : middle / 2;
    uint64_t wait = middle + 6 * spreads;
    if (wait < 2 * middle) // an exchange whose requests do not cross takes two packets instead of one
        wait = 2 * middle;
    if (wait < floor_ns)
        wait = floor_ns;
    return wait < ceiling_ns ? wait : ceiling_ns;
}

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
