// Which members are believed when they say that they have finished: those that this process has seen on their
// way, for as long as it may have taken them, and whose models its learner has not refused.
#include "base/array.h"
#include "gossip/life/life_state.h"
#include <stdlib.h>
#include <string.h>

#define FASTER 32u  // times: the steps that a member may do while this node does one
#define SLACK  256u // rounds that a report may be late

bool life_is_unfit(const struct gossip_life *life, const struct gossip_id *id)
{
    for (size_t i = 0; i < base_min(life->n_unfit, LIFE_UNFIT); i++)
        if (gossip_id_compare(&life->unfit[i], id) == 0)
            return true;
    return false;
}

static bool is_on_its_way(const struct gossip_member_info *info)
{
    return gossip_life_believes(info) && (info->record->flags & GOSSIP_RECORD_TRAINING) &&
           !(info->record->flags & GOSSIP_RECORD_FINISHED);
}

// A member for which there is no room is not believed.
static void note_way(struct gossip_life *life, const struct gossip_member_info *info)
{
    const uint64_t steps = life->options.steps;
    bool there;
    const size_t at =
        gossip_id_place(&info->record->id, life->ways, life->n_ways, sizeof *life->ways, &there);

    if (there || life->n_ways == LIMIT_MEMBERS)
        return;
    if (life->n_ways == life->ways_capacity) {
        const size_t capacity = 2 * life->ways_capacity + 16;
        struct life_way *more = realloc(life->ways, capacity * sizeof *more);
        if (!more)
            return;
        life->ways = more;
        life->ways_capacity = capacity;
    }
    memmove(&life->ways[at + 1], &life->ways[at], (life->n_ways++ - at) * sizeof *life->ways);
    life->ways[at] = (struct life_way){
        .id = info->record->id, .left = steps - base_min(info->step, steps), .own_step = life->step};
}

// A node that has not trained yet has nothing that it could compare with.
static bool doubts_end(const struct gossip_life *life, const struct gossip_member_info *info)
{
    bool there;
    const size_t at =
        gossip_id_place(&info->record->id, life->ways, life->n_ways, sizeof *life->ways, &there);

    if (life_is_unfit(life, &info->record->id))
        return true;
    if (life->course < LIFE_TRAINED)
        return false;
    if (!there)
        return true;
    const uint64_t own = life->step - base_min(life->step, life->ways[at].own_step);
    return life->ways[at].left / FASTER > own + SLACK * life->options.local_steps;
}

static bool ends_in_doubt(const struct gossip_life *life, const struct gossip_member_info *info)
{
    struct gossip_life_census alone = {0};

    gossip_life_count(&alone, info, life->options.steps);
    return alone.finished > 0 && doubts_end(life, info);
}

void life_consider_doubts(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;

    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (is_on_its_way(&info))
            note_way(life, &info);
        life->census.finished -= ends_in_doubt(life, &info);
    }
}

// The census of this step has still counted it.
void life_mark_unfit(struct gossip_life *life, const struct gossip_id *id)
{
    const struct gossip_life_world *world = life->world;

    if (life_is_unfit(life, id))
        return;
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (gossip_id_compare(&info.record->id, id) != 0)
            continue;
        const bool before = ends_in_doubt(life, &info);
        life->unfit[life->n_unfit++ % LIFE_UNFIT] = *id;
        life->census.finished -= ends_in_doubt(life, &info) && !before;
        return;
    }
}
