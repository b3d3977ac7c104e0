#include "base/hash.h"
#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>

struct place {
    uint64_t key;
    const struct topology_member *member;
};

// Ring 0 is the ring of TOPOLOGY_RING. The seeds of the rings are the states of a splitmix64 that starts at
// `seed`.
uint64_t topology_ring_key(uint64_t seed, unsigned ring, const char *name)
{
    return base_hash_bytes(seed + ring * 0x9e3779b97f4a7c15ull, name, strnlen(name, LIMIT_NODE_NAME_BYTES));
}

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    int names = strncmp(a->member->name, b->member->name, sizeof a->member->name);
    return names ? names : memcmp(a->member->id, b->member->id, sizeof a->member->id);
}

enum base_error topology_ring_order(uint64_t seed, unsigned ring, const struct topology_member *members,
                                    size_t n, uint32_t *order)
{
    struct place *places = malloc((n ? n : 1) * sizeof *places);
    if (!places)
        return BASE_ENOMEM;
    for (size_t i = 0; i < n; i++)
        places[i] = (struct place){topology_ring_key(seed, ring, members[i].name), &members[i]};
    qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)(places[i].member - members);
    free(places);
    return BASE_OK;
}

// The matching {0,1} {2,3} ..., rotated by one position per round. If n is odd, the last position of the
// rotated circle rests, so each member rests once in n rounds.
size_t topology_ring_partner(size_t n, size_t position, uint64_t round)
{
    size_t turn = (size_t)(round % n);
    size_t q = position >= turn ? position - turn : position + (n - turn);
    if (q == n - 1 && n % 2)
        return TOPOLOGY_NOBODY;
    if (q % 2)
        return position ? position - 1 : n - 1;
    return position + 1 < n ? position + 1 : 0;
}

uint64_t topology_ring_period(size_t n)
{
    if (n <= 2)
        return 1;
    return n % 2 ? n : 2;
}

// Round t is round t / K of ring t mod K.
static size_t partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    size_t start = (size_t)(round % plan->rings) * plan->n;
    size_t at = topology_ring_partner(plan->n, plan->position[start + member], round / plan->rings);
    return at == TOPOLOGY_NOBODY ? TOPOLOGY_NOBODY : plan->order[start + at];
}

static uint64_t period(const struct topology_plan *plan)
{
    return plan->n > 2 ? plan->rings * topology_ring_period(plan->n) : 1;
}

// The two neighbours on each ring: in a period the member meets both.
static size_t neighbours(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity)
{
    struct topology_found found = {.count = 0};
    for (size_t ring = 0; ring < plan->rings; ring++) {
        const uint32_t *order = plan->order + ring * plan->n;
        size_t at = plan->position[ring * plan->n + member];
        topology_find(&found, order[(at + 1) % plan->n]);
        topology_find(&found, order[(at + plan->n - 1) % plan->n]);
    }
    return topology_give(&found, peers, capacity);
}

const struct topology_family topology_ring = {
    .partner = partner, .period = period, .neighbours = neighbours, .along = true, .alike = true};
const struct topology_family topology_random = {
    .partner = partner, .period = period, .neighbours = neighbours, .along = true};
