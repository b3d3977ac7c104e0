// A node's life in an artificial world: members, links and a clock that a test moves, and the actions in
// their order. For tests of gossip/life.
#ifndef TEST_SUPPORT_LIFE_WORLD_H
#define TEST_SUPPORT_LIFE_WORLD_H

#include "gossip/life/life.h"

enum { LIFE_MEMBERS = 8, LIFE_ACTIONS_KEPT = 256 };

#define LIFE_TEST_SECOND 1000000000ull

struct life_world {
    struct gossip_life_options options;
    struct gossip_life *life;
    struct gossip_life_self self;
    uint64_t now_ns;
    struct life_member { // [0] is the node itself
        bool there, linked, gathered, unlisted;
        struct gossip_record record;
        struct gossip_member_info info;
    } member[LIFE_MEMBERS];
    size_t count;
    struct gossip_id edge[LIFE_MEMBERS]; // [n_edges] of its exchange
    size_t n_edges;
    struct gossip_life_action action[LIFE_ACTIONS_KEPT]; // since the latest life_world_clear, but not NEWS
    struct gossip_life_action news;                      // the latest NEWS
    size_t n_actions;
    uint8_t flags; // of its own record, as the actions say
    bool learner_started, learner_fetches, learner_paused, learner_leaves, departed, ended;
    uint64_t stopping_ns; // when a member was first seen to stop; 0: not yet
    bool started_away;
    uint64_t started_round, stop_at; // of the latest START, STOP_AT
    size_t n_asked, n_links;
    struct gossip_id asked[GOSSIP_LIFE_DONORS];
    uint32_t living[LIMIT_PEERS];
    size_t n_living;
};

// Options that a test may change before life_world_begin: 4 members expected, 30 s to start, 10 s of linger.
void life_world_init(struct life_world *world);
void life_world_begin(struct life_world *world);
void life_world_end(struct life_world *world);

// What a step reads; valid until the next call.
const struct gossip_life_world *life_world_table(const struct life_world *world);

// One more member, alive, heard and without flags; returns its index.
size_t life_world_join(struct life_world *world);
void life_world_flags(struct life_world *world, size_t member, uint8_t flags);
// The member now reports that many rounds, of 8 steps each.
void life_world_progress(struct life_world *world, size_t member, uint64_t round);
// Sets the state, and reports it.
void life_world_state(struct life_world *world, size_t member, enum gossip_member_state state);

void life_world_tell(struct life_world *world, struct gossip_life_event event);
void life_world_look(struct life_world *world);
void life_world_pass(struct life_world *world, uint64_t ns); // lets time pass, with a look every 100 ms
void life_world_clear(struct life_world *world);
// How many actions of this kind, or notices of this kind, have come since the latest clear.
size_t life_world_actions(const struct life_world *world, enum gossip_life_action_kind kind);
size_t life_world_notices(const struct life_world *world, enum gossip_life_notice notice);
const struct gossip_life_action *life_world_last(const struct life_world *world,
                                                 enum gossip_life_action_kind kind); // NULL: none came
// The members train, and the node has counted and begun: for tests of what comes later.
void life_world_train(struct life_world *world);

#endif
