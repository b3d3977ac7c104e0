#include "topology/topology.h"
#include "base/hash.h"

#include <stdbool.h>
#include <string.h>

// Each member has two neighbours on a ring and at most one a bit of its slot number on a butterfly.
#define MOST_NEIGHBOURS 64u

static const char *const kind_names[] = {[TOPOLOGY_RING] = "ring", [TOPOLOGY_BUTTERFLY] = "butterfly"};

enum base_error topology_kind_parse(const char *name, enum topology_kind *kind, struct base_reason *why)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (enum topology_kind)i;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_EINVAL, "no topology is called '%.64s'; expected ring or butterfly", name);
}

const char *topology_kind_name(enum topology_kind kind)
{
    return kind_names[kind];
}

uint64_t topology_member_key(uint64_t seed, const char *name)
{
    return base_hash_bytes(seed, name, strlen(name));
}

// The matching {0,1} {2,3} ... turned by one position a round. With n odd the last position of the turned
// circle rests, so each member rests once in n rounds.
static size_t ring_partner(size_t n, size_t self, uint64_t round)
{
    size_t turn = (size_t)(round % n);
    size_t q = self >= turn ? self - turn : self + (n - turn);
    if (q == n - 1 && n % 2)
        return TOPOLOGY_NOBODY;
    if (q % 2)
        return self ? self - 1 : n - 1;
    return self + 1 < n ? self + 1 : 0;
}

// m = ceil(log2 n)
static unsigned butterfly_stages(size_t n)
{
    unsigned m = 0;
    while (n > 1 && (n - 1) >> m)
        m++;
    return m;
}

// The slots whose partner would be >= n are one run [first, last): those of the last, incomplete block of 2h
// slots that lie in its lower half and have no upper half. They pair up in slot order.
static size_t butterfly_partner(size_t n, size_t self, uint64_t round)
{
    unsigned m = butterfly_stages(n);
    if (m == 0)
        return TOPOLOGY_NOBODY;
    size_t h = (size_t)1 << (round % m), partner = self ^ h;
    if (partner < n)
        return partner;
    size_t block = n - n % (2 * h); // start of the incomplete block
    size_t first = n - block > h ? n - h : block;
    size_t last = n - block > h ? block + h : n;
    size_t mate = (self - first) % 2 ? self - 1 : self + 1;
    return mate < last ? mate : TOPOLOGY_NOBODY;
}

size_t topology_partner(enum topology_kind kind, size_t members, size_t self, uint64_t round)
{
    BASE_ASSERT(self < members && members <= SIZE_MAX / 2);
    return kind == TOPOLOGY_RING ? ring_partner(members, self, round)
                                 : butterfly_partner(members, self, round);
}

size_t topology_period(enum topology_kind kind, size_t members)
{
    if (members <= 2)
        return 1;
    if (kind == TOPOLOGY_BUTTERFLY)
        return butterfly_stages(members);
    return members % 2 ? members : 2;
}

size_t topology_neighbours(enum topology_kind kind, size_t members, size_t self, size_t *peers,
                           size_t capacity)
{
    size_t found[MOST_NEIGHBOURS], count = 0, period = topology_period(kind, members);
    for (size_t round = 0; round < period; round++) {
        size_t partner = topology_partner(kind, members, self, round), at = 0;
        while (at < count && found[at] < partner)
            at++;
        bool known = at < count && found[at] == partner;
        if (partner == TOPOLOGY_NOBODY || known)
            continue;
        BASE_ASSERT(count < MOST_NEIGHBOURS);
        memmove(found + at + 1, found + at, (count - at) * sizeof *found);
        found[at] = partner;
        count++;
    }
    size_t given = count < capacity ? count : capacity;
    if (given)
        memcpy(peers, found, given * sizeof *found);
    return count;
}
