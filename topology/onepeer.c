// One-peer exponential graph, with meetings instead of one-way messages. In round t position i is on the
// cycle i, i + 2^k, i + 2 2^k, ... (mod n), k = t mod m; each cycle is a ring at its round t / m.
#include "topology/parts.h"

#include <stdlib.h>

#define STAGES_MAX 14u
_Static_assert(1u << STAGES_MAX >= TOPOLOGY_MEMBERS_MAX, "m = ceil(log2 n)");

struct stage {
    size_t cycles; // gcd(n, 2^k)
    size_t length; // n / cycles
    size_t back;   // the inverse of 2^k / cycles modulo length
};

struct onepeer {
    size_t count; // m
    struct stage stages[STAGES_MAX];
};

static struct stage make_stage(size_t n, size_t offset)
{
    struct stage stage = {.cycles = n & (0 - n)};
    stage.cycles = stage.cycles < offset ? stage.cycles : offset;
    stage.length = n / stage.cycles;
    size_t step = offset / stage.cycles % stage.length;
    for (size_t at = 0, i = 0; i < stage.length && at != 1 % stage.length; i++) {
        at = (at + step) % stage.length;
        stage.back = i + 1;
    }
    return stage;
}

static enum base_error make(struct topology_plan *plan, const struct topology_options *options,
                            const struct topology_member *members)
{
    struct onepeer *onepeer = calloc(1, sizeof *onepeer);
    (void)options;
    (void)members;
    if (!onepeer)
        return BASE_ENOMEM;
    for (size_t offset = 1; offset < plan->n; offset *= 2)
        onepeer->stages[onepeer->count++] = make_stage(plan->n, offset);
    plan->data = onepeer;
    return BASE_OK;
}

// Position i is number (i - c) / cycles * back on its cycle c = i mod cycles.
static size_t partner(const struct topology_plan *plan, size_t member, uint64_t round)
{
    const struct onepeer *onepeer = plan->data;
    const struct stage *stage = &onepeer->stages[round % onepeer->count];
    size_t i = plan->position[member], cycle = i % stage->cycles, step = (size_t)1 << round % onepeer->count;
    size_t number = i / stage->cycles * stage->back % stage->length;
    size_t mate = topology_ring_partner(stage->length, number, round / onepeer->count);
    if (mate == TOPOLOGY_NOBODY)
        return TOPOLOGY_NOBODY;
    return plan->order[(cycle + mate * step) % plan->n];
}

// A cycle of odd length is as long as the odd part of n, and repeats after as many turns. A cycle of even
// length repeats after two turns, or after one if it has only two positions.
static uint64_t period(const struct topology_plan *plan)
{
    const struct onepeer *onepeer = plan->data;
    uint64_t even = 1, odd = 1;
    for (size_t k = 0; k < onepeer->count; k++) {
        uint64_t turns = topology_ring_period(onepeer->stages[k].length);
        even = turns == 2 ? 2 : even;
        odd = turns % 2 ? turns > odd ? turns : odd : odd;
    }
    return onepeer->count * even * odd;
}

static size_t neighbours(const struct topology_plan *plan, size_t member, size_t *peers, size_t capacity)
{
    struct topology_found found = {.count = 0};
    size_t i = plan->position[member];
    for (size_t offset = 1; offset < plan->n; offset *= 2) {
        topology_find(&found, plan->order[(i + offset) % plan->n]);
        topology_find(&found, plan->order[(i + plan->n - offset) % plan->n]);
    }
    return topology_give(&found, peers, capacity);
}

const struct topology_family topology_onepeer = {
    .make = make, .drop = free, .partner = partner, .period = period, .neighbours = neighbours};
