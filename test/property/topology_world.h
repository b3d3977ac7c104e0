// Members, plans and graphs for the tests of topology.
#ifndef TEST_PROPERTY_TOPOLOGY_WORLD_H
#define TEST_PROPERTY_TOPOLOGY_WORLD_H

#include "base/rng.h"
#include "topology/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t world_seed(uint64_t initial)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : initial;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline void world_member(struct base_rng *rng, struct topology_member *member)
{
    *member = (struct topology_member){.slot = TOPOLOGY_NO_SLOT};
    snprintf(member->name, sizeof member->name, "node-%llu",
             (unsigned long long)base_rng_below(rng, 1u << 30));
    for (size_t i = 0; i < sizeof member->id; i++)
        member->id[i] = (uint8_t)base_rng_below(rng, 256);
}

static inline void world_members(struct base_rng *rng, struct topology_member *members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        world_member(rng, &members[i]);
}

static inline struct topology_plan *world_plan(const struct topology_options *options,
                                               const struct topology_member *members, size_t n)
{
    struct topology_plan *plan = NULL;
    BASE_ASSERT(!topology_plan_create(options, members, n, &plan) && plan);
    return plan;
}

// How many members the first one reaches through neighbours, itself included.
static inline size_t world_reach(const struct topology_plan *plan)
{
    size_t n = topology_plan_members(plan), count = 1, peers[256];
    size_t *reached = calloc(n, sizeof *reached);
    bool *seen = calloc(n, sizeof *seen);
    BASE_ASSERT(reached && seen);
    seen[0] = true;
    for (size_t i = 0; i < count; i++) {
        size_t met = topology_plan_neighbours(plan, reached[i], peers, 256);
        BASE_ASSERT(met <= 256);
        for (size_t p = 0; p < met; p++)
            if (!seen[peers[p]]) {
                seen[peers[p]] = true;
                reached[count++] = peers[p];
            }
    }
    free(reached);
    free(seen);
    return count;
}

#endif
