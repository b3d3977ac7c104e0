// What holds a node up that has begun: edges that are not there yet, a partition.
#include "gossip/life/life_state.h"
#include <stdlib.h>

#define EDGES_NS (5 * LIFE_SECOND) // how long edges are waited for once it has a model

static bool has_begun(const struct gossip_life *life)
{
    return life->state == GOSSIP_LIFE_TRAINING || life->state == GOSSIP_LIFE_PAUSED;
}

// It came late, and what it would learn before its edges are there pulls the others to its own data.
static bool waits_for_edges(struct gossip_life *life)
{
    if (!life->late)
        return false;
    if (life->state == GOSSIP_LIFE_FETCHING)
        return true;
    const bool live = life->self.in_view && (life->options.local || life->self.edges_live);
    life_wake(life, life->late_ns + EDGES_NS);
    life->late = life->census.others > 0 && !live && life->now_ns - life->late_ns < EDGES_NS;
    return life->late;
}

static unsigned reasons(struct gossip_life *life)
{
    unsigned bits = 0;

    if (life->alone || life_is_alone(life))
        return 0;
    if (waits_for_edges(life))
        bits |= GOSSIP_LIFE_EDGES;
    if (life->minority && life->options.partition == GOSSIP_LIFE_PAUSE_MINORITY)
        bits |= GOSSIP_LIFE_MINORITY;
    return bits;
}

static void follow(struct gossip_life *life, unsigned bits)
{
    const unsigned before = life->pauses;

    life->pauses = bits;
    if ((before == 0) != (bits == 0)) {
        struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_PAUSE);
        action->on = bits != 0;
        life_tell(life, bits ? GOSSIP_LIFE_PAUSES : GOSSIP_LIFE_GOES_ON, bits ? bits : before, 0);
    }
    if (life->state == GOSSIP_LIFE_TRAINING && bits)
        life_enter(life, GOSSIP_LIFE_PAUSED);
    else if (life->state == GOSSIP_LIFE_PAUSED && !bits)
        life_enter(life, GOSSIP_LIFE_TRAINING);
}

void life_go_on(struct gossip_life *life)
{
    life_enter(life, life->pauses ? GOSSIP_LIFE_PAUSED : GOSSIP_LIFE_TRAINING);
}

// -- partitions

// More may follow while it lasts.
static void remember_the_dead(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    struct life_ids *dead = &life->other_side;

    if (dead->capacity < members) {
        struct gossip_id *id = realloc(dead->id, members * sizeof *id);
        if (!id)
            return; // then any donor will do
        dead->id = id;
        dead->capacity = members;
    }
    dead->count = 0;
    for (size_t i = 1; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (info.state == GOSSIP_MEMBER_DEAD)
            dead->id[dead->count++] = info.record->id;
    }
}

// The other side is here again. Who of it has a model gives it to this node.
static void give_way(struct gossip_life *life)
{
    life->other_side_only = true;
    if (!life_has_donor(life)) {
        life->other_side_only = false;
        return;
    }
    life->eligible = false;
    life_flags(life, 0, GOSSIP_RECORD_ELIGIBLE);
    life_tell(life, GOSSIP_LIFE_HEALED, 0, 0);
    life_act(life, GOSSIP_LIFE_FETCH_AGAIN);
}

// While this node itself is not counted the balance says nothing.
static void consider_partition(struct gossip_life *life)
{
    const bool minority = life->self.minority;

    if (minority && life->options.partition == GOSSIP_LIFE_MAJORITY)
        remember_the_dead(life);
    if (!has_begun(life) || !life->eligible || minority == life->minority)
        return;
    life->minority = minority;
    if (minority)
        life_tell(life, GOSSIP_LIFE_PARTITION, 0, 0);
    else if (life->options.partition == GOSSIP_LIFE_MAJORITY)
        give_way(life);
}

void life_consider_pause(struct gossip_life *life)
{
    consider_partition(life);
    if (has_begun(life) || life->state == GOSSIP_LIFE_FETCHING)
        follow(life, reasons(life));
}
