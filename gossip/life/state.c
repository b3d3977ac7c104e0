// The transitions between the states of a life, the queue of its actions, and when it looks again.
#include "base/error.h"
#include "gossip/life/life_state.h"

#define STATE(name) (1u << GOSSIP_LIFE_##name)

const char *gossip_life_state_name(enum gossip_life_state state)
{
    static const char *const names[] = {
        [GOSSIP_LIFE_JOINING] = "joining", [GOSSIP_LIFE_FETCHING] = "fetching",
        [GOSSIP_LIFE_WAITING] = "waiting", [GOSSIP_LIFE_TRAINING] = "training",
        [GOSSIP_LIFE_PAUSED] = "paused",   [GOSSIP_LIFE_FINISHED] = "lingering",
        [GOSSIP_LIFE_MERGING] = "merging", [GOSSIP_LIFE_STOPPING] = "stopping",
        [GOSSIP_LIFE_LEAVING] = "leaving", [GOSSIP_LIFE_LEFT] = "left",
        [GOSSIP_LIFE_ENDED] = "ended",
    };

    return names[state];
}

// The arrows of the drawing in life.h: the states that each state may enter.
static const unsigned arrows[] = {
    [GOSSIP_LIFE_JOINING] = STATE(FETCHING) | STATE(WAITING) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_FETCHING] =
        STATE(TRAINING) | STATE(PAUSED) | STATE(FINISHED) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_WAITING] = STATE(FETCHING) | STATE(TRAINING) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_TRAINING] =
        STATE(FETCHING) | STATE(PAUSED) | STATE(FINISHED) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_PAUSED] =
        STATE(FETCHING) | STATE(TRAINING) | STATE(FINISHED) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_FINISHED] = STATE(MERGING) | STATE(LEAVING) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_MERGING] = STATE(LEAVING) | STATE(STOPPING) | STATE(LEFT),
    [GOSSIP_LIFE_STOPPING] = STATE(LEFT),
    [GOSSIP_LIFE_LEAVING] = STATE(LEFT),
    [GOSSIP_LIFE_LEFT] = 0,
    [GOSSIP_LIFE_ENDED] = 0,
};

void life_reach(struct gossip_life *life, enum life_course course)
{
    if (life->course < course)
        life->course = course;
}

void life_enter(struct gossip_life *life, enum gossip_life_state state)
{
    BASE_ASSERT(life->state != GOSSIP_LIFE_ENDED);
    BASE_ASSERT(state == GOSSIP_LIFE_ENDED || (arrows[life->state] & (1u << state)));
    life->state = state;
    life->state_ns = life->now_ns;
    if (state == GOSSIP_LIFE_TRAINING)
        life_reach(life, LIFE_TRAINED);
}

// -- actions

struct gossip_life_action *life_act(struct gossip_life *life, enum gossip_life_action_kind kind)
{
    BASE_ASSERT(life->n_queued < LIFE_ACTIONS);
    struct gossip_life_action *action = &life->queue[life->n_queued++];

    *action = (struct gossip_life_action){.kind = kind};
    return action;
}

struct gossip_order gossip_life_order(const struct gossip_life_action *action)
{
    static const enum gossip_order_kind kinds[] = {
        [GOSSIP_LIFE_START] = GOSSIP_ORDER_START, [GOSSIP_LIFE_FETCH_AGAIN] = GOSSIP_ORDER_FETCH,
        [GOSSIP_LIFE_PAUSE] = GOSSIP_ORDER_PAUSE, [GOSSIP_LIFE_STOP_AT] = GOSSIP_ORDER_STOP,
        [GOSSIP_LIFE_ALONE] = GOSSIP_ORDER_ALONE, [GOSSIP_LIFE_UNITE] = GOSSIP_ORDER_MERGE,
        [GOSSIP_LIFE_LEAVE] = GOSSIP_ORDER_LEAVE, [GOSSIP_LIFE_SETTING] = GOSSIP_ORDER_SETTING,
    };

    BASE_ASSERT(action->kind == GOSSIP_LIFE_SETTING ||
                (action->kind >= GOSSIP_LIFE_START && action->kind <= GOSSIP_LIFE_LEAVE &&
                 action->kind != GOSSIP_LIFE_SHARDS));
    return (struct gossip_order){.kind = kinds[action->kind],
                                 .fetch = action->fetch,
                                 .away = action->away,
                                 .on = action->on,
                                 .round = action->round,
                                 .step = action->step,
                                 .setting_kind = action->setting_kind,
                                 .setting = action->setting};
}

void life_flags(struct gossip_life *life, uint8_t set, uint8_t clear)
{
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_FLAGS);

    BASE_ASSERT((set & clear) == 0);
    action->set = set;
    action->clear = clear;
}

void life_tell(struct gossip_life *life, enum gossip_life_notice notice, uint64_t a, uint64_t b)
{
    struct gossip_life_action *action = life_act(life, GOSSIP_LIFE_TELL);

    BASE_ASSERT(notice <= GOSSIP_LIFE_OTHER_WEIGHTS && life->state != GOSSIP_LIFE_ENDED);
    action->notice = notice;
    action->a = a;
    action->b = b;
}

void life_wake(struct gossip_life *life, uint64_t at_ns)
{
    BASE_ASSERT(life->world);
    if (at_ns > life->now_ns && at_ns < life->next_ns)
        life->next_ns = at_ns;
}
