// Which shard of the data a late node takes, and which node gives way if several took the same.
#include "gossip/life/life_state.h"

// The number of living nodes of each shard; this node is counted only with `own`.
static void count_nodes(const struct gossip_life_world *world, bool own, uint32_t shards,
                        uint16_t nodes[LIMIT_PEERS])
{
    BASE_ASSERT(shards <= LIMIT_PEERS);
    for (size_t i = own ? 0 : 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (life_is_here(&info) && info.record->shard < shards)
            nodes[info.record->shard]++;
    }
}

static uint32_t fewest(const uint16_t *nodes, uint32_t shards)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < shards; i++)
        if (nodes[i] < nodes[best])
            best = i;
    return best;
}

uint32_t gossip_life_free_shard(const struct gossip_life_world *world, uint32_t shards)
{
    uint16_t nodes[LIMIT_PEERS] = {0};

    count_nodes(world, true, shards, nodes);
    return fewest(nodes, shards);
}

// A node that trains keeps its shard. If both train, or neither does, the lower id keeps it.
static bool goes_first(const struct gossip_record *it, const struct gossip_record *own)
{
    const bool trains = it->flags & GOSSIP_RECORD_TRAINING, here = own->flags & GOSSIP_RECORD_TRAINING;

    return trains != here ? trains : gossip_id_compare(&it->id, &own->id) < 0;
}

// The first node that gives way takes the first free shard, the second one the next, and so on.
static size_t find_place(const struct gossip_life *life, const struct gossip_record *own,
                         struct gossip_id *first)
{
    const struct gossip_life_world *world = life->world;
    size_t before = 0;

    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (!life_is_here(&info) || info.record->shard != own->shard || !goes_first(info.record, own))
            continue;
        if (before++ == 0)
            *first = info.record->id;
    }
    return before;
}

// Only before its first step: later its checkpoint and its position in the data belong to its shard.
void life_consider_shard(struct gossip_life *life)
{
    const uint32_t shards = life->options.shards;
    uint16_t nodes[LIMIT_PEERS] = {0};
    struct gossip_member_info own;
    struct gossip_id first;

    if (!life->options.told_shard || life->course == LIFE_TRAINED || life->state > GOSSIP_LIFE_PAUSED)
        return;
    BASE_ASSERT(shards <= LIMIT_PEERS);
    life->world->member(life->world->owner, 0, &own);
    const size_t before = own.record->shard < shards ? find_place(life, own.record, &first) : 0;
    if (before == 0)
        return;
    count_nodes(life->world, false, shards, nodes);
    uint32_t next = fewest(nodes, shards);
    for (size_t i = 1; i < before; i++) {
        nodes[next]++;
        next = fewest(nodes, shards);
    }
    if (nodes[next] >= nodes[own.record->shard])
        return; // there are more nodes than shards
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_MOVE);
    action->shard = next;
    action->peer = first;
    life_enter(life, GOSSIP_LIFE_ENDED);
}
