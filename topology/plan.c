#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>

struct topology_plan {
    enum topology_kind kind;
    size_t n;
    size_t rings;       // hash rings; a butterfly uses the first as the order in which vacancies are taken
    size_t stages;      // butterfly: m
    size_t passes;      // butterfly: 2 where some stage leaves more than two without a partner
    uint32_t *order;    // [rings][n] member at a position
    uint32_t *position; // [rings][n] position of a member
    uint32_t *slot;     // butterfly: [n]
    uint32_t *partner;  // butterfly: [2][stages][n], member or TOPOLOGY_VACANT
};

static enum base_error place_on_rings(struct topology_plan *plan, uint64_t seed,
                                      const struct topology_member *members)
{
    plan->order = calloc(plan->rings * plan->n + 1, sizeof *plan->order);
    plan->position = calloc(plan->rings * plan->n + 1, sizeof *plan->position);
    if (!plan->order || !plan->position)
        return BASE_ENOMEM;
    for (size_t ring = 0; ring < plan->rings; ring++) {
        uint32_t *order = plan->order + ring * plan->n, *position = plan->position + ring * plan->n;
        if (topology_ring_order(seed, (unsigned)ring, members, plan->n, order))
            return BASE_ENOMEM;
        for (size_t at = 0; at < plan->n; at++)
            position[order[at]] = (uint32_t)at;
    }
    return BASE_OK;
}

static uint32_t *stage_partners(const struct topology_plan *plan, size_t pass, size_t stage)
{
    return plan->partner + (pass * plan->stages + stage) * plan->n;
}

static enum base_error place_on_slots(struct topology_plan *plan, const struct topology_member *members)
{
    enum base_error error = BASE_ENOMEM;
    uint32_t *holder = malloc(TOPOLOGY_SLOTS_MOST * sizeof *holder);
    plan->slot = calloc(plan->n + 1, sizeof *plan->slot);
    if (!holder || !plan->slot)
        goto out;
    size_t slots = topology_slots_assign(members, plan->n, plan->order, plan->slot, holder);
    plan->stages = topology_butterfly_stages(slots);
    plan->partner = calloc(2 * plan->stages * plan->n + 1, sizeof *plan->partner);
    if (!plan->partner)
        goto out;
    plan->passes = 1;
    for (unsigned stage = 0; stage < plan->stages; stage++) {
        if (topology_butterfly_pair(holder, slots, stage, false, stage_partners(plan, 0, stage)) > 2)
            plan->passes = 2;
        (void)topology_butterfly_pair(holder, slots, stage, true, stage_partners(plan, 1, stage));
    }
    error = BASE_OK;
out:
    free(holder);
    return error;
}

enum base_error topology_plan_create(const struct topology_options *options,
                                     const struct topology_member *members, size_t n,
                                     struct topology_plan **plan)
{
    bool random = options->kind == TOPOLOGY_RANDOM;
    bool rings_fit = options->rings >= 1 && options->rings <= TOPOLOGY_RINGS_MOST;
    if (n > LIMIT_MEMBERS || (unsigned)options->kind > TOPOLOGY_RANDOM || (random && !rings_fit))
        return BASE_EINVAL;
    struct topology_plan *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return BASE_ENOMEM;
    fresh->kind = options->kind;
    fresh->n = n;
    fresh->rings = random ? options->rings : 1;
    enum base_error error = place_on_rings(fresh, options->seed, members);
    if (!error && options->kind == TOPOLOGY_BUTTERFLY)
        error = place_on_slots(fresh, members);
    if (error) {
        topology_plan_destroy(fresh);
        return error;
    }
    *plan = fresh;
    return BASE_OK;
}

void topology_plan_destroy(struct topology_plan *plan)
{
    if (!plan)
        return;
    free(plan->order);
    free(plan->position);
    free(plan->slot);
    free(plan->partner);
    free(plan);
}

size_t topology_plan_members(const struct topology_plan *plan)
{
    return plan->n;
}

// Ring t mod K is at its round t / K.
static size_t partner_on_rings(const struct topology_plan *plan, size_t member, uint64_t round)
{
    size_t start = (size_t)(round % plan->rings) * plan->n;
    size_t at = topology_ring_partner(plan->n, plan->position[start + member], round / plan->rings);
    return at == TOPOLOGY_NOBODY ? TOPOLOGY_NOBODY : plan->order[start + at];
}

static size_t partner_on_slots(const struct topology_plan *plan, size_t member, uint64_t round)
{
    size_t pass = (size_t)(round / plan->stages % plan->passes);
    uint32_t partner = stage_partners(plan, pass, (size_t)(round % plan->stages))[member];
    return partner == TOPOLOGY_VACANT ? TOPOLOGY_NOBODY : partner;
}

size_t topology_plan_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    BASE_ASSERT(member < plan->n);
    if (plan->n < 2)
        return TOPOLOGY_NOBODY;
    return plan->kind == TOPOLOGY_BUTTERFLY ? partner_on_slots(plan, member, round)
                                            : partner_on_rings(plan, member, round);
}

uint64_t topology_plan_period(const struct topology_plan *plan)
{
    if (plan->n < 2)
        return 1;
    if (plan->kind == TOPOLOGY_BUTTERFLY)
        return plan->stages * plan->passes;
    return plan->n > 2 ? plan->rings * topology_ring_period(plan->n) : 1;
}

#define NEIGHBOURS_MOST 32u // two a ring (8), or two a stage (14)

struct found {
    size_t peers[NEIGHBOURS_MOST], count; // ascending
};

static void find(struct found *found, size_t peer)
{
    size_t at = 0;
    while (at < found->count && found->peers[at] < peer)
        at++;
    if (peer == TOPOLOGY_NOBODY || (at < found->count && found->peers[at] == peer))
        return;
    BASE_ASSERT(found->count < NEIGHBOURS_MOST);
    memmove(found->peers + at + 1, found->peers + at, (found->count - at) * sizeof *found->peers);
    found->peers[at] = peer;
    found->count++;
}

size_t topology_plan_neighbours(const struct topology_plan *plan, size_t member, size_t *peers,
                                size_t capacity)
{
    struct found found = {.count = 0};
    BASE_ASSERT(member < plan->n);
    if (plan->n >= 2 && plan->kind == TOPOLOGY_BUTTERFLY) {
        for (uint64_t round = 0; round < plan->stages * plan->passes; round++)
            find(&found, partner_on_slots(plan, member, round));
    } else if (plan->n >= 2) {
        for (size_t ring = 0; ring < plan->rings; ring++) { // both sides, met in a period of any length
            const uint32_t *order = plan->order + ring * plan->n;
            size_t at = plan->position[ring * plan->n + member];
            find(&found, order[(at + 1) % plan->n]);
            find(&found, order[(at + plan->n - 1) % plan->n]);
        }
    }
    size_t given = found.count < capacity ? found.count : capacity;
    if (given)
        memcpy(peers, found.peers, given * sizeof *peers);
    return found.count;
}

uint32_t topology_plan_slot(const struct topology_plan *plan, size_t member)
{
    BASE_ASSERT(member < plan->n);
    return plan->slot ? plan->slot[member] : TOPOLOGY_NO_SLOT;
}
