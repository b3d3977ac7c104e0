// How long a neighbour takes to answer: the latest few times and their median. Pure; the owner's thread.
#ifndef GOSSIP_PACE_ANSWERS_H
#define GOSSIP_PACE_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#define GOSSIP_ANSWERS 15u

struct gossip_answers {
    uint64_t samples_ns[GOSSIP_ANSWERS];
    size_t count, next;
};

void gossip_answers_learn(struct gossip_answers *answers, uint64_t answer_ns);
uint64_t gossip_answers_median(const struct gossip_answers *answers); // 0: none so far

#endif
