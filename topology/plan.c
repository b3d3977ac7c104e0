#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>

#define FAMILY(constant, family, name) [TOPOLOGY_##constant] = &topology_##family,
static const struct topology_family *const families[TOPOLOGY_KINDS] = {TOPOLOGY_LIST(FAMILY)};

static enum base_error place_on_rings(struct topology_plan *plan, const struct topology_member *members)
{
    plan->order = calloc(plan->rings * plan->n + 1, sizeof *plan->order);
    plan->position = calloc(plan->rings * plan->n + 1, sizeof *plan->position);
    if (!plan->order || !plan->position)
        return BASE_ENOMEM;
    for (size_t ring = 0; ring < plan->rings; ring++) {
        uint32_t *order = plan->order + ring * plan->n, *position = plan->position + ring * plan->n;
        if (topology_ring_order(plan->seed, (unsigned)ring, members, plan->n, order))
            return BASE_ENOMEM;
        if (plan->family->along && topology_ring_apart(members, plan->n, order))
            return BASE_ENOMEM;
        for (size_t at = 0; at < plan->n; at++)
            position[order[at]] = (uint32_t)at;
    }
    return BASE_OK;
}

static bool possible(const struct topology_options *options, size_t n)
{
    if ((unsigned)options->kind >= TOPOLOGY_KINDS || n > TOPOLOGY_MEMBERS_MAX)
        return false;
    if (options->kind == TOPOLOGY_FILE)
        return options->graph;
    if (options->kind == TOPOLOGY_BASE)
        return options->base_k <= TOPOLOGY_BASE_MAX;
    return options->kind != TOPOLOGY_RANDOM || (options->rings >= 1 && options->rings <= TOPOLOGY_RINGS_MAX);
}

enum base_error topology_plan_create(const struct topology_options *options,
                                     const struct topology_member *members, size_t n,
                                     struct topology_plan **plan)
{
    if (!possible(options, n))
        return BASE_EINVAL;
    struct topology_plan *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return BASE_ENOMEM;
    fresh->family = families[options->kind];
    fresh->n = n;
    fresh->seed = options->seed;
    fresh->rings = options->kind == TOPOLOGY_RANDOM ? options->rings : 1;
    enum base_error error = place_on_rings(fresh, members);
    if (!error && fresh->family->make)
        error = fresh->family->make(fresh, options, members);
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
    if (plan->data)
        plan->family->drop(plan->data);
    free(plan->order);
    free(plan->position);
    free(plan->slot);
    free(plan);
}

size_t topology_plan_members(const struct topology_plan *plan)
{
    return plan->n;
}

size_t topology_plan_partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    BASE_ASSERT(member < plan->n);
    return plan->n < 2 ? TOPOLOGY_NOBODY : plan->family->partner(plan, member, round);
}

double topology_plan_weight(const struct topology_plan *plan, size_t member, uint64_t round)
{
    if (topology_plan_partner(plan, member, round) == TOPOLOGY_NOBODY)
        return 0;
    return plan->family->weight ? plan->family->weight(plan, member, round) : 0.5;
}

uint64_t topology_plan_period(const struct topology_plan *plan)
{
    return plan->n < 2 ? 1 : plan->family->period(plan);
}

size_t topology_plan_neighbours(const struct topology_plan *plan, size_t member, size_t *peers,
                                size_t capacity)
{
    BASE_ASSERT(member < plan->n);
    return plan->n < 2 ? 0 : plan->family->neighbours(plan, member, peers, capacity);
}

uint32_t topology_plan_slot(const struct topology_plan *plan, size_t member)
{
    BASE_ASSERT(member < plan->n);
    return plan->slot ? plan->slot[member] : TOPOLOGY_NO_SLOT;
}

size_t topology_plan_place(const struct topology_plan *plan, size_t member)
{
    BASE_ASSERT(member < plan->n);
    return plan->position[member];
}
