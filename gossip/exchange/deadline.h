// How long to wait for one neighbour, learned from how long it took before.
#ifndef GOSSIP_EXCHANGE_DEADLINE_H
#define GOSSIP_EXCHANGE_DEADLINE_H

#include <stddef.h>
#include <stdint.h>

#define GOSSIP_DEADLINE_SAMPLES 15

struct gossip_deadline {
    uint64_t samples_ns[GOSSIP_DEADLINE_SAMPLES]; // the latest answers, a ring
    size_t count, next;
};

void gossip_deadline_learn(struct gossip_deadline *deadline, uint64_t answer_ns);
uint64_t gossip_deadline_median(const struct gossip_deadline *deadline); // 0 without samples
// median + 6 * median absolute deviation, within [floor, ceiling]; the ceiling without samples.
uint64_t gossip_deadline_after(const struct gossip_deadline *deadline, uint64_t floor_ns,
                               uint64_t ceiling_ns);

#endif
