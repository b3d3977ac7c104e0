#include "gossip/reach/reach.h"

#include <stdlib.h>
#include <string.h>

struct voter {
    struct gossip_id id;
    bool linked, near;
    struct gossip_address seen;         // family 0: it has not said
    uint64_t heard_ns;                  // the latest of all that is known of it
    uint64_t called_ns, called_told_ns; // 0: never; told: from an address that it tells
};

struct gossip_reach {
    struct gossip_address given[LIMIT_ADDRESSES], own[LIMIT_ADDRESSES];
    size_t n_given, n_own;
    struct gossip_address mapped; // family 0: none
    struct gossip_address interfaces[GOSSIP_REACH_INTERFACES];
    size_t n_interfaces;
    struct voter voters[GOSSIP_REACH_VOTERS];
    size_t n_voters;
    uint64_t first_ns; // of the first link since the interfaces changed; 0: none
    enum gossip_access told;
    uint64_t differs_ns; // since when it should be told something else; 0: it is right
};

const char *gossip_reach_state_name(enum gossip_reach_state state)
{
    static const char *const names[] = {[GOSSIP_REACH_UNKNOWN] = "unknown",
                                        [GOSSIP_REACH_REACHABLE] = "reachable",
                                        [GOSSIP_REACH_PRIVATE] = "private"};
    return names[state];
}

bool gossip_address_same_host(const struct gossip_address *a, const struct gossip_address *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

bool gossip_address_same(const struct gossip_address *a, const struct gossip_address *b)
{
    return gossip_address_same_host(a, b) && a->port == b->port;
}

bool gossip_address_is_near(const struct gossip_address *a)
{
    static const uint8_t zeros[16], one[16] = {[15] = 1};
    if (a->family == 4)
        return a->ip[0] == 127 || memcmp(a->ip, zeros, 4) == 0 || (a->ip[0] == 169 && a->ip[1] == 254);
    return memcmp(a->ip, zeros, sizeof zeros) == 0 || memcmp(a->ip, one, sizeof one) == 0;
}

static uint32_t number_of(const uint8_t ip[4])
{
    return (uint32_t)ip[0] << 24 | (uint32_t)ip[1] << 16 | (uint32_t)ip[2] << 8 | ip[3];
}

bool gossip_address_is_public(const struct gossip_address *a)
{
    static const struct {
        uint8_t ip[4], bits;
    } others[] = {{{0, 0, 0, 0}, 8},     {{10, 0, 0, 0}, 8},      {{100, 64, 0, 0}, 10},
                  {{127, 0, 0, 0}, 8},   {{169, 254, 0, 0}, 16},  {{172, 16, 0, 0}, 12},
                  {{192, 0, 0, 0}, 24},  {{192, 0, 2, 0}, 24},    {{192, 168, 0, 0}, 16},
                  {{198, 18, 0, 0}, 15}, {{198, 51, 100, 0}, 24}, {{203, 0, 113, 0}, 24},
                  {{224, 0, 0, 0}, 3}};
    const uint32_t ip = number_of(a->ip);
    bool is = a->family == 4;
    for (size_t i = 0; i < sizeof others / sizeof *others && is; i++)
        is = (ip ^ number_of(others[i].ip)) >> (32 - others[i].bits) != 0;
    return is;
}

enum base_error gossip_reach_create(struct gossip_reach **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? BASE_OK : BASE_ENOMEM;
}

void gossip_reach_destroy(struct gossip_reach *reach)
{
    free(reach);
}

static bool has_host(const struct gossip_address *addresses, size_t count, const struct gossip_address *host)
{
    for (size_t i = 0; i < count; i++)
        if (gossip_address_same_host(&addresses[i], host))
            return true;
    return false;
}

// -- what it is told

void gossip_reach_give(struct gossip_reach *reach, const struct gossip_address *addresses, size_t count)
{
    BASE_ASSERT(count <= LIMIT_ADDRESSES);
    for (size_t i = 0; i < count; i++)
        reach->given[i] = addresses[i];
    reach->n_given = count;
}

static bool interfaces_differ(const struct gossip_reach *reach, const struct gossip_address *addresses,
                              size_t count)
{
    bool differ = reach->n_interfaces != count;
    for (size_t i = 0; i < count && !differ; i++)
        differ = !has_host(reach->interfaces, reach->n_interfaces, &addresses[i]);
    return differ;
}

// What is left is of this network: a link that has survived its change works.
static void forget_unlinked(struct gossip_reach *reach)
{
    size_t kept = 0;
    for (size_t i = 0; i < reach->n_voters; i++)
        if (reach->voters[i].linked)
            reach->voters[kept++] = reach->voters[i];
    reach->n_voters = kept;
    if (kept == 0)
        reach->first_ns = 0;
}

bool gossip_reach_interfaces(struct gossip_reach *reach, const struct gossip_address *addresses, size_t count)
{
    const size_t n_all = count < GOSSIP_REACH_INTERFACES ? count : GOSSIP_REACH_INTERFACES;
    const bool first = reach->n_interfaces == 0;
    size_t kept = 0;
    if (!interfaces_differ(reach, addresses, n_all))
        return false;
    for (size_t i = 0; i < n_all; i++)
        reach->interfaces[i] = addresses[i];
    reach->n_interfaces = n_all;
    if (first)
        return true;
    for (size_t i = 0; i < reach->n_own; i++)
        if (has_host(reach->interfaces, n_all, &reach->own[i]))
            reach->own[kept++] = reach->own[i];
    if (kept == reach->n_own)
        return true; // nothing that was told has changed
    reach->n_own = kept;
    forget_unlinked(reach);
    return true;
}

void gossip_reach_map(struct gossip_reach *reach, const struct gossip_address *address)
{
    reach->mapped = address ? *address : (struct gossip_address){0};
}

void gossip_reach_own(struct gossip_reach *reach, const struct gossip_address *address)
{
    struct gossip_address *own = reach->own;
    size_t at = 0;
    if (has_host(own, reach->n_own, address))
        return;
    while (at < reach->n_own && (gossip_address_is_near(address) || !gossip_address_is_near(&own[at])))
        at++; // an address that no other host can use comes last
    if (at == LIMIT_ADDRESSES)
        return;
    const size_t kept = reach->n_own < LIMIT_ADDRESSES ? reach->n_own : LIMIT_ADDRESSES - 1;
    memmove(&own[at + 1], &own[at], (kept - at) * sizeof *own);
    own[at] = *address;
    reach->n_own = kept + 1;
    BASE_ASSERT(reach->n_own <= LIMIT_ADDRESSES);
}

static bool makes_room_before(const struct voter *a, const struct voter *b)
{
    return a->linked != b->linked ? b->linked : a->heard_ns < b->heard_ns;
}

static struct voter *voter_of(struct gossip_reach *reach, const struct gossip_id *id)
{
    struct voter *goes = &reach->voters[0];
    for (size_t i = 0; i < reach->n_voters; i++) {
        struct voter *voter = &reach->voters[i];
        if (gossip_id_compare(&voter->id, id) == 0)
            return voter;
        if (makes_room_before(voter, goes))
            goes = voter;
    }
    if (reach->n_voters < GOSSIP_REACH_VOTERS)
        goes = &reach->voters[reach->n_voters++];
    *goes = (struct voter){.id = *id};
    return goes;
}

void gossip_reach_linked(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member,
                         const struct gossip_address *seen, bool near)
{
    struct voter *voter = voter_of(reach, member);
    BASE_ASSERT(now_ns > 0);
    if (seen->port != 0 || !gossip_address_same_host(seen, &voter->seen))
        voter->seen = *seen;
    voter->near = near;
    voter->linked = true;
    voter->heard_ns = now_ns;
    if (reach->first_ns == 0)
        reach->first_ns = now_ns;
}

void gossip_reach_unlinked(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member)
{
    BASE_ASSERT(now_ns > 0);
    for (size_t i = 0; i < reach->n_voters; i++) {
        struct voter *voter = &reach->voters[i];
        if (!voter->linked || gossip_id_compare(&voter->id, member) != 0)
            continue;
        voter->linked = false;
        voter->heard_ns = now_ns;
        if (voter->called_ns != 0)
            voter->called_ns = now_ns; // as long as the link lasted, this was true
        if (voter->called_told_ns != 0)
            voter->called_told_ns = now_ns;
    }
}

void gossip_reach_called(struct gossip_reach *reach, uint64_t now_ns, const struct gossip_id *member,
                         bool told, bool near)
{
    struct voter *voter = voter_of(reach, member);
    BASE_ASSERT(now_ns > 0);
    *(told ? &voter->called_told_ns : &voter->called_ns) = now_ns;
    voter->near = near;
    voter->heard_ns = now_ns;
}

// -- what follows

static bool is_fresh(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns != 0 && (at_ns > now_ns || now_ns - at_ns < GOSSIP_REACH_FRESH_NS);
}

static bool counts(const struct voter *voter, uint64_t now_ns)
{
    return voter->linked || is_fresh(voter->heard_ns, now_ns);
}

static bool called(const struct voter *voter, uint64_t called_ns, uint64_t now_ns)
{
    return called_ns != 0 && (voter->linked || is_fresh(called_ns, now_ns));
}

// It sees the node at an address that is not the node's own: there is a router between them.
static bool is_outside(const struct gossip_reach *reach, const struct voter *voter, uint64_t now_ns)
{
    return counts(voter, now_ns) && voter->seen.family != 0 && reach->n_interfaces > 0 &&
           !gossip_address_is_near(&voter->seen) &&
           !has_host(reach->interfaces, reach->n_interfaces, &voter->seen);
}

static bool any_outside(const struct gossip_reach *reach, uint64_t now_ns)
{
    for (size_t i = 0; i < reach->n_voters; i++)
        if (is_outside(reach, &reach->voters[i], now_ns))
            return true;
    return false;
}

static bool any_beyond(const struct gossip_reach *reach, uint64_t now_ns)
{
    for (size_t i = 0; i < reach->n_voters; i++)
        if (counts(&reach->voters[i], now_ns) && !reach->voters[i].near)
            return true;
    return false;
}

enum gossip_reach_state gossip_reach_state(const struct gossip_reach *reach, uint64_t now_ns)
{
    const bool beyond = any_beyond(reach, now_ns);
    for (size_t i = 0; i < reach->n_voters; i++) {
        const struct voter *voter = &reach->voters[i];
        if (beyond && voter->near)
            continue;
        if (called(voter, voter->called_ns, now_ns) ||
            (!beyond && called(voter, voter->called_told_ns, now_ns)))
            return GOSSIP_REACH_REACHABLE;
    }
    const bool waited = reach->first_ns != 0 && now_ns >= reach->first_ns + GOSSIP_REACH_WAIT_NS;
    return any_outside(reach, now_ns) || waited ? GOSSIP_REACH_PRIVATE : GOSSIP_REACH_UNKNOWN;
}

// Of those outside that know a port; only of links in use if there are such. For one address, or for any
// (NULL).
static size_t votes(const struct gossip_reach *reach, uint64_t now_ns, bool linked,
                    const struct gossip_address *seen)
{
    size_t count = 0;
    for (size_t i = 0; i < reach->n_voters; i++) {
        const struct voter *voter = &reach->voters[i];
        count += is_outside(reach, voter, now_ns) && voter->seen.port != 0 && (voter->linked || !linked) &&
                 (!seen || gossip_address_same(&voter->seen, seen));
    }
    return count;
}

// Two members agree, or the only one that can say. Those of links in use know the present address.
bool gossip_reach_outside(const struct gossip_reach *reach, uint64_t now_ns, struct gossip_address *outside)
{
    const bool linked = votes(reach, now_ns, true, NULL) > 0;
    size_t most = 0;
    for (size_t i = 0; i < reach->n_voters; i++) {
        const size_t count = votes(reach, now_ns, linked, &reach->voters[i].seen);
        if (count <= most)
            continue;
        most = count;
        *outside = reach->voters[i].seen;
    }
    return most >= 2 || (most == 1 && votes(reach, now_ns, linked, NULL) == 1);
}

// Of those outside that see it by the same kind of address: at this host, or anywhere (NULL).
static size_t sights(const struct gossip_reach *reach, uint64_t now_ns, bool linked,
                     const struct gossip_address *host)
{
    size_t count = 0;
    for (size_t i = 0; i < reach->n_voters; i++) {
        const struct voter *voter = &reach->voters[i];
        count += is_outside(reach, voter, now_ns) && voter->seen.family == reach->mapped.family &&
                 (voter->linked || !linked) && (!host || gossip_address_same_host(&voter->seen, host));
    }
    return count;
}

bool gossip_reach_mapped(const struct gossip_reach *reach, uint64_t now_ns)
{
    const bool linked = sights(reach, now_ns, true, NULL) > 0;
    if (reach->mapped.family == 0 || reach->n_given > 0)
        return false;
    return sights(reach, now_ns, linked, NULL) > 0 ? sights(reach, now_ns, linked, &reach->mapped) > 0
                                                   : gossip_address_is_public(&reach->mapped);
}

size_t gossip_reach_addresses(const struct gossip_reach *reach, uint64_t now_ns,
                              struct gossip_address out[LIMIT_ADDRESSES])
{
    struct gossip_address found[2];
    size_t n_found = 0;
    const bool given = reach->n_given > 0;
    if (gossip_reach_mapped(reach, now_ns))
        found[n_found++] = reach->mapped;
    if (!given && gossip_reach_outside(reach, now_ns, &found[n_found]) &&
        !(n_found > 0 && gossip_address_same(&found[0], &found[1])))
        n_found++;
    size_t count = given ? reach->n_given : reach->n_own;
    if (count > LIMIT_ADDRESSES - n_found)
        count = LIMIT_ADDRESSES - n_found;
    memcpy(out, given ? reach->given : reach->own, count * sizeof *out);
    memcpy(&out[count], found, n_found * sizeof *found);
    return count + n_found;
}

// Outside, no two of the members that it is linked with see it at one port.
static bool is_hard(const struct gossip_reach *reach, uint64_t now_ns)
{
    struct gossip_address outside;
    return gossip_reach_state(reach, now_ns) == GOSSIP_REACH_PRIVATE &&
           votes(reach, now_ns, true, NULL) >= 2 && !gossip_reach_outside(reach, now_ns, &outside);
}

static enum gossip_access access_now(const struct gossip_reach *reach, uint64_t now_ns)
{
    if (gossip_reach_state(reach, now_ns) == GOSSIP_REACH_REACHABLE)
        return GOSSIP_ACCESS_OPEN;
    return is_hard(reach, now_ns) ? GOSSIP_ACCESS_HARD : GOSSIP_ACCESS_USUAL;
}

enum gossip_access gossip_reach_access(struct gossip_reach *reach, uint64_t now_ns)
{
    const enum gossip_access now = access_now(reach, now_ns);
    const bool early = reach->first_ns != 0 && now_ns < reach->first_ns + GOSSIP_REACH_EARLY_NS;
    if (now == reach->told)
        reach->differs_ns = 0;
    else if (reach->differs_ns == 0)
        reach->differs_ns = now_ns;
    if (now != reach->told && (early || now_ns - reach->differs_ns >= GOSSIP_REACH_LASTS_NS)) {
        reach->told = now;
        reach->differs_ns = 0;
    }
    return reach->told;
}
