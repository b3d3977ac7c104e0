#include "gossip/relay/relay_private.h"
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 16
_Static_assert(GOSSIP_RELAY_ENDS <= 1u << SLOT_BITS, "a handle names a slot");

// -- links

bool relay_linked(const struct gossip_relay *relay, const struct gossip_id *peer)
{
    bool there;
    gossip_id_place(peer, relay->peers, relay->n_peers, sizeof *peer, &there);
    return there;
}

bool relay_link(struct gossip_relay *relay, const struct gossip_id *peer)
{
    bool there;
    size_t at = gossip_id_place(peer, relay->peers, relay->n_peers, sizeof *peer, &there);
    BASE_ASSERT(!there);
    struct gossip_id *peers = base_array_grow(relay->peers, relay->n_peers, sizeof *peers);
    if (!peers)
        return false;
    memmove(&peers[at + 1], &peers[at], (relay->n_peers - at) * sizeof *peers);
    peers[at] = *peer;
    relay->peers = peers;
    relay->n_peers++;
    return true;
}

void relay_unlink(struct gossip_relay *relay, const struct gossip_id *peer)
{
    bool there;
    size_t at = gossip_id_place(peer, relay->peers, relay->n_peers, sizeof *peer, &there);
    if (!there)
        return;
    BASE_ASSERT(relay->n_peers > at);
    relay->n_peers--;
    memmove(&relay->peers[at], &relay->peers[at + 1], (relay->n_peers - at) * sizeof *relay->peers);
}

// -- numbers

// Members choose the numbers of what they open: a bucket has at most their few streams beside ours.
static struct relay_side **bucket(struct gossip_relay *relay, uint32_t number)
{
    return &relay->bucket[number / 2 % RELAY_BUCKETS];
}

struct relay_side *relay_find(const struct gossip_relay *relay, const struct gossip_id *peer, uint32_t number)
{
    struct relay_side *side = relay->bucket[number / 2 % RELAY_BUCKETS];
    while (side && (side->number != number || gossip_id_compare(&side->id, peer) != 0))
        side = side->chain;
    return side;
}

bool relay_may_open(const struct gossip_relay *relay, const struct gossip_id *peer, uint32_t number)
{
    return number % 2 == (gossip_id_compare(peer, &relay->options.self) > 0);
}

// Numbers are not used again until all have been, so that nothing late is taken for another stream.
static uint32_t new_number(struct gossip_relay *relay, const struct gossip_id *peer)
{
    uint32_t odd = gossip_id_compare(&relay->options.self, peer) > 0, number;
    do
        number = 2 * ++relay->numbers + odd;
    while (relay_find(relay, peer, number));
    return number;
}

// -- ends

struct relay_side *relay_find_end(const struct gossip_relay *relay, uint64_t handle)
{
    size_t slot = handle & ((1u << SLOT_BITS) - 1);
    struct relay_side *side = slot < GOSSIP_RELAY_ENDS ? relay->end[slot] : NULL;
    return side && side->handle == handle ? side : NULL;
}

static size_t free_slot(const struct gossip_relay *relay)
{
    size_t slot = 0;
    while (slot < GOSSIP_RELAY_ENDS && relay->end[slot])
        slot++;
    return slot;
}

bool relay_may_end(const struct gossip_relay *relay)
{
    return free_slot(relay) < GOSSIP_RELAY_ENDS;
}

// -- streams

struct relay_stream *relay_add(struct gossip_relay *relay)
{
    struct relay_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    for (size_t i = 0; i < 2; i++) {
        stream->side[i].stream = stream;
        stream->side[i].state = RELAY_GONE;
    }
    TAILQ_INSERT_TAIL(&relay->streams, stream, all);
    return stream;
}

void relay_add_link(struct gossip_relay *relay, struct relay_side *side, const struct gossip_id *peer,
                    const uint32_t *number)
{
    BASE_ASSERT(side->state == RELAY_GONE);
    side->kind = RELAY_LINK;
    side->state = RELAY_OPEN;
    side->id = *peer;
    side->number = number ? *number : new_number(relay, peer);
    BASE_ASSERT(!relay_find(relay, peer, side->number));
    side->chain = *bucket(relay, side->number);
    *bucket(relay, side->number) = side;
}

void relay_add_local(struct gossip_relay *relay, struct relay_side *side, const struct gossip_id *peer)
{
    size_t slot = free_slot(relay);
    BASE_ASSERT(side->state == RELAY_GONE && slot < GOSSIP_RELAY_ENDS);
    side->kind = RELAY_LOCAL;
    side->state = RELAY_OPEN;
    side->id = *peer;
    side->handle = ++relay->handles << SLOT_BITS | slot;
    side->pace = GOSSIP_RELAY_WINDOW;
    relay->end[slot] = side;
}

void relay_drop(struct gossip_relay *relay, struct relay_side *side)
{
    if (side->in & RELAY_WAITING)
        TAILQ_REMOVE(&relay->waiting, side, turn);
    side->in &= ~RELAY_WAITING;
    base_buffer_free(&side->waiting);
}

void relay_ready(struct gossip_relay *relay, struct relay_side *side)
{
    BASE_ASSERT(side->state != RELAY_GONE);
    if (!(side->in & RELAY_READY))
        TAILQ_INSERT_TAIL(&relay->ready, side, ready);
    side->in |= RELAY_READY;
}

static void take_out(struct gossip_relay *relay, struct relay_side *side)
{
    struct relay_side **at = bucket(relay, side->number);
    if (side->kind == RELAY_LOCAL) {
        BASE_ASSERT(relay_find_end(relay, side->handle) == side);
        relay->end[side->handle & ((1u << SLOT_BITS) - 1)] = NULL;
        return;
    }
    while (*at != side)
        at = &(*at)->chain;
    *at = side->chain;
}

void relay_told(struct gossip_relay *relay, struct relay_side *side)
{
    if (side->in & RELAY_OWED)
        TAILQ_REMOVE(&relay->owed, side, owed);
    side->in &= ~RELAY_OWED;
}

void relay_forget(struct gossip_relay *relay, struct relay_side *side)
{
    struct relay_stream *stream = side->stream;
    BASE_ASSERT(side->state != RELAY_GONE);
    take_out(relay, side);
    relay_drop(relay, side);
    relay_told(relay, side);
    if (side->in & RELAY_READY)
        TAILQ_REMOVE(&relay->ready, side, ready);
    side->in = 0;
    side->state = RELAY_GONE;
    if (relay_other(side)->state == RELAY_GONE) {
        TAILQ_REMOVE(&relay->streams, stream, all);
        free(stream);
    }
}
