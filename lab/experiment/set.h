// A set of nodes of an experiment, as numbers below LAB_NODES_MAX, by value. {0} is empty.
#ifndef LAB_EXPERIMENT_SET_H
#define LAB_EXPERIMENT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_NODES_MAX 1024u
#define LAB_SET_WORDS (LAB_NODES_MAX / 64)

struct lab_set {
    uint64_t words[LAB_SET_WORDS];
};

static inline bool lab_set_has(const struct lab_set *set, size_t node)
{
    return set->words[node / 64] >> (node % 64) & 1;
}

static inline void lab_set_add(struct lab_set *set, size_t node)
{
    set->words[node / 64] |= UINT64_C(1) << (node % 64);
}

static inline void lab_set_remove(struct lab_set *set, size_t node)
{
    set->words[node / 64] &= ~(UINT64_C(1) << (node % 64));
}

static inline bool lab_set_meets(const struct lab_set *a, const struct lab_set *b) // any in both
{
    uint64_t common = 0;
    for (size_t i = 0; i < LAB_SET_WORDS; i++)
        common |= a->words[i] & b->words[i];
    return common;
}

static inline bool lab_set_is_empty(const struct lab_set *set)
{
    return !lab_set_meets(set, set);
}

#endif
