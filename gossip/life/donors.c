// Which members a node may ask for a model, and in which order.
#include "gossip/life/life_state.h"

#define PASSED_NS (30 * LIFE_SECOND) // how long a passed-over donor is not asked, if there are others

bool life_is_among(const struct gossip_id *ids, size_t count, const struct gossip_id *id)
{
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&ids[i], id) == 0)
            return true;
    return false;
}

// Orders donors by the distance of their ids from this node's, so that joiners do not all ask the same donor.
static bool is_nearer(const struct gossip_id *self, const struct gossip_id *a, const struct gossip_id *b)
{
    for (size_t i = 0; i < sizeof self->bytes; i++) {
        uint8_t x = self->bytes[i] ^ a->bytes[i], y = self->bytes[i] ^ b->bytes[i];
        if (x != y)
            return x < y;
    }
    return false;
}

// A node that is held out of the graph has a model, too, if it has begun.
static bool can_give(const struct gossip_life *life, const struct gossip_member_info *info)
{
    const uint8_t flags = info->record->flags;

    if (!gossip_life_believes(info) || life_is_unfit(life, &info->record->id) ||
        (life->givers == LIFE_FINISHED && !(flags & GOSSIP_RECORD_FINISHED)))
        return false;
    if (info->progress_ns > 0 && info->round < life->least_round) // it may have been away, too
        return false;
    if (life->givers == LIFE_OTHER_SIDE)
        return (flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD)) &&
               life_is_among(life->other_side.id, life->other_side.count, &info->record->id);
    // A member that only waits has the seed model, or an old one: it is a donor only if no node trains.
    if (life->census.training > 0)
        return flags & (GOSSIP_RECORD_HELD | GOSSIP_RECORD_TRAINING | GOSSIP_RECORD_FINISHED);
    return flags & (GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_HELD | GOSSIP_RECORD_TRAINING);
}

static bool is_passed(const struct gossip_life *life, const struct gossip_id *id)
{
    for (size_t i = 0; i < life->n_passed; i++)
        if (gossip_id_compare(&life->passed[i].id, id) == 0)
            return life->now_ns - life->passed[i].since_ns < PASSED_NS;
    return false;
}

// The nearest possible donors; returns how many.
static size_t choose(const struct gossip_life *life, bool all, struct gossip_id chosen[GOSSIP_LIFE_DONORS])
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    size_t count = 0;

    for (size_t i = 1; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (!can_give(life, &info) || (!all && is_passed(life, &info.record->id)))
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

    return choose(life, true, chosen) > 0;
}

// Members that have done their last step are gone with the model, and do not come back as dead ones may.
bool life_came_too_late(struct gossip_life *life)
{
    return life->census.finished > 0 && life->census.busy == 0 && !life_has_donor(life);
}

// Donors to which no link comes up are replaced by others.
void life_pass_over(struct gossip_life *life, const struct gossip_id *id)
{
    size_t at = 0;

    BASE_ASSERT(life->n_passed <= LIFE_PASSED);
    while (at < life->n_passed && gossip_id_compare(&life->passed[at].id, id) != 0)
        at++;
    if (at == life->n_passed)
        at = life->n_passed < LIFE_PASSED ? life->n_passed++ : 0;
    life->passed[at] = (struct life_away){.id = *id, .since_ns = life->now_ns};
}

// Those whose models were refused have not finished, and one that trains does not end this node's training.
static bool takes_any(const struct gossip_life *life)
{
    return !(life->end == LIFE_ALONE && life->refused) && (life->givers != LIFE_ANY || life->least_round > 0);
}

size_t life_choose_donors(struct gossip_life *life, struct gossip_id chosen[GOSSIP_LIFE_DONORS])
{
    size_t count = choose(life, false, chosen);

    if (count == 0)
        count = choose(life, true, chosen);
    if (count == 0 && takes_any(life)) {
        life->givers = LIFE_ANY; // they are gone again: any will do
        life->least_round = 0;
        count = choose(life, true, chosen);
    }
    BASE_ASSERT(count <= GOSSIP_LIFE_DONORS);
    return count;
}
