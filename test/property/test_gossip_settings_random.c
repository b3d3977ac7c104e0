// Settings that are changed while a cluster trains, at any nodes and moments: every node takes every round
// with the same values, also those that join, die and come back, or leave. The nodes are the lives
// themselves. What they hear of each other is up to 1.5 s late; a change takes at most three times that: to a
// second node before the first dies, to a third that has just entered another one, and back.
//
// P2PML_SEED: the first one, P2PML_SEEDS: how many.
#include "base/rng.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NODES    5u
#define TICK_NS  (LIFE_TEST_SECOND / 20)
#define LATE_NS  (3 * LIFE_TEST_SECOND / 2)
#define ROUNDS   2000u
#define SPREAD   8u // rounds by which nodes are apart
#define MAX_SETS 12u

enum being { ABSENT, JOINS, TRAINS };

static struct node {
    struct life_world world;
    enum being being;
    uint64_t round;
    struct gossip_setting kept[GOSSIP_SETTINGS]; // in its directory
    uint64_t heard_ns[NODES];                    // when it last heard each other
} node[NODES];

static struct base_rng rng;
static uint64_t now_ns;
static double used[GOSSIP_SETTINGS][ROUNDS]; // by the first node that took the round
static bool taken[ROUNDS];
static size_t sets, changed;
static uint64_t seed_now;

static size_t trains(void)
{
    size_t count = 0;
    for (size_t i = 0; i < NODES; i++)
        count += node[i].being == TRAINS;
    return count;
}

static uint64_t furthest(void)
{
    uint64_t round = 0;
    for (size_t i = 0; i < NODES; i++)
        if (node[i].being == TRAINS && node[i].round > round)
            round = node[i].round;
    return round;
}

// What `i` sees of `k` now: its record, and how far it is.
static void hear(size_t i, size_t k)
{
    struct life_member *member = &node[i].world.member[k == 0 ? i : k == i ? 0 : k];
    const bool here = node[k].being != ABSENT;
    member->info.state = here ? GOSSIP_MEMBER_ALIVE : GOSSIP_MEMBER_DEAD;
    member->record.flags = node[k].world.flags | (node[k].being == TRAINS ? GOSSIP_RECORD_TRAINING : 0u);
    node[i].heard_ns[k] = now_ns;
    if (!here)
        return;
    member->info.round = node[k].round;
    member->info.step = node[k].round * 8;
    member->info.progress_ns = now_ns;
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        member->record.settings[kind] =
            *gossip_life_setting(node[k].world.life, (enum gossip_setting_kind)kind);
}

static void begin(size_t i, bool resumed)
{
    struct life_world *world = &node[i].world;
    life_world_init(world);
    world->now_ns = now_ns;
    world->options.resumed = resumed;
    world->options.round = resumed ? node[i].round : 0;
    world->options.step = 8 * world->options.round;
    world->options.steps = 0;
    world->options.reach = 1000000;
    if (resumed)
        memcpy(world->options.settings, node[i].kept, sizeof node[i].kept);
    while (world->count < NODES)
        life_world_join(world);
    world->member[0].record.id.bytes[0] = (uint8_t)(i + 1); // [0] and [i] change places
    world->member[i].record.id.bytes[0] = i ? 1 : (uint8_t)(i + 1);
    world->self.in_view = world->self.edge_live = true;
    world->self.n_view = NODES;
    world->self.n_neighbours = 2;
    life_world_begin(world);
    node[i].being = JOINS;
    if (!resumed)
        node[i].round = 0;
}

static void end(size_t i)
{
    life_world_end(&node[i].world);
    node[i].being = ABSENT;
}

// Whoever comes gets everything from the first member that it meets.
static void meet_all(size_t i)
{
    for (size_t k = 0; k < NODES; k++)
        if (k != i)
            hear(i, k);
}

static void take_orders(size_t i)
{
    struct life_world *world = &node[i].world;
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
        node[i].kept[kind] = *gossip_life_setting(world->life, (enum gossip_setting_kind)kind);
    if (node[i].being != JOINS || !world->learner_started)
        return;
    if (world->learner_fetches) {
        life_world_tell(world, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
        const uint64_t round = furthest();
        life_world_tell(world,
                        (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_FETCHED, .round = round, .step = 8 * round, .ok = true});
        node[i].round = round;
    }
    if (world->started_round > node[i].round)
        node[i].round = world->started_round;
    node[i].being = TRAINS;
}

// A round with the settings that its learner has.
static void take_round(size_t i)
{
    const uint64_t round = ++node[i].round;
    if (round >= ROUNDS)
        fail_msg("seed %llu: node %zu at round %llu, started %llu, furthest %llu",
                 (unsigned long long)seed_now, i, (unsigned long long)round,
                 (unsigned long long)node[i].world.started_round, (unsigned long long)furthest());
    for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++) {
        const double value =
            gossip_setting_at(gossip_life_setting(node[i].world.life, (enum gossip_setting_kind)kind), round);
        if (!taken[round])
            used[kind][round] = value;
        if (memcmp(&used[kind][round], &value, sizeof value) != 0)
            fail_msg("seed %llu: node %zu takes round %llu with setting %u = %g, another node with %g",
                     (unsigned long long)seed_now, i, (unsigned long long)round, kind, value,
                     used[kind][round]);
    }
    taken[round] = true;
    life_world_tell(&node[i].world, (struct gossip_life_event){
                                        .kind = GOSSIP_LIFE_PROGRESS, .round = round, .step = 8 * round});
}

static void change(void)
{
    const size_t i = base_rng_below(&rng, NODES);
    if (node[i].being != TRAINS || sets == MAX_SETS)
        return;
    const struct gossip_life_event event = {
        .kind = GOSSIP_LIFE_SET,
        .setting_kind = (enum gossip_setting_kind)base_rng_below(&rng, GOSSIP_SETTINGS),
        .value = (double)base_rng_below(&rng, 10)};
    life_world_tell(&node[i].world, event);
    if (gossip_life_answer(node[i].world.life) == GOSSIP_LIFE_IS_SET)
        sets++;
}

static void come_or_go(void)
{
    const size_t i = base_rng_below(&rng, NODES);
    if (node[i].being == ABSENT) {
        begin(i, node[i].round > 0 && base_rng_below(&rng, 2));
        meet_all(i);
    } else if (node[i].being == TRAINS && trains() > 2) {
        end(i);
    }
}

static void tick(bool changes)
{
    const uint64_t before = furthest(); // one round a tick for the fastest
    now_ns += TICK_NS;
    if (changes && base_rng_below(&rng, 40) == 0)
        change();
    if (changes && base_rng_below(&rng, 60) == 0)
        come_or_go();
    for (size_t i = 0; i < NODES; i++) {
        if (node[i].being == ABSENT)
            continue;
        node[i].world.now_ns = now_ns;
        for (size_t k = 0; k < NODES; k++)
            if (k != i && (base_rng_below(&rng, 20) == 0 || now_ns - node[i].heard_ns[k] >= LATE_NS))
                hear(i, k);
        life_world_look(&node[i].world);
        take_orders(i);
        if (node[i].being == TRAINS && node[i].round + SPREAD < furthest())
            node[i].round = furthest() - SPREAD; // it takes the cluster's round
        if (node[i].being == TRAINS && node[i].round <= before &&
            (node[i].round < before || base_rng_below(&rng, 5)))
            take_round(i);
    }
}

static void run(uint64_t seed)
{
    base_rng_seed(&rng, seed_now = seed);
    now_ns = 1000 * LIFE_TEST_SECOND;
    memset(node, 0, sizeof node);
    memset(taken, 0, sizeof taken);
    sets = 0;
    for (size_t i = 0; i < NODES; i++)
        begin(i, false);
    for (size_t i = 0; i < NODES; i++)
        meet_all(i);
    while (trains() < NODES)
        tick(false);
    while (furthest() < ROUNDS - 400)
        tick(true);
    for (unsigned i = 0; i < 160; i++)
        tick(false);
    for (size_t i = 1; i < NODES; i++)
        for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
            if (node[i].being != ABSENT && node[0].being != ABSENT)
                assert_int_equal(gossip_setting_compare(
                                     gossip_life_setting(node[i].world.life, (enum gossip_setting_kind)kind),
                                     gossip_life_setting(node[0].world.life, (enum gossip_setting_kind)kind)),
                                 0);
    for (size_t round = 1; round < ROUNDS; round++)
        for (unsigned kind = 0; kind < GOSSIP_SETTINGS; kind++)
            changed += taken[round] && taken[round - 1] &&
                       memcmp(&used[kind][round], &used[kind][round - 1], sizeof(double)) != 0;
    for (size_t i = 0; i < NODES; i++)
        if (node[i].being != ABSENT)
            end(i);
}

static void all_nodes_take_every_round_with_the_same_settings(void **state)
{
    const char *first = getenv("P2PML_SEED"), *count = getenv("P2PML_SEEDS");
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    const uint64_t seeds = count ? strtoull(count, NULL, 10) : first ? 1 : 200;
    (void)state;
    print_message("seeds %llu to %llu\n", (unsigned long long)seed, (unsigned long long)(seed + seeds - 1));
    for (uint64_t s = seed; s < seed + seeds; s++)
        run(s);
    print_message("%zu changes of a value\n", changed);
    assert_true(changed > seeds); // else nothing was tested
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_take_every_round_with_the_same_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
