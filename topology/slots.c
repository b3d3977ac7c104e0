#include "topology/parts.h"

#include <string.h>

// If several members claim one slot, the lowest id keeps it.
static void seat_claims(const struct topology_member *members, size_t n, uint32_t *slot, uint32_t *holder)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t claim = members[i].slot;
        if (claim >= TOPOLOGY_SLOTS_MAX)
            continue;
        uint32_t other = holder[claim];
        if (other == TOPOLOGY_VACANT || memcmp(members[i].id, members[other].id, sizeof members[i].id) < 0)
            holder[claim] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t claim = members[i].slot;
        slot[i] = claim < TOPOLOGY_SLOTS_MAX && holder[claim] == i ? claim : TOPOLOGY_NO_SLOT;
    }
}

static void seat(uint32_t member, uint32_t at, uint32_t *slot, uint32_t *holder)
{
    holder[at] = member;
    slot[member] = at;
}

static bool is_odd(uint32_t slot)
{
    return __builtin_popcount(slot) % 2;
}

// Slots that meet differ in one bit. Hard members take odd ones, open members even ones, while there are any.
static void seat_apart(const struct topology_member *members, size_t n, const uint32_t *order,
                       enum topology_access access, uint32_t *slot, uint32_t *holder)
{
    uint32_t vacancy = 0;
    for (size_t i = 0; i < n; i++) {
        if (slot[order[i]] != TOPOLOGY_NO_SLOT || members[order[i]].access != access)
            continue;
        while (vacancy < n &&
               (holder[vacancy] != TOPOLOGY_VACANT || is_odd(vacancy) != (access == TOPOLOGY_HARD)))
            vacancy++;
        if (vacancy == n)
            return;
        seat(order[i], vacancy, slot, holder);
    }
}

static void seat_others(size_t n, const uint32_t *order, uint32_t *slot, uint32_t *holder)
{
    uint32_t vacancy = 0; // below n: at most n - 1 slots are taken
    for (size_t i = 0; i < n; i++) {
        if (slot[order[i]] != TOPOLOGY_NO_SLOT)
            continue;
        while (holder[vacancy] != TOPOLOGY_VACANT)
            vacancy++;
        seat(order[i], vacancy, slot, holder);
    }
}

static void compact(size_t slots, size_t n, uint32_t *slot, uint32_t *holder)
{
    uint32_t vacancy = 0;
    for (size_t top = slots; top-- > n;) {
        if (holder[top] == TOPOLOGY_VACANT)
            continue;
        while (holder[vacancy] != TOPOLOGY_VACANT)
            vacancy++;
        seat(holder[top], vacancy, slot, holder);
        holder[top] = TOPOLOGY_VACANT;
    }
}

size_t topology_slots_assign(const struct topology_member *members, size_t n, const uint32_t *order,
                             uint32_t *slot, uint32_t *holder)
{
    size_t slots = 0;
    for (size_t at = 0; at < TOPOLOGY_SLOTS_MAX; at++)
        holder[at] = TOPOLOGY_VACANT;
    seat_claims(members, n, slot, holder);
    if (topology_has_hard(members, n)) {
        seat_apart(members, n, order, TOPOLOGY_HARD, slot, holder);
        seat_apart(members, n, order, TOPOLOGY_OPEN, slot, holder);
    }
    seat_others(n, order, slot, holder);
    for (size_t i = 0; i < n; i++)
        slots = slot[i] >= slots ? slot[i] + 1u : slots;
    if (3 * (slots - n) <= slots)
        return slots;
    compact(slots, n, slot, holder);
    return n;
}
