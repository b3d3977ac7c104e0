#include "base/hash.h"
#include "gossip/links/links_private.h"
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 16
_Static_assert(GOSSIP_LINKS_MAX < 1u << SLOT_BITS, "a handle names a slot");

uint64_t links_after(uint64_t later_ns, uint64_t earlier_ns)
{
    return later_ns > earlier_ns ? later_ns - earlier_ns : 0;
}

void links_due(struct gossip_links *links, uint64_t due_ns)
{
    BASE_ASSERT(due_ns > 0);
    if (due_ns < links->due_ns)
        links->due_ns = due_ns;
}

// -- actions

bool links_reserve(struct gossip_links *links, size_t actions)
{
    BASE_ASSERT(links->n_actions <= links->actions_capacity);
    size_t capacity = links->actions_capacity;
    while (capacity < links->n_actions + actions)
        capacity = capacity ? 2 * capacity : 16;
    if (capacity == links->actions_capacity)
        return true;
    struct queued *ring = calloc(capacity, sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < links->n_actions; i++)
        ring[i] = links->action[(links->first_action + i) % links->actions_capacity];
    free(links->action);
    links->action = ring;
    links->first_action = 0;
    links->actions_capacity = capacity;
    return true;
}

struct gossip_links_action *links_act(struct gossip_links *links, enum gossip_links_action_kind kind)
{
    BASE_ASSERT(links->n_actions < links->actions_capacity);
    size_t at = (links->first_action + links->n_actions++) % links->actions_capacity;
    links->action[at] = (struct queued){.action = {.kind = kind}};
    return &links->action[at].action;
}

void links_act_packet(struct gossip_links *links, struct packet *packet)
{
    BASE_ASSERT(links->n_actions > 0 && packet->peer);
    struct queued *latest =
        &links->action[(links->first_action + links->n_actions - 1) % links->actions_capacity];
    latest->packet = packet;
    latest->action.bytes = packet->bytes;
    latest->action.count = packet->count;
}

// -- links

struct link *links_find(const struct gossip_links *links, uint64_t handle)
{
    size_t slot = handle & ((1u << SLOT_BITS) - 1);
    struct link *link = slot < links->slots ? links->slot[slot] : NULL;
    return link && link->handle == handle ? link : NULL;
}

static bool free_slot(struct gossip_links *links, size_t *slot)
{
    BASE_ASSERT(links->slots <= GOSSIP_LINKS_MAX);
    for (*slot = 0; *slot < links->slots; ++*slot)
        if (!links->slot[*slot])
            return true;
    size_t more = links->slots ? 2 * links->slots : 8;
    if (more > GOSSIP_LINKS_MAX)
        more = GOSSIP_LINKS_MAX;
    struct link **slots = more > links->slots ? realloc(links->slot, more * sizeof *slots) : NULL;
    if (!slots)
        return false;
    memset(slots + links->slots, 0, (more - links->slots) * sizeof *slots);
    links->slot = slots;
    links->slots = more;
    return true;
}

struct link *links_add(struct gossip_links *links)
{
    size_t slot;
    struct link *link = free_slot(links, &slot) ? calloc(1, sizeof *link) : NULL;
    if (!link)
        return NULL;
    link->handle = ++links->handles << SLOT_BITS | slot;
    link->state_ns = links->now_ns;
    link->target.entry = GOSSIP_NO_ENTRY;
    BASE_ASSERT(slot < links->slots && !links->slot[slot]);
    links->slot[slot] = link;
    TAILQ_INSERT_TAIL(&links->links, link, all);
    links->totals.links++;
    return link;
}

size_t links_half_open(const struct gossip_links *links, uint64_t host)
{
    size_t count = 0;
    for (size_t i = 0; i < links->n_half_open; i++)
        count += links->half_open[i] == host;
    return count;
}

void links_release_half_open(struct gossip_links *links, struct link *link)
{
    BASE_ASSERT(links->n_half_open <= LIMIT_HALF_OPEN);
    if (!link->half_open)
        return;
    link->half_open = false;
    if (link->relayed) {
        links->n_relayed--;
        return;
    }
    size_t i = 0;
    while (links->half_open[i] != link->host)
        i++;
    BASE_ASSERT(i < links->n_half_open);
    links->half_open[i] = links->half_open[--links->n_half_open];
}

void links_free(struct gossip_links *links, struct link *link)
{
    BASE_ASSERT(!link->peer && links_find(links, link->handle) == link);
    links_release_half_open(links, link);
    links->slot[link->handle & ((1u << SLOT_BITS) - 1)] = NULL;
    TAILQ_REMOVE(&links->links, link, all);
    links->totals.links--;
    free(link);
}

// -- peers

uint64_t links_hash(const struct gossip_links *links, const struct gossip_id *id)
{
    return base_hash_bytes(links->options.salt, id->bytes, sizeof id->bytes);
}

struct peer *links_peer(const struct gossip_links *links, const struct gossip_id *id)
{
    if (!links->buckets)
        return NULL;
    struct peer *peer = links->bucket[links_hash(links, id) % links->buckets];
    while (peer && gossip_id_compare(&peer->id, id) != 0)
        peer = peer->next;
    return peer;
}

static bool grow(struct gossip_links *links)
{
    BASE_ASSERT(links->n_peers == 0 || links->buckets > 0);
    size_t buckets = links->buckets ? 2 * links->buckets : 8;
    if (links->n_peers < links->buckets)
        return true;
    struct peer **bucket = calloc(buckets, sizeof *bucket), *peer;
    if (!bucket)
        return links->buckets > 0; // slower, not wrong
    TAILQ_FOREACH(peer, &links->peers, all) {
        struct peer **head = &bucket[links_hash(links, &peer->id) % buckets];
        peer->next = *head;
        *head = peer;
    }
    free(links->bucket);
    links->bucket = bucket;
    links->buckets = buckets;
    return true;
}

struct peer *links_peer_made(struct gossip_links *links, const struct gossip_id *id)
{
    struct peer *peer = links_peer(links, id);
    if (peer)
        return peer;
    peer = grow(links) ? calloc(1, sizeof *peer) : NULL;
    if (!peer)
        return NULL;
    BASE_ASSERT(links->buckets > 0);
    struct peer **head = &links->bucket[links_hash(links, id) % links->buckets];
    peer->id = *id;
    peer->call.pause_ns = peer->look.pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    TAILQ_INIT(&peer->links);
    peer->next = *head;
    *head = peer;
    TAILQ_INSERT_TAIL(&links->peers, peer, all);
    links->n_peers++;
    return peer;
}

void links_peer_release(struct gossip_links *links, struct peer *peer)
{
    if (peer->wanted || peer->packets || !TAILQ_EMPTY(&peer->links) || peer->call.state != CALL_IDLE)
        return;
    BASE_ASSERT(!peer->active && links->n_peers > 0);
    struct peer **at = &links->bucket[links_hash(links, &peer->id) % links->buckets];
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    TAILQ_REMOVE(&links->peers, peer, all);
    links->n_peers--;
    free(peer);
}

// -- packets
