// The node under test, the flags of the others, and helpers for its events, for tests of the rules of
// gossip/life.
#ifndef TEST_SUPPORT_LIFE_RULES_H
#define TEST_SUPPORT_LIFE_RULES_H

#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND LIFE_TEST_SECOND
#define MS     (SECOND / 1000)

enum {
    COUNTS = GOSSIP_RECORD_ELIGIBLE,
    TRAINS = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING,
    FINISHED = TRAINS | GOSSIP_RECORD_FINISHED
};

static struct life_world w;

static inline int clean(void **state)
{
    (void)state;
    life_world_end(&w);
    return 0;
}

static inline enum gossip_life_state state_of(void)
{
    return gossip_life_state(w.life);
}

static inline void others(size_t count, uint8_t flags)
{
    for (size_t i = 0; i < count; i++)
        life_world_flags(&w, life_world_join(&w), flags);
}

static inline void fetched(uint64_t round)
{
    life_world_tell(&w, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_FETCHED, .round = round, .step = 8 * round, .ok = true});
}

static inline void wants(void)
{
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    life_world_pass(&w, 2 * SECOND); // for which it waits for reports
}

static inline void all_train_at(uint64_t own, uint64_t round)
{
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = own, .step = 8 * own});
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, round);
}

// The node was suspended at round 100, beyond the reach of the others at 401, and has asked for a donor's
// model.
static inline void fetch_far_behind(void)
{
    all_train_at(100, 400);
    w.now_ns += 10 * SECOND; // SIGSTOP
    life_world_look(&w);
    all_train_at(100, 401);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
}

#endif
