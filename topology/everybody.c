// Kinds in which a member may meet all others: a tournament, a star, and random matchings.
#include "base/hash.h"
#include "base/rng.h"
#include "topology/parts.h"

#include <stdlib.h>

static size_t all_others(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity)
{
    for (size_t i = 0; i + 1 < plan->n && i < capacity; i++)
        peers[i] = i < member ? i : i + 1;
    return plan->n - 1;
}

// The rounds of a period, in random order: in the natural order two consecutive rounds form a ring, and mix
// like one.
static enum base_error shuffle_rounds(struct topology_plan *plan, const struct topology_options *options,
                                      const struct topology_member *members)
{
    struct base_rng rng;
    uint32_t *rounds = malloc((plan->n + 1) * sizeof *rounds);
    (void)options;
    (void)members;
    if (!rounds)
        return BASE_ENOMEM;
    for (size_t i = 0; i < plan->n; i++)
        rounds[i] = (uint32_t)i;
    base_rng_seed(&rng, plan->seed);
    base_rng_shuffle(&rng, rounds, plan->n - (plan->n && plan->n % 2 == 0));
    plan->data = rounds;
    return BASE_OK;
}

// The circle method. With an odd number of positions, two positions meet in round t if their sum is t (modulo
// the number); the position that is half of t rests. With an even number, the extra position meets the one
// that would rest.
static size_t tournament_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    const uint32_t *rounds = plan->data;
    size_t odd = plan->n - (plan->n % 2 == 0), i = plan->position[member], t = rounds[round % odd];
    size_t half = t % 2 ? (t + odd) / 2 : t / 2;
    if (i == odd)
        return plan->order[half];
    if (i == half)
        return odd == plan->n ? TOPOLOGY_NOBODY : plan->order[odd];
    return plan->order[(t + odd - i) % odd];
}

static uint64_t tournament_period(const struct topology_plan *plan)
{
    return plan->n - (plan->n % 2 == 0);
}

const struct topology_family topology_complete = {.make = shuffle_rounds,
                                                  .drop = free,
                                                  .partner = tournament_partner,
                                                  .period = tournament_period,
                                                  .neighbours = all_others};

// The hub is the first on the ring, an open one if some are hard; its death makes the next one the hub.
static size_t star_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    size_t i = plan->position[member], leaf = 1 + (size_t)(round % (plan->n - 1));
    if (i != 0 && i != leaf)
        return TOPOLOGY_NOBODY;
    return plan->order[i == 0 ? leaf : 0];
}

static uint64_t star_period(const struct topology_plan *plan)
{
    return plan->n - 1;
}

static size_t star_neighbours(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity)
{
    if (plan->position[member] == 0)
        return all_others(plan, member, peers, capacity);
    if (capacity)
        peers[0] = plan->order[0];
    return 1;
}

const struct topology_family topology_star = {
    .partner = star_partner, .period = star_period, .neighbours = star_neighbours, .along = true};

// Swap-or-not (Hoang, Morris, Rogaway 2012): a permutation of n positions as a chain of involutions, each of
// which may swap x with key - x. No list is shuffled, so one partner costs O(log n), not O(n).
static unsigned swaps_for(size_t n)
{
    return 16 + 6 * topology_butterfly_stages(n);
}

static size_t swap_or_not(uint64_t key, size_t n, size_t x)
{
    size_t mirror = ((size_t)(base_hash_mix(key) % n) + n - x) % n;
    uint64_t higher = x > mirror ? x : mirror;
    return base_hash_mix(key ^ base_hash_mix(higher + 1)) & 1 ? mirror : x;
}

static uint64_t key_of(uint64_t seed, uint64_t round, unsigned swap)
{
    return base_hash_mix(base_hash_mix(seed + 0x9e3779b97f4a7c15ull) ^ base_hash_mix(round)) +
           swap * 0xd1b54a32d192ed03ull;
}

static size_t matchings_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    unsigned swaps = swaps_for(plan->n);
    size_t x = plan->position[member];
    for (unsigned i = 0; i < swaps; i++)
        x = swap_or_not(key_of(plan->seed, round, i), plan->n, x);
    x ^= 1;
    if (x == plan->n)
        return TOPOLOGY_NOBODY;
    for (unsigned i = swaps; i-- > 0;)
        x = swap_or_not(key_of(plan->seed, round, i), plan->n, x);
    return plan->order[x];
}

static uint64_t never(const struct topology_plan *plan)
{
    return plan->n == 2 ? 1 : 0;
}

const struct topology_family topology_matchings = {
    .partner = matchings_partner, .period = never, .neighbours = all_others};
