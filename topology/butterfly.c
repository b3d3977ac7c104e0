#include "topology/parts.h"

#include <stdlib.h>

unsigned topology_butterfly_stages(size_t slots)
{
    unsigned m = 0;
    while (slots > 1 && (slots - 1) >> m)
        m++;
    return m;
}

size_t topology_butterfly_pair(const uint32_t *holder, size_t slots, unsigned stage, bool shifted,
                               uint32_t *partner)
{
    uint32_t first = TOPOLOGY_VACANT, waiting = TOPOLOGY_VACANT;
    size_t alone = 0;
    for (size_t at = 0; at < slots; at++) {
        size_t mate = at ^ (size_t)1 << stage;
        uint32_t self = holder[at], other = mate < slots ? holder[mate] : TOPOLOGY_VACANT;
        if (self == TOPOLOGY_VACANT)
            continue;
        partner[self] = other;
        if (other != TOPOLOGY_VACANT)
            continue;
        if (alone++ == 0 && shifted) {
            first = self;
        } else if (waiting == TOPOLOGY_VACANT) {
            waiting = self;
        } else {
            partner[self] = waiting;
            partner[waiting] = self;
            waiting = TOPOLOGY_VACANT;
        }
    }
    if (first != TOPOLOGY_VACANT && waiting != TOPOLOGY_VACANT) {
        partner[first] = waiting;
        partner[waiting] = first;
    }
    return alone;
}

struct stages {
    size_t count;       // m
    size_t passes;      // 2 if a stage leaves more than two members without a partner
    uint32_t partner[]; // [2][count][n], member or TOPOLOGY_VACANT
};

static uint32_t *stage_partners(struct stages *stages, size_t n, size_t pass, size_t stage)
{
    return stages->partner + (pass * stages->count + stage) * n;
}

static struct stages *pair_stages(const uint32_t *holder, size_t slots, size_t n)
{
    unsigned count = topology_butterfly_stages(slots);
    struct stages *stages = calloc(1, sizeof *stages + 2 * count * n * sizeof *stages->partner);
    if (!stages)
        return NULL;
    stages->count = count;
    stages->passes = 1;
    for (unsigned stage = 0; stage < count; stage++) {
        uint32_t *plain = stage_partners(stages, n, 0, stage), *shifted = stage_partners(stages, n, 1, stage);
        if (topology_butterfly_pair(holder, slots, stage, false, plain) > 2)
            stages->passes = 2;
        (void)topology_butterfly_pair(holder, slots, stage, true, shifted);
    }
    return stages;
}

static enum base_error make(struct topology_plan *plan, const struct topology_options *options,
                            const struct topology_member *members)
{
    uint32_t *holder = malloc(TOPOLOGY_SLOTS_MAX * sizeof *holder);
    (void)options;
    plan->slot = calloc(plan->n + 1, sizeof *plan->slot);
    if (holder && plan->slot) {
        size_t slots = topology_slots_assign(members, plan->n, plan->order, plan->slot, holder);
        plan->data = pair_stages(holder, slots, plan->n);
    }
    free(holder);
    return plan->data ? BASE_OK : BASE_ENOMEM;
}

static size_t partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    struct stages *stages = plan->data;
    size_t pass = (size_t)(round / stages->count % stages->passes);
    uint32_t peer = stage_partners(stages, plan->n, pass, (size_t)(round % stages->count))[member];
    return peer == TOPOLOGY_VACANT ? TOPOLOGY_NOBODY : peer;
}

static uint64_t period(const struct topology_plan *plan)
{
    const struct stages *stages = plan->data;
    return stages->count * stages->passes;
}

static size_t neighbours(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity)
{
    struct topology_found found = {.count = 0};
    for (uint64_t round = 0; round < period(plan); round++)
        topology_find(&found, partner(plan, member, round));
    return topology_give(&found, peers, capacity);
}

const struct topology_family topology_butterfly = {
    .make = make, .drop = free, .partner = partner, .period = period, .neighbours = neighbours};
