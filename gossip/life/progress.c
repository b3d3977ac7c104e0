// The progress of the cluster: round and step belong to it, and a node that was away takes them. More than
// half of the members that train must have reported their own; with three or more, one member that lies does
// not move the median.
#include "base/array.h"
#include "gossip/life/life_state.h"
#include <stdlib.h>

#define ABSURD (1ull << 48) // rounds and steps that no node ever does

// A round has at least one step, and no node is further than the last step.
static bool is_plausible(const struct gossip_life *life, const struct gossip_member_info *info)
{
    const uint64_t most = life->options.steps > 0 ? life->options.steps : ABSURD;

    return info->round <= most && info->step <= most;
}

static bool tells(const struct gossip_life *life, const struct gossip_member_info *info, uint8_t flags,
                  uint64_t since_ns)
{
    return life_is_here(info) && info->progress_ns > 0 && info->progress_ns >= since_ns &&
           (info->record->flags & flags) == flags && is_plausible(life, info);
}

static size_t collect(struct gossip_life *life, uint8_t flags, uint64_t since_ns)
{
    const struct gossip_life_world *world = life->world;
    const size_t members = world->members(world->owner);
    size_t count = 0;

    BASE_ASSERT(life->told || life->told_capacity == 0);
    if (life->told_capacity < members) {
        uint64_t *told = realloc(life->told, 2 * members * sizeof *told);
        if (!told)
            return 0; // as if no member had reported
        life->told = told;
        life->told_capacity = members;
    }
    for (size_t i = 1; i < members; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (!tells(life, &info, flags, since_ns))
            continue;
        life->told[count] = info.round;
        life->told[life->told_capacity + count++] = info.step;
    }
    qsort(life->told, count, sizeof *life->told, base_order_u64);
    qsort(life->told + life->told_capacity, count, sizeof *life->told, base_order_u64);
    return count;
}

// Of those from `first` on: of two the lower one, so that no node is drawn far ahead by one report.
static struct life_progress middle(const struct gossip_life *life, size_t first, size_t count)
{
    BASE_ASSERT(first < count && count <= life->told_capacity);
    const size_t at = first + (count - first - 1) / 2;

    return (struct life_progress){life->told[at], life->told[life->told_capacity + at]};
}

bool life_cluster(struct gossip_life *life, struct life_progress *progress)
{
    const size_t count = collect(life, GOSSIP_RECORD_TRAINING, 0);

    if (count == 0 || 2 * count <= life->census.claim)
        return false;
    *progress = middle(life, 0, count);
    return true;
}

// Members that are no further than this node may have been away, too.
bool life_cluster_ahead(struct gossip_life *life, uint64_t since_ns, struct life_progress *progress)
{
    const size_t count = collect(life, GOSSIP_RECORD_TRAINING, since_ns);
    size_t behind = 0;

    if (count == 0 || 2 * count <= life->census.claim)
        return false;
    while (behind < count && life->told[behind] <= life->round + GOSSIP_ROUNDS_NEAR)
        behind++;
    *progress = middle(life, count - behind > 1 ? behind : 0, count);
    return true;
}

bool life_newest(struct gossip_life *life, struct life_progress *progress)
{
    const size_t count = collect(life, 0, 0);

    if (count == 0)
        return false;
    *progress = (struct life_progress){life->told[count - 1], life->told[life->told_capacity + count - 1]};
    return true;
}

// No member is further than this beyond what two members report: a round that only one member reports is not
// the cluster's. Of one or two reports the higher one is believed: the other member may have been away.
#define AHEAD_TIMES  4u   // a host may be this many times faster than all others
#define AHEAD_ROUNDS 256u // may be done while a report is on its way

static uint64_t times(uint64_t a, uint64_t b)
{
    return b > 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

struct life_progress life_furthest(struct gossip_life *life)
{
    const uint64_t steps = life->options.steps, reach = life->options.reach;
    const size_t count = collect(life, GOSSIP_RECORD_TRAINING, 0);
    const bool known = 2 * count > life->census.claim;
    BASE_ASSERT(count <= life->told_capacity);
    const uint64_t own = known ? life->told[count - 1 - (count > 2)] : 0;
    const uint64_t most = own < ABSURD && reach < ABSURD ? AHEAD_TIMES * (own + reach) + AHEAD_ROUNDS : 0;
    const uint64_t round = known && (most < steps || !steps) ? most : steps;
    const uint64_t step = times(round, life->options.local_steps);

    return (struct life_progress){round, step < steps || !steps ? step : steps};
}

uint64_t life_gap(const struct gossip_life *life, const struct life_progress *progress)
{
    return progress->round > life->round ? progress->round - life->round : life->round - progress->round;
}

bool life_is_near(uint64_t gap)
{
    return gap <= GOSSIP_ROUNDS_NEAR;
}

bool life_are_done(const struct gossip_life *life, const struct life_progress *others)
{
    const uint64_t steps = life->options.steps;

    return steps > 0 && others->step >= steps && life->step < steps;
}

bool life_is_far(const struct gossip_life *life, const struct life_progress *others)
{
    const uint64_t gap = life_gap(life, others);

    return (life_are_done(life, others) || gap > life->options.reach) && !life_is_near(gap);
}

struct gossip_life_action *life_tell_progress(struct gossip_life *life, const struct life_progress *progress,
                                              bool fetch, bool away)
{
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_START);

    BASE_ASSERT(!fetch || life->course < LIFE_BEGUN);
    action->round = progress->round;
    action->step = progress->step;
    action->fetch = fetch;
    action->away = away;
    return action;
}
