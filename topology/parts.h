// What a plan is made of; for this folder and its tests only.
#ifndef TOPOLOGY_PARTS_H
#define TOPOLOGY_PARTS_H

#include "topology/topology.h"
#include <stdbool.h>

#define TOPOLOGY_VACANT     UINT32_MAX           // nobody holds this slot
#define TOPOLOGY_SLOTS_MOST (4u * LIMIT_MEMBERS) // claims from here on count as none

// Where a member stands on hash ring `ring`: the same on every machine.
uint64_t topology_ring_key(uint64_t seed, unsigned ring, const char *name);

// order[position] = member, by topology_ring_key, equal keys by name, then id. BASE_ENOMEM changes nothing.
enum base_error topology_ring_order(uint64_t seed, unsigned ring, const struct topology_member *members,
                                    size_t n, uint32_t *order) BASE_CHECK;

// Positions on a ring of n: who meets `position` in `round`, or TOPOLOGY_NOBODY; and after how many rounds
// that repeats.
size_t topology_ring_partner(size_t n, size_t position, uint64_t round);
uint64_t topology_ring_period(size_t n);

// Turns claims into slots: slot[n], and holder[TOPOLOGY_SLOTS_MOST] (member, or TOPOLOGY_VACANT). `order`
// holds the members in the order in which they take vacancies. Returns the highest slot in use + 1.
size_t topology_slots_assign(const struct topology_member *members, size_t n, const uint32_t *order,
                             uint32_t *slot, uint32_t *holder);

// m = ceil(log2 slots).
unsigned topology_butterfly_stages(size_t slots);
// Everybody's partner in one stage, partner[n] (member or TOPOLOGY_VACANT). Members without one in the
// butterfly pair up in slot order: the first with the second and so on, or, if `shifted`, the second with the
// third and so on, the last with the first. Returns how many they are.
size_t topology_butterfly_pair(const uint32_t *holder, size_t slots, unsigned stage, bool shifted,
                               uint32_t *partner);

#endif
