// What makes a node pause that has begun: missing edges, being held out of the graph or cut off, a partition;
// and what follows when it was away.
#include "gossip/life/life_state.h"
#include <stdlib.h>

#define WORD_NS     (10 * LIFE_SECOND) // how long others may take to report the cluster's round
#define LOST_ALL_NS (60 * LIFE_SECOND) // how long a node waits for others that it lost all at once

static bool has_begun(const struct gossip_life *life)
{
    return life->state == GOSSIP_LIFE_TRAINING || life->state == GOSSIP_LIFE_PAUSED;
}

// A node that is truly alone does not wait.
static unsigned held_up(const struct gossip_life *life)
{
    unsigned bits = 0;

    if (life->census.others == 0)
        return 0;
    if (life->self.held_until_ns > life->now_ns)
        bits |= GOSSIP_LIFE_HELD_OUT;
    if (life->self.cut_off)
        bits |= GOSSIP_LIFE_CUT_OFF;
    return bits;
}

bool life_is_held_up(const struct gossip_life *life)
{
    return held_up(life) != 0;
}

// It joined late, and steps without its edges would pull the others to its own data.
static bool waits_for_edges(struct gossip_life *life)
{
    if (life->state == GOSSIP_LIFE_FETCHING || life->late_ns == 0)
        return life->state == GOSSIP_LIFE_FETCHING;
    const bool live = life->self.in_view && (life->options.local || life->self.edges_live);
    life_wake(life, life->late_ns + LIFE_EDGES_NS);
    if (life->census.others == 0 || live || life->now_ns - life->late_ns >= LIFE_EDGES_NS)
        life->late_ns = 0;
    return life->late_ns > 0;
}

// A node that is not reached considers all others dead in the end. It is still cut off, until one of them is
// heard again, or until it has waited for so long that it is truly alone.
static bool has_lost_all(struct gossip_life *life)
{
    BASE_ASSERT(life->cut_off_ns <= life->now_ns);
    if (life->census.others > 0) {
        life->cut_off_ns = life->self.cut_off ? life->now_ns : 0;
        return false;
    }
    if (life->cut_off_ns == 0 || life->now_ns - life->cut_off_ns >= LOST_ALL_NS)
        return false;
    life_wake(life, life->cut_off_ns + LOST_ALL_NS);
    return true;
}

static unsigned reasons(struct gossip_life *life)
{
    if (life->end == LIFE_ALONE || life_is_alone(life))
        return 0;
    unsigned bits = held_up(life);
    life_wake(life, life->self.held_until_ns);
    if (has_lost_all(life))
        bits |= GOSSIP_LIFE_CUT_OFF;
    if (waits_for_edges(life))
        bits |= GOSSIP_LIFE_EDGES;
    if (life->minority && life->options.partition == GOSSIP_LIFE_PAUSE_MINORITY)
        bits |= GOSSIP_LIFE_MINORITY;
    return bits;
}

void life_go_on(struct gossip_life *life)
{
    life_enter(life, life->pauses ? GOSSIP_LIFE_PAUSED : GOSSIP_LIFE_TRAINING);
}

// -- partitions

// More members may follow during the partition.
static void remember_the_dead(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    struct life_ids *dead = &life->other_side;

    BASE_ASSERT(dead->count <= dead->capacity);
    if (dead->capacity < members) {
        struct gossip_id *id = realloc(dead->id, members * sizeof *id);
        if (!id)
            return; // then any donor is good
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

// The other side is back. Any of its members with a model can be the donor.
static void give_way(struct gossip_life *life)
{
    BASE_ASSERT(life->counts && !life->minority);
    life->givers = LIFE_OTHER_SIDE;
    if (!life_has_donor(life)) {
        life->givers = LIFE_ANY;
        return;
    }
    life->away_ns = 0;
    life_uncount(life);
    life_tell(life, GOSSIP_LIFE_HEALED, 0, 0);
    life_act(life, GOSSIP_LIFE_FETCH_AGAIN);
}

// While this node itself does not count, the comparison is meaningless.
static void consider_partition(struct gossip_life *life)
{
    const bool minority = life->self.minority;

    if (minority && life->options.partition == GOSSIP_LIFE_MAJORITY)
        remember_the_dead(life);
    if (!has_begun(life) || !life->counts || minority == life->minority)
        return;
    life->minority = minority;
    if (minority)
        life_tell(life, GOSSIP_LIFE_PARTITION, 0, 0);
    else if (life->options.partition == GOSSIP_LIFE_MAJORITY)
        give_way(life);
}

// -- away

void life_was_away(struct gossip_life *life)
{
    life->away_ns = life->now_ns;
}

static void fetch_again(struct gossip_life *life, const struct life_progress *cluster)
{
    BASE_ASSERT(life_is_far(life, cluster));
    life_tell(life, GOSSIP_LIFE_FAR_BEHIND, life->round, cluster->round);
    life->least_round = cluster->round > life->options.reach ? cluster->round - life->options.reach : 0;
    life_tell_progress(life, &(struct life_progress){life->round, life->step}, false, true);
    life_uncount(life);
    life_act(life, GOSSIP_LIFE_FETCH_AGAIN);
}

// The learner reports the cluster's round only after its next one; until then it counts as this node's round.
static void take_round(struct gossip_life *life, const struct life_progress *cluster)
{
    BASE_ASSERT(cluster->round > life->round);
    life_tell_progress(life, cluster, false, true);
    life->round = cluster->round;
    life->step = cluster->step > life->step ? cluster->step : life->step;
}

// No exchange pulls to neighbours that have done their last step.
static bool is_pulled(const struct gossip_life *life, const struct life_progress *cluster)
{
    return life->pull == LIFE_PULL_FETCHED ||
           (life->pull == LIFE_PULL_EDGES && !life_are_done(life, cluster));
}

// Its process stood still, or it was held up or without live edges: it takes the cluster's round, with a
// model of the others if its own is too old. One that has fetched, or whose edges are live again, and that
// took no step since needs no other model: its edges pull it to its neighbours, and a fetch would throw them
// away. A node that is merely slow was not away.
static void consider_away(struct gossip_life *life)
{
    struct life_progress cluster;

    if (life->away_ns == 0 || !has_begun(life) || life->end == LIFE_ALONE)
        return;
    BASE_ASSERT(life->away_ns <= life->now_ns);
    life_wake(life, life->now_ns + LIFE_SECOND / 4);
    if (life->census.training > 0 && life->counts && life_cluster_ahead(life, life->away_ns, &cluster)) {
        life->away_ns = 0;
        if (cluster.round <= life->round || life_is_near(life_gap(life, &cluster)))
            return;
        if (life_is_far(life, &cluster) && !is_pulled(life, &cluster))
            fetch_again(life, &cluster);
        else
            take_round(life, &cluster);
    } else if (life->now_ns - life->away_ns >= WORD_NS) {
        life->away_ns = 0;
    }
}

static bool waits_for_word(const struct gossip_life *life)
{
    return life->away_ns > 0 && has_begun(life) && life->end != LIFE_ALONE && life->census.others > 0 &&
           life->census.claim > 0;
}

// The round from which it continues is decided before it continues.
static void follow(struct gossip_life *life, unsigned bits)
{
    const unsigned before = life->pauses;

    BASE_ASSERT(life->state != GOSSIP_LIFE_PAUSED || life->pauses != 0);
    if (before & ~bits & ~(unsigned)(GOSSIP_LIFE_EDGES | GOSSIP_LIFE_NO_WORD))
        life_was_away(life);
    consider_away(life);
    if (waits_for_word(life))
        bits |= GOSSIP_LIFE_NO_WORD;
    life->pauses = bits;
    if ((before == 0) != (bits == 0)) {
        life_act(life, GOSSIP_LIFE_PAUSE)->on = bits != 0;
        life_flags(life, bits ? GOSSIP_RECORD_PAUSED : 0, bits ? 0 : GOSSIP_RECORD_PAUSED);
        life_tell(life, bits ? GOSSIP_LIFE_PAUSES : GOSSIP_LIFE_GOES_ON, bits ? bits : before, 0);
    }
    life->pull = bits != 0 ? life->pull : LIFE_PULL_NONE;
    if (life->state == GOSSIP_LIFE_TRAINING && bits)
        life_enter(life, GOSSIP_LIFE_PAUSED);
    else if (life->state == GOSSIP_LIFE_PAUSED && !bits)
        life_enter(life, GOSSIP_LIFE_TRAINING);
}

void life_consider_pause(struct gossip_life *life)
{
    consider_partition(life);
    if (has_begun(life) || life->state == GOSSIP_LIFE_FETCHING)
        follow(life, reasons(life));
}
