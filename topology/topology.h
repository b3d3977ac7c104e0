// Who meets whom. A topology gives each member a cyclic schedule of meetings, as a pure function of the
// number of members, the member's position and the round; there is nothing to negotiate. It refuses to know
// addresses, liveness and time. Any thread.
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum topology_kind {
    TOPOLOGY_RING,      // members on a circle; alternating matchings along it
    TOPOLOGY_BUTTERFLY, // round t: slot i meets i XOR 2^(t mod m), m = ceil(log2 n)
};

#define TOPOLOGY_NOBODY SIZE_MAX

// BASE_EINVAL, naming the known kinds, for an unknown name.
enum base_error topology_kind_parse(const char *name, enum topology_kind *kind,
                                    struct base_reason *why) BASE_CHECK;
const char *topology_kind_name(enum topology_kind kind);

// The order of members: positions 0..n-1 are the members sorted by this key (equal keys: by name).
uint64_t topology_member_key(uint64_t seed, const char *name);

// Position that `self` meets in round `round` among `members` members, or TOPOLOGY_NOBODY for a rest.
// Symmetric: if a meets b then b meets a. Ring, and butterfly where n is no power of two: see
// topology/README.md.
size_t topology_partner(enum topology_kind kind, size_t members, size_t self, uint64_t round);

// Rounds after which the schedule repeats (>= 1).
size_t topology_period(enum topology_kind kind, size_t members);

// All positions that `self` meets in one period, ascending, without repeats, into peers[capacity]; returns
// how many there are (may exceed capacity; then the first `capacity` are there).
size_t topology_neighbours(enum topology_kind kind, size_t members, size_t self, size_t *peers,
                           size_t capacity);

#endif
