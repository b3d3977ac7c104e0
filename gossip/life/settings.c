// Settings that are changed while the cluster trains. All nodes are to take a change at the boundary of one
// round. So it is entered for a round that lies far enough ahead, and the later of two changes counts.
#include "base/array.h"
#include "gossip/life/life_state.h"
#include <string.h>

#define SPREAD_NS (5 * LIFE_SECOND) // in which all members hear of a change
#define SOON      (1u << 20)        // rounds: a change that is further off waits, or is a lie

static uint64_t rounds_of_spread(const struct gossip_life *life)
{
    return life->round_ns > 0 ? SPREAD_NS / life->round_ns + 1 : 0;
}

// The highest round that a member may have reached; the reports are up to a second old.
static uint64_t furthest(struct gossip_life *life)
{
    const struct gossip_life_world *world = life->world;
    const uint64_t most = base_max(life->round, life_furthest(life).round);
    uint64_t round = life->round;

    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        if (gossip_life_believes(&info) && info.round <= most)
            round = base_max(round, info.round);
    }
    return round;
}

static void adopt(struct gossip_life *life, enum gossip_setting_kind kind,
                  const struct gossip_setting *setting)
{
    BASE_ASSERT(gossip_setting_compare(setting, &life->settings[kind]) > 0);
    life->settings[kind] = *setting;
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_SETTING);
    action->setting_kind = kind;
    action->setting = *setting;
}

// -- entered here

// Its value until the new round is the one that others have now: no other change may be under way.
static bool is_changing(const struct gossip_life *life, const struct gossip_setting *now)
{
    return now->round > 0 && life->round < now->round + rounds_of_spread(life);
}

static bool ends_before(const struct gossip_life *life, uint64_t round)
{
    const uint64_t steps = life->options.steps;
    const uint64_t left = steps > life->step ? (steps - life->step) / life->options.local_steps : 0;

    return steps > 0 && round - life->round > left;
}

void life_set(struct gossip_life *life, const struct gossip_life_event *event)
{
    const struct gossip_setting *now = &life->settings[event->setting_kind];
    const uint64_t round = base_max(furthest(life) + rounds_of_spread(life), now->round + 1);
    struct gossip_setting setting = {
        .round = round, .value = event->value, .before = gossip_setting_at(now, life->round)};

    BASE_ASSERT(event->value >= life->options.least[event->setting_kind] &&
                event->value <= life->options.most[event->setting_kind]);
    memcpy(&setting.by, life->options.self.bytes, sizeof setting.by);
    if (life->state != GOSSIP_LIFE_TRAINING)
        life->answer = GOSSIP_LIFE_TRAINS_NOT;
    else if (life->round_ns == 0 || life_in_state_ns(life) < SPREAD_NS) // its first rounds take long
        life->answer = GOSSIP_LIFE_HAS_JUST_BEGUN;
    else if (is_changing(life, now))
        life->answer = GOSSIP_LIFE_CHANGES;
    else if (ends_before(life, round))
        life->answer = GOSSIP_LIFE_ENDS_BEFORE;
    else {
        life->answer = GOSSIP_LIFE_IS_SET;
        adopt(life, event->setting_kind, &setting);
    }
}

// -- entered elsewhere

// What a node must not do to others, it cannot do by a setting: the bounds are those of the configuration.
static bool is_believed(struct gossip_life *life, enum gossip_setting_kind kind,
                        const struct gossip_setting *setting)
{
    const double least = life->options.least[kind], most = life->options.most[kind];

    return setting->value >= least && setting->value <= most &&
           (isnan(setting->before) || (setting->before >= least && setting->before <= most)) &&
           setting->round <= base_max(life->round, life_furthest(life).round) + SOON;
}

static void consider(struct gossip_life *life, enum gossip_setting_kind kind)
{
    const struct gossip_life_world *world = life->world;
    struct gossip_setting latest = life->settings[kind];

    if (life->kept == LIFE_KEPT_COUNT && gossip_setting_compare(&life->options.settings[kind], &latest) > 0)
        latest = life->options.settings[kind];
    for (size_t i = 1, n = world->members(world->owner); i < n; i++) {
        struct gossip_member_info info;
        world->member(world->owner, i, &info);
        const struct gossip_setting *told = &info.record->settings[kind];
        if (gossip_setting_compare(told, &latest) > 0 && gossip_life_believes(&info) &&
            is_believed(life, kind, told))
            latest = *told;
    }
    if (gossip_setting_compare(&latest, &life->settings[kind]) > 0)
        adopt(life, kind, &latest);
}

// Where others train, a change that none of them knows of was lost with the process that was killed: its
// round may have passed.
static void decide_kept(struct gossip_life *life)
{
    if (life->kept != LIFE_KEPT_OPEN || life->state == GOSSIP_LIFE_JOINING)
        return;
    const bool alone = life->state == GOSSIP_LIFE_WAITING && life->census.claim == 0;
    life->kept = alone ? LIFE_KEPT_COUNT : LIFE_KEPT_LOST;
}

void life_consider_settings(struct gossip_life *life)
{
    decide_kept(life);
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        consider(life, (enum gossip_setting_kind)kind);
}

const struct gossip_setting *gossip_life_setting(const struct gossip_life *life,
                                                 enum gossip_setting_kind kind)
{
    BASE_ASSERT(kind < GOSSIP_SETTINGS);
    return &life->settings[kind];
}

enum gossip_life_answer gossip_life_answer(const struct gossip_life *life)
{
    return life->answer;
}
