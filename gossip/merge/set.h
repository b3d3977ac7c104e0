// Sets of participants, by their keys. Private to gossip/merge. Pure.
#ifndef GOSSIP_MERGE_SET_H
#define GOSSIP_MERGE_SET_H

#include "base/error.h"
#include "base/hash.h"
#include "gossip/wire/message.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct merge_set {
    uint64_t key[GOSSIP_MERGE_MOST]; // [count] ascending
    size_t count;
};

#define MERGE_NOT_IN SIZE_MAX

static inline size_t merge_set_find(const struct merge_set *set, uint64_t key)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->key[i] == key)
            return i;
    return MERGE_NOT_IN;
}

static inline bool merge_set_has(const struct merge_set *set, uint64_t key)
{
    return merge_set_find(set, key) != MERGE_NOT_IN;
}

static inline bool merge_set_equal(const struct merge_set *a, const struct merge_set *b)
{
    return a->count == b->count && memcmp(a->key, b->key, a->count * sizeof a->key[0]) == 0;
}

static inline void merge_set_add(struct merge_set *set, uint64_t key)
{
    size_t at = set->count;

    if (merge_set_has(set, key))
        return;
    BASE_ASSERT(set->count < GOSSIP_MERGE_MOST);
    for (; at > 0 && set->key[at - 1] > key; at--)
        set->key[at] = set->key[at - 1];
    set->key[at] = key;
    set->count++;
}

static inline void merge_set_drop(struct merge_set *set, uint64_t key)
{
    const size_t at = merge_set_find(set, key);

    if (at == MERGE_NOT_IN)
        return;
    memmove(&set->key[at], &set->key[at + 1], (set->count - at - 1) * sizeof set->key[0]);
    set->count--;
}

static inline struct merge_set merge_set_both(const struct merge_set *a, const struct merge_set *b)
{
    struct merge_set both = {.count = 0};

    for (size_t i = 0; i < a->count; i++)
        if (merge_set_has(b, a->key[i]))
            both.key[both.count++] = a->key[i];
    return both;
}

static inline uint64_t merge_set_hash(const struct merge_set *set)
{
    const uint64_t hash = base_hash_bytes(0, set->key, set->count * sizeof set->key[0]);

    return hash > 0 ? hash : 1;
}

// More than half of `all`, or half with the lowest key: two such parts of one set always have a common node.
static inline bool merge_set_is_most(const struct merge_set *all, const struct merge_set *part)
{
    const struct merge_set both = merge_set_both(all, part);

    return 2 * both.count > all->count ||
           (2 * both.count == all->count && all->count > 0 && merge_set_has(&both, all->key[0]));
}

#endif
