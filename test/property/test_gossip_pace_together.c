// Many nodes that keep pace with each other: rings, complete and random graphs with random delays and speeds,
// links that break and come back, deaths, and a member that never makes an exchange. No request waits at a
// node that is past its round, so there is no circle of waits (test/support/pace_world.c asserts it after
// every moment); no deadline passes for one that is alive; nobody runs away.
//
// P2PML_SEED: the first one, P2PML_SEEDS: how many.
#include "test/support/pace_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// L: what the news can be late is part of it (gossip/pace/README.md).
static void check_lead(const struct pace_world *world)
{
    size_t degree = 0;

    for (size_t i = 0; i < world->nodes; i++)
        degree = world->node[i].pace.n_peers > degree ? world->node[i].pace.n_peers : degree;
    pace_world_must(world, world->lead <= PACE_LEAD + degree + 2 * world->nodes,
                    "a node runs away from the cluster");
}

// -- tests

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

static void for_all(const char *what, uint64_t seeds,
                    void (*test)(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape,
                                 size_t nodes))
{
    const uint64_t first = number("P2PML_SEED", 1);

    seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : seeds);
    print_message("%s: seeds %llu to %llu\n", what, (unsigned long long)first,
                  (unsigned long long)(first + seeds - 1));
    for (uint64_t seed = first; seed < first + seeds; seed++)
        test(seed, seed % 2 ? GOSSIP_PACE_SYNC : GOSSIP_PACE_ASYNC, (enum pace_shape)(seed / 2 % PACE_SHAPES),
             2 + (size_t)(seed / 6 % (PACE_NODES_MAX - 1)));
}

static struct pace_world world; // of this program

static void calm(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape, size_t nodes)
{
    pace_world_create(&world, seed, mode, shape, nodes);
    pace_world_run(&world, 6 * PACE_SECOND);
    pace_world_must(&world, world.overdue == 0,
                    "a deadline passed though all were alive and nothing was lost");
    pace_world_must(&world, pace_world_longest(&world) < PACE_SECOND, "a standstill");
    for (size_t i = 0; i < nodes; i++)
        pace_world_must(&world, world.node[i].round > 50, "a node without progress");
    check_lead(&world);
    pace_world_destroy(&world);
}

static void a_calm_cluster_stands_nowhere(void **state)
{
    (void)state;
    for_all("calm", 60, calm);
}

static void dies(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape, size_t nodes)
{
    if (nodes < 3)
        return; // a boundary that is open knows that others train
    pace_world_create(&world, seed, mode, shape, nodes);
    pace_world_run(&world, 2 * PACE_SECOND + base_rng_below(&world.rng, PACE_SECOND));
    const size_t dead = base_rng_below(&world.rng, nodes);
    const uint64_t told_ns = base_rng_below(&world.rng, 2 * PACE_SECOND);
    pace_world_kill(&world, dead);
    pace_world_run(&world, world.now_ns + told_ns);
    pace_world_bury(&world, dead);
    pace_world_run(&world, world.now_ns + 3 * PACE_SECOND);
    world.lead = 0; // the death has moved the median
    pace_world_must(&world, world.overdue == 0, "a deadline passed for one that was alive");
    pace_world_must(&world, pace_world_longest(&world) < 2 * PACE_SECOND + PACE_SECOND,
                    "a death stops the cluster");
    pace_world_run(&world, world.now_ns + 2 * PACE_SECOND);
    pace_world_must(&world, pace_world_longest(&world) < PACE_SECOND, "a standstill after a death");
    check_lead(&world);
    pace_world_destroy(&world);
}

static void one_death_costs_at_most_the_time_until_it_is_known(void **state)
{
    (void)state;
    for_all("death", 60, dies);
}

static void flaps(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape, size_t nodes)
{
    pace_world_create(&world, seed, mode, shape, nodes);
    for (unsigned k = 0; k < 12; k++) {
        const size_t a = base_rng_below(&world.rng, nodes), b = base_rng_below(&world.rng, nodes);
        pace_world_run(&world, world.now_ns + base_rng_below(&world.rng, PACE_SECOND / 2));
        if (world.colour[a][b])
            pace_world_link(&world, a, b, !world.up[a][b]);
    }
    for (size_t a = 0; a < nodes; a++)
        for (size_t b = 0; b < a; b++)
            if (world.colour[a][b] && !world.up[a][b])
                pace_world_link(&world, a, b, true);
    pace_world_run(&world, world.now_ns + 3 * PACE_SECOND);
    (void)pace_world_longest(&world);
    pace_world_run(&world, world.now_ns + 2 * PACE_SECOND);
    pace_world_must(&world, world.overdue == 0, "a deadline passed though no message was lost over its link");
    pace_world_must(&world, pace_world_longest(&world) < PACE_SECOND, "a standstill after links came back");
    check_lead(&world);
    pace_world_destroy(&world);
}

static void links_that_break_and_come_back_leave_no_standstill(void **state)
{
    (void)state;
    for_all("flapping links", 60, flaps);
}

// Some are many times faster than the others. In async the fast are held at L, and the slow hold nobody else.
static void uneven(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape, size_t nodes)
{
    uint64_t rounds[2] = {0};

    for (size_t k = 0; k < 2; k++) {
        pace_world_create(&world, seed, mode, shape, nodes);
        for (size_t i = 0; i < nodes && k; i++)
            world.node[i].steps_ns *= i == 0 ? 20 : i <= nodes / 4 ? 1 : 2;
        pace_world_run(&world, 6 * PACE_SECOND);
        pace_world_must(&world, world.overdue == 0,
                        "a deadline passed though all were alive and nothing was lost");
        check_lead(&world);
        rounds[k] = world.node[nodes - 1].round;
        pace_world_destroy(&world);
    }
    if (mode == GOSSIP_PACE_ASYNC && nodes > 3)
        pace_world_must(&world, rounds[1] * 3 > rounds[0], "async: a straggler holds another node");
}

static void nobody_runs_away_and_in_async_nobody_waits_for_the_slow(void **state)
{
    (void)state;
    for_all("uneven", 42, uneven);
}

// It takes requests, says that it is behind, and answers none.
static void lies(uint64_t seed, enum gossip_pace_mode mode, enum pace_shape shape, size_t nodes)
{
    enum { LASTS_S = 60 };

    if (nodes < 3)
        return;
    pace_world_create(&world, seed, mode, shape, nodes);
    pace_world_run(&world, 3 * PACE_SECOND);
    world.node[0].mute = true;
    pace_world_run(&world, (3 + LASTS_S) * PACE_SECOND);
    for (size_t i = 1; i < nodes; i++) {
        const struct gossip_pace_peer *peer = &world.node[i].edge[0].pace;
        pace_world_must(&world,
                        peer->waited_ns <= PACE_CEILING + PACE_CEILING / 4 + LASTS_S * PACE_SECOND / 5,
                        "it is waited for longer than a ceiling and a fifth of the time");
        pace_world_must(&world, world.node[i].round > 100, "a node held by one that never makes an exchange");
    }
    pace_world_destroy(&world);
}

static void one_that_never_makes_an_exchange_is_waited_for_a_fifth_of_the_time(void **state)
{
    (void)state;
    for_all("lies", 12, lies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_cluster_stands_nowhere),
        cmocka_unit_test(one_death_costs_at_most_the_time_until_it_is_known),
        cmocka_unit_test(links_that_break_and_come_back_leave_no_standstill),
        cmocka_unit_test(nobody_runs_away_and_in_async_nobody_waits_for_the_slow),
        cmocka_unit_test(one_that_never_makes_an_exchange_is_waited_for_a_fifth_of_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
