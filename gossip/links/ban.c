// Evidence against other nodes: an authenticated message that breaks the protocol, or numbers that no honest
// training has. It is kept by identity, and, if the identity was new, by host. The pauses grow and are
// forgotten. Nothing is kept until there is evidence.
#include "base/array.h"
#include "base/hash.h"
#include "gossip/links/links_private.h"
#include <stdlib.h>

#define DOUBLINGS 20u // more would not change the longest time

struct ban {
    uint64_t key;      // 0: free
    uint64_t until_ns; // forgotten GOSSIP_LINKS_BAN_FORGET_NS later
    unsigned count;
};

static uint64_t key_of_id(const struct gossip_links *links, const struct gossip_id *id)
{
    return links_hash(links, id) | 1;
}

static uint64_t key_of_host(const struct gossip_links *links, uint64_t host)
{
    return base_hash_mix(host ^ ~links->options.salt) | 1;
}

static bool is_kept(const struct gossip_links *links, const struct ban *ban)
{
    return ban->key != 0 && links_after(links->now_ns, ban->until_ns) < GOSSIP_LINKS_BAN_FORGET_NS;
}

static struct ban *find(const struct gossip_links *links, uint64_t key)
{
    for (size_t i = 0; links->bans && i < GOSSIP_LINKS_BANS; i++)
        if (links->bans[i].key == key && is_kept(links, &links->bans[i]))
            return &links->bans[i];
    return NULL;
}

// If all are in use, the one that ends first goes: a crowd of short ones displaces no long one.
static struct ban *made(struct gossip_links *links, uint64_t key)
{
    struct ban *ban = find(links, key);
    if (ban)
        return ban;
    if (!links->bans)
        links->bans = calloc(GOSSIP_LINKS_BANS, sizeof *links->bans);
    if (!links->bans)
        return NULL;
    ban = &links->bans[0];
    for (size_t i = 1; i < GOSSIP_LINKS_BANS && is_kept(links, ban); i++)
        if (!is_kept(links, &links->bans[i]) || links->bans[i].until_ns < ban->until_ns)
            ban = &links->bans[i];
    *ban = (struct ban){.key = key, .until_ns = links->now_ns};
    return ban;
}

// The first `spared` times are only remembered. True: nothing was known against this key.
static bool note(struct gossip_links *links, uint64_t key, unsigned spared)
{
    struct ban *ban = made(links, key);
    if (!ban)
        return false;
    ban->count++;
    const uint64_t long_ns = GOSSIP_LINKS_BAN_MIN_NS
                             << base_min(ban->count - base_min(ban->count, spared + 1), DOUBLINGS);
    ban->until_ns = links->now_ns;
    if (ban->count > spared)
        ban->until_ns += base_min(long_ns, GOSSIP_LINKS_BAN_MAX_NS);
    return ban->count == 1;
}

// -- who is new

static bool is_in(const uint64_t *ring, size_t written, size_t capacity, uint64_t key)
{
    for (size_t i = 0; ring && i < base_min(written, capacity); i++)
        if (ring[i] == key)
            return true;
    return false;
}

static void put(uint64_t **ring, size_t *written, size_t capacity, uint64_t key)
{
    if (!*ring)
        *ring = calloc(capacity, sizeof **ring);
    if (*ring)
        (*ring)[(*written)++ % capacity] = key;
}

static bool is_proven(const struct gossip_links *links, const struct gossip_id *id)
{
    return is_in(links->proven, links->n_proven, GOSSIP_LINKS_PROVEN, key_of_id(links, id));
}

static bool has_lasted(const struct gossip_links *links, const struct link *link)
{
    return link->state == GOSSIP_LINK_ACTIVE &&
           links_after(links->now_ns, link->state_ns) >= GOSSIP_LINKS_PROVEN_NS;
}

void ban_link_ends(struct gossip_links *links, const struct link *link)
{
    BASE_ASSERT(link->peer);
    if (!has_lasted(links, link) || is_proven(links, &link->peer->id))
        return;
    put(&links->proven, &links->n_proven, GOSSIP_LINKS_PROVEN, key_of_id(links, &link->peer->id));
}

static bool is_new(const struct gossip_links *links, const struct link *link)
{
    const struct link *active = link->peer->active;
    return !(active && has_lasted(links, active)) && !is_proven(links, &link->peer->id);
}

// --

// Others may share the host of a liar, so evidence against one identity only bans that. A host from which
// several new identities have brought evidence is one that makes them: then further new ones wait, too.
void ban_note(struct gossip_links *links, const struct link *link)
{
    BASE_ASSERT(link->peer && !link->self);
    const bool throwaway = is_new(links, link);
    links->totals.bans++;
    if (note(links, key_of_id(links, &link->peer->id), 0) && throwaway && link->host)
        (void)note(links, key_of_host(links, link->host), GOSSIP_LINKS_BAN_SPARED);
}

// 0: it is not banned.
uint64_t ban_ends(const struct gossip_links *links, const struct gossip_id *id)
{
    const struct ban *ban = find(links, key_of_id(links, id));
    return ban && ban->until_ns > links->now_ns ? ban->until_ns : 0;
}

bool ban_holds(const struct gossip_links *links, const struct link *link)
{
    BASE_ASSERT(link->peer);
    if (ban_ends(links, &link->peer->id) > 0)
        return true;
    if (!link->host || (link->caller && link->target.entry != GOSSIP_NO_ENTRY)) // its operator lists it
        return false;
    const struct ban *ban = find(links, key_of_host(links, link->host));
    return ban && ban->until_ns > links->now_ns && is_new(links, link);
}

// -- the rate of new identities

// Each takes its part of a minute, and that much time gives it back.
bool ban_lets_in(struct gossip_links *links, const struct link *link)
{
    const uint64_t key = key_of_id(links, &link->peer->id), rate = links->options.join_rate;
    if (rate == 0 || link->caller || link->peer->active ||
        is_in(links->came, links->n_came, GOSSIP_LINKS_CAME, key) || is_proven(links, &link->peer->id))
        return true;
    const uint64_t part_ns = GOSSIP_LINKS_JOIN_NS / rate,
                   back_ns = base_min(links->spent_ns, links_after(links->now_ns, links->spent_at_ns));
    links->spent_ns -= back_ns;
    links->spent_at_ns = links->now_ns;
    if (links->spent_ns + part_ns > GOSSIP_LINKS_JOIN_NS)
        return false;
    links->spent_ns += part_ns;
    put(&links->came, &links->n_came, GOSSIP_LINKS_CAME, key);
    return true;
}
