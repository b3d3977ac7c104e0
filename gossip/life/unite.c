// At the end: which members this one merges its final model with (gossip/merge), and when it stops waiting.
#include "gossip/life/life_state.h"
#include <string.h>

// In a short training some have never had to answer this node. One that only claims to be there costs the
// time that gossip/merge waits for a link to it.
static bool has_finished(const struct gossip_member_info *info)
{
    return life_is_here(info) && (info->record->flags & GOSSIP_RECORD_FINISHED);
}

static struct gossip_merge_member as_member(const struct gossip_member_info *info)
{
    const struct gossip_version *version = &info->record->version;

    return (struct gossip_merge_member){
        info->record->id, gossip_merge_key(&info->record->id, version->generation, version->instance_id)};
}

// This node and those that have finished, at most one more than can merge; returns how many.
static size_t find_mates(const struct gossip_life *life,
                         struct gossip_merge_member mates[GOSSIP_MERGE_MOST + 1])
{
    const struct gossip_life_world *world = life->world;
    size_t count = 0;

    for (size_t i = 0, n = world->members(world->owner); i < n && count <= GOSSIP_MERGE_MOST; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (i == 0 || has_finished(&info))
            mates[count++] = as_member(&info);
    }
    return count;
}

bool life_unites(struct gossip_life *life)
{
    struct gossip_merge_member mates[GOSSIP_MERGE_MOST + 1];

    BASE_ASSERT(life->state == GOSSIP_LIFE_FINISHED);
    const size_t count = life->options.merges && !life->options.local ? find_mates(life, mates) : 1;
    if (count < 2) {
        if (life->options.merges && !life->options.local && life->met_ns > 0)
            life_tell(life, GOSSIP_LIFE_UNMERGED, 0, 0);
        return false;
    }
    if (life->options.linger_ns == 0) {
        life_tell(life, GOSSIP_LIFE_CANNOT_WAIT, count, 0);
        return false;
    }
    life_tell(life, GOSSIP_LIFE_MERGES, count, 0);
    life_enter(life, GOSSIP_LIFE_MERGING);
    life_act(life, GOSSIP_LIFE_UNITE);
    return true;
}

// Every pair of them needs a link: each pulls a part of the model from each.
void life_consider_merge(struct gossip_life *life)
{
    struct gossip_merge_member mates[GOSSIP_MERGE_MOST + 1];

    if (life->state != GOSSIP_LIFE_MERGING)
        return;
    const size_t count = find_mates(life, mates);
    if (count == life->n_merging && memcmp(mates, life->merging, count * sizeof *mates) == 0)
        return;
    memcpy(life->merging, mates, count * sizeof *mates);
    life->n_merging = count;
    const size_t links = count > GOSSIP_MERGE_MOST ? 0 : count - 1; // too many: it gives up
    for (size_t i = 0; i < links; i++)
        life->mates[i] = mates[i + 1].id;
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_LINKS);
    action->ids = life->mates;
    action->count = links;
    action = life_act(life, GOSSIP_LIFE_AMONG);
    action->merging = life->merging;
    action->count = count;
}

void life_merged(struct gossip_life *life)
{
    if (life->state != GOSSIP_LIFE_MERGING)
        return;
    BASE_ASSERT(life->end < LIFE_STOPS);
    life_act(life, GOSSIP_LIFE_LINKS);
    life_act(life, GOSSIP_LIFE_LEAVE);
    life_enter(life, GOSSIP_LIFE_LEAVING);
}
