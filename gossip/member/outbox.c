#include "gossip/member/state.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_MAX (16u << 20) // bytes of the packets of one step: several full syncs of LIMIT_MEMBERS

static bool room_for_action(struct gossip_membership *m)
{
    BASE_ASSERT(m->n_actions <= m->actions_capacity);
    if (m->n_actions < m->actions_capacity)
        return true;
    size_t capacity = m->actions_capacity ? 2 * m->actions_capacity : 64;
    struct member_action *actions = realloc(m->actions, capacity * sizeof *actions);
    if (!actions)
        return false;
    m->actions = actions;
    m->actions_capacity = capacity;
    return true;
}

void member_act(struct gossip_membership *m, const struct gossip_membership_action *action)
{
    BASE_ASSERT(room_for_action(m)); // a few dozen bytes
    m->actions[m->n_actions++] = (struct member_action){.action = *action};
}

static bool room_for_bytes(struct gossip_membership *m, size_t count)
{
    BASE_ASSERT(m->arena_used <= m->arena_capacity);
    if (m->arena_used + count <= m->arena_capacity)
        return true;
    size_t capacity = m->arena_capacity ? m->arena_capacity : 4096;
    while (capacity < m->arena_used + count)
        capacity *= 2;
    uint8_t *arena = capacity <= ARENA_MAX ? realloc(m->arena, capacity) : NULL;
    if (!arena)
        return false;
    m->arena = arena;
    m->arena_capacity = capacity;
    return true;
}

static void put(struct gossip_membership *m, const struct gossip_membership_action *send,
                const uint8_t *bytes)
{
    const size_t count = send->n_bytes;
    if (!room_for_action(m) || !room_for_bytes(m, count))
        return;
    BASE_ASSERT(count <= LIMIT_GOSSIP_BYTES);
    memcpy(m->arena + m->arena_used, bytes, count);
    m->actions[m->n_actions++] = (struct member_action){.action = *send, .offset = m->arena_used};
    m->arena_used += count;
}

void member_act_send(struct gossip_membership *m, const struct gossip_id *peer, enum gossip_member_way way,
                     const uint8_t *bytes, size_t count)
{
    const struct gossip_membership_action send = {
        .kind = GOSSIP_MEMBERSHIP_SEND, .peer = *peer, .way = way, .n_bytes = count};
    put(m, &send, bytes);
}

void member_act_send_for(struct gossip_membership *m, const struct gossip_id *peer, uint64_t generation,
                         const uint8_t *bytes, size_t count)
{
    const struct gossip_membership_action send = {.kind = GOSSIP_MEMBERSHIP_SEND,
                                                  .peer = *peer,
                                                  .way = GOSSIP_BY_DATAGRAM,
                                                  .n_bytes = count,
                                                  .generation = generation};
    put(m, &send, bytes);
}

bool gossip_membership_next(struct gossip_membership *m, struct gossip_membership_action *action)
{
    BASE_ASSERT(m->actions_taken <= m->n_actions);
    if (m->actions_taken == m->n_actions)
        return false;
    const struct member_action *next = &m->actions[m->actions_taken++];
    *action = next->action;
    if (action->kind == GOSSIP_MEMBERSHIP_SEND)
        action->bytes = m->arena + next->offset;
    return true;
}
