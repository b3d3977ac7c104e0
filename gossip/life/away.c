// What follows for members that are dead or have left: their edges are forgotten after a while, and their
// shards have no living node.
#include "gossip/life/life_state.h"
#include <stdlib.h>
#include <string.h>

#define SHARDS_EVERY_NS LIFE_SECOND

static void came(struct gossip_life *life, const struct gossip_id *id)
{
    BASE_ASSERT(life->n_away <= life->away_capacity);
    for (size_t i = 0; i < life->n_away; i++)
        if (gossip_id_compare(&life->away[i].id, id) == 0)
            life->away[i--] = life->away[--life->n_away];
}

// 0 ns: forgotten in this step.
static void went(struct gossip_life *life, const struct gossip_id *id, uint64_t since_ns)
{
    came(life, id);
    BASE_ASSERT(life->n_away <= life->away_capacity);
    if (life->n_away == life->away_capacity) {
        size_t capacity = life->away_capacity ? 2 * life->away_capacity : 16;
        struct life_away *away = realloc(life->away, capacity * sizeof *away);
        if (!away) { // forgotten at once instead of later
            life_act(life, GOSSIP_LIFE_FORGET)->peer = *id;
            return;
        }
        life->away = away;
        life->away_capacity = capacity;
    }
    life->away[life->n_away++] = (struct life_away){.id = *id, .since_ns = since_ns};
}

// A new node that waits has come late if it meets a member that trains: nodes that start together may know
// each other before they know those that have long been training.
static void meets(struct gossip_life *life, const struct gossip_id *peer)
{
    const struct gossip_life_world *world = life->world;

    if (life->state != GOSSIP_LIFE_WAITING || life->options.resumed)
        return;
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (gossip_id_compare(&info.record->id, peer) == 0 && (info.record->flags & GOSSIP_RECORD_TRAINING))
            life_reach(life, LIFE_LATE);
    }
}

void life_member(struct gossip_life *life, const struct gossip_life_event *event)
{
    const bool here = event->state == GOSSIP_MEMBER_ALIVE || event->state == GOSSIP_MEMBER_SUSPECT;

    if (event->kind == GOSSIP_LIFE_REMOVED) {
        came(life, &event->peer);
        life_act(life, GOSSIP_LIFE_FORGET)->peer = event->peer;
    } else if (here) {
        came(life, &event->peer);
        meets(life, &event->peer);
    } else {
        went(life, &event->peer, life->now_ns);
    }
}

bool life_forget_next(struct gossip_life *life, struct gossip_id *peer)
{
    BASE_ASSERT(life->n_away <= life->away_capacity);
    for (size_t i = 0; i < life->n_away; i++) {
        if (life->now_ns - life->away[i].since_ns < life->options.forget_after_ns)
            continue;
        *peer = life->away[i].id;
        life->away[i] = life->away[--life->n_away];
        return true;
    }
    return false;
}

static bool knows(const struct gossip_life *life, const struct gossip_id *peer)
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);

    for (size_t i = 0; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (gossip_id_compare(&info.record->id, peer) == 0)
            return true;
    }
    return false;
}

// A peer that died while this node was away, and that no member remembers, is never reported dead: the
// correction of its edge would stay permanently, without its opposite.
void life_consider_unknown(struct gossip_life *life)
{
    const struct gossip_life_edges *edges = life->world->edges;

    BASE_ASSERT(life->world && life->now_ns >= life->begun_ns);
    life_wake(life, life->unknown_ns);
    if (!edges || life->now_ns < life->unknown_ns)
        return;
    life->unknown_ns = LIFE_NEVER;
    for (size_t i = 0, count = edges->count(edges->owner); i < count; i++) {
        struct gossip_edge_info edge;
        edges->at(edges->owner, i, &edge);
        if (!knows(life, &edge.peer))
            went(life, &edge.peer, 0);
    }
}

// No node trains on its examples: its node is gone, or it is back and does not train yet. A finished node has
// trained on its own.
static bool is_orphaned(const struct gossip_life *life, const struct gossip_member_info *info)
{
    const uint8_t flags = info->record->flags;
    const bool trains = (flags & GOSSIP_RECORD_TRAINING) && !(flags & GOSSIP_RECORD_PAUSED);

    BASE_ASSERT(info->record->shard < life->options.shards);
    if (flags & GOSSIP_RECORD_FINISHED)
        return false;
    if (life->orphan[info->record->shard] && !(life_is_here(info) && trains))
        return true;
    return !life_is_here(info) && life->now_ns - info->since_ns >= life->options.takeover_after_ns;
}

// Shards that no node ever had are left for nodes that may still join.
static void find_orphans(const struct gossip_life *life, uint8_t orphan[LIMIT_PEERS])
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    bool lives[LIMIT_PEERS] = {false};
    BASE_ASSERT(life->options.shards <= LIMIT_PEERS);

    memset(orphan, 0, LIMIT_PEERS);
    for (size_t i = 0; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (info.record->shard >= life->options.shards)
            continue;
        if (i > 0 && is_orphaned(life, &info))
            orphan[info.record->shard] = 1;
        else
            lives[info.record->shard] = true;
    }
    for (size_t i = 0; i < life->options.shards; i++)
        orphan[i] = orphan[i] && !lives[i];
}

static void tell_shards(struct gossip_life *life)
{
    size_t n_orphans = 0, n_living = 0;

    for (uint32_t i = 0; i < life->options.shards; i++)
        if (life->orphan[i])
            life->orphans[n_orphans++] = i;
        else
            life->living[n_living++] = i;
    BASE_ASSERT(n_orphans + n_living == life->options.shards);
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_TELL);
    action->notice = GOSSIP_LIFE_ORPHANS;
    action->numbers = life->orphans;
    action->count = n_orphans;
    action = life_act(life, GOSSIP_LIFE_SHARDS);
    action->numbers = life->living;
    action->count = n_living;
}

void life_consider_shards(struct gossip_life *life)
{
    uint8_t orphan[LIMIT_PEERS];

    if (life->options.takeover_after_ns == LIFE_NEVER || life->options.shards < 2)
        return;
    BASE_ASSERT(life->options.shards <= LIMIT_PEERS);
    life_wake(life, life->shards_ns + SHARDS_EVERY_NS);
    if (life->shards_ns > 0 && life->now_ns - life->shards_ns < SHARDS_EVERY_NS)
        return;
    life->shards_ns = life->now_ns;
    life_wake(life, life->shards_ns + SHARDS_EVERY_NS);
    find_orphans(life, orphan);
    if (memcmp(orphan, life->orphan, sizeof orphan) == 0)
        return;
    memcpy(life->orphan, orphan, sizeof orphan);
    tell_shards(life);
}
