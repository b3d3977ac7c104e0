// How long a neighbour takes to answer: the latest few times, their median and their spread. Pure; the
// owner's thread.
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
// Median + 6 x median absolute deviation (at least twice the median, within the two bounds); the ceiling if
// nothing is known. RFC 6298, section 2.2, for the spread of a single answer.
uint64_t gossip_answers_patience(const struct gossip_answers *answers, uint64_t floor_ns,
                                 uint64_t ceiling_ns);

#endif
