// Whose model a node takes that comes late, that was left alone, or that gives way after a partition.
#include "gossip/life/life_state.h"
#include <string.h>

#define REMIND_NS (10 * LIFE_SECOND) // between two words that nobody is there

static bool is_among(const struct gossip_id *ids, size_t count, const struct gossip_id *id)
{
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&ids[i], id) == 0)
            return true;
    return false;
}

// Nearer to this node's id, bit by bit: so that joiners do not all ask the same.
static bool is_nearer(const struct gossip_id *self, const struct gossip_id *a, const struct gossip_id *b)
{
    for (size_t i = 0; i < sizeof self->bytes; i++) {
        uint8_t x = self->bytes[i] ^ a->bytes[i], y = self->bytes[i] ^ b->bytes[i];
        if (x != y)
            return x < y;
    }
    return false;
}

// Who is held out of the graph has a model, too, if it has begun.
static bool can_give(const struct gossip_life *life, const struct gossip_member_info *info)
{
    const uint8_t flags = info->record->flags;

    if (!gossip_life_believes(info))
        return false;
    if (life->other_side_only)
        return (flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD)) &&
               is_among(life->other_side.id, life->other_side.count, &info->record->id);
    return flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD | GOSSIP_RECORD_TRAINING);
}

// The nearest who can give; returns how many.
static size_t choose(const struct gossip_life *life, struct gossip_id chosen[GOSSIP_LIFE_DONORS])
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    size_t count = 0;

    for (size_t i = 1; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (!can_give(life, &info))
            continue;
        size_t at = count < GOSSIP_LIFE_DONORS ? count++ : GOSSIP_LIFE_DONORS;
        for (; at > 0 && is_nearer(&life->options.self, &info.record->id, &chosen[at - 1]); at--)
            if (at < GOSSIP_LIFE_DONORS)
                chosen[at] = chosen[at - 1];
        if (at < GOSSIP_LIFE_DONORS)
            chosen[at] = info.record->id;
    }
    return count;
}

bool life_has_donor(struct gossip_life *life)
{
    struct gossip_id chosen[GOSSIP_LIFE_DONORS];

    return choose(life, chosen) > 0;
}

static void tell_ids(struct gossip_life *life, enum gossip_life_action_kind kind, struct gossip_id *told,
                     size_t *n_told, const struct gossip_id *ids, size_t count)
{
    if (count == *n_told && (count == 0 || memcmp(told, ids, count * sizeof *ids) == 0))
        return;
    if (count > 0)
        memcpy(told, ids, count * sizeof *ids);
    *n_told = count;
    struct gossip_life_action *action = life_act(life, kind);
    action->ids = told;
    action->count = count;
}

static void end_links(struct gossip_life *life)
{
    life->n_asked = 0;
    tell_ids(life, GOSSIP_LIFE_LINKS, life->wanted, &life->n_wanted, NULL, 0);
}

void life_wants(struct gossip_life *life)
{
    if (life->stopping || life->state >= GOSSIP_LIFE_FINISHED)
        return; // it ends its fetch by itself
    life->fetching = true;
    life->n_asked = 0;
    life->fetch_ns = life->donor_ns = life->now_ns;
    if (life->state != GOSSIP_LIFE_FETCHING)
        life_enter(life, GOSSIP_LIFE_FETCHING);
}

// Half of a model is none. A checkpoint on disk is whole.
static void give_up(struct gossip_life *life)
{
    life->fetching = false;
    end_links(life);
    life_tell(life, GOSSIP_LIFE_GAVE_UP, 0, 0);
    life_act(life, GOSSIP_LIFE_END_FETCH);
}

void life_fetched(struct gossip_life *life, const struct gossip_life_event *event)
{
    if (life->stopping || life->state != GOSSIP_LIFE_FETCHING)
        return;
    life->fetching = life->other_side_only = false;
    end_links(life);
    if (!event->ok) { // what it had before is whole
        if (life->eligible)
            life_go_on(life);
        return;
    }
    life->round = event->round;
    life->step = event->step;
    life->late_ns = life->now_ns;
    life_count(life);
    life_flags(life, GOSSIP_RECORD_TRAINING, 0);
    life_tell(life, GOSSIP_LIFE_COMPLETE, 0, 0);
    life_go_on(life);
}

void life_consider_donors(struct gossip_life *life)
{
    struct gossip_id chosen[GOSSIP_LIFE_DONORS], linked[GOSSIP_LIFE_DONORS];
    size_t n_linked = 0, count;

    if (!life->fetching)
        return;
    count = choose(life, chosen);
    if (count == 0 && life->other_side_only) { // they are gone again: any will do
        life->other_side_only = false;
        count = choose(life, chosen);
    }
    if (count == 0 && life->eligible) { // else it has no model at all, and waits
        give_up(life);
        return;
    }
    tell_ids(life, GOSSIP_LIFE_LINKS, life->wanted, &life->n_wanted, chosen, count);
    for (size_t i = 0; i < count; i++)
        if (life->world->linked(life->world->owner, &chosen[i]))
            linked[n_linked++] = chosen[i];
    tell_ids(life, GOSSIP_LIFE_ASK, life->asked, &life->n_asked, linked, n_linked);
    if (count > 0)
        life->donor_ns = life->now_ns;
    life_wake(life, life->donor_ns + REMIND_NS);
    if (life->now_ns - life->donor_ns >= REMIND_NS) {
        life->donor_ns = life->now_ns;
        life_tell(life, GOSSIP_LIFE_NO_DONOR, 0, 0);
    }
}
