// A directory is copied and both processes run: the copy stops, whichever of the two hears of the other
// first, and the first process goes on. 100 clusters from seeds: sealed or plain, with loss, with and without
// the copied node on the peer lists, with a copy that starts a second or half a minute after the first
// process.
//
// P2PML_SEEDS: how many (default 100); P2PML_SEED: the first one; P2PML_TRACE=1: every line of the trace.
#include "lab/sim/sim_node.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_check.h"
#include "test/support/sim_toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NODES_MAX = 10 };

static struct sim_world world;
static struct sim_toy toy;
static struct sim_check check;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

// The identity of host 0, which is on all peer lists, is the one that is copied.
static void build(uint64_t seed, struct base_rng *rng)
{
    struct sim_options options = {.seed = seed, .topology = {.kind = TOPOLOGY_RING, .seed = 7}, .twins = 1};

    base_rng_seed_stream(rng, seed, 0x71000);
    options.nodes = 3 + base_rng_below(rng, NODES_MAX - 3);
    options.peer_entries = 1 + base_rng_below(rng, 3);
    options.sealed = base_rng_below(rng, 2);
    options.slow_ns = 150 * SIM_MS;
    options.life.start_members = options.nodes;
    options.life.forget_after_ns = 600 * SIM_SECOND;
    options.exchange = (struct gossip_exchange_options){.kernels = cpu_kernels(),
                                                        .ratio = 0.25f,
                                                        .sync = base_rng_below(rng, 2),
                                                        .deadline_floor_ns = 100 * SIM_MS,
                                                        .deadline_ceiling_ns = SIM_SECOND};
    sim_toy_create(&toy, &world, options.nodes, options.nodes + 1, seed);
    sim_check_create(&check, &world, options.nodes, options.nodes + 1);
    check.lenient = true;
    toy.rate = 0.1f;
    toy.round_ns = 100 * SIM_MS;
    options.learner = &toy.learner;
    options.watch = &check.watch;
    sim_world_create(&world, &options);
    world.trace.verbose = getenv("P2PML_TRACE") != NULL;
    world.net.quality[0] = (struct sim_quality){.delay_ns = (1 + base_rng_below(rng, 30)) * SIM_MS,
                                                .jitter_ns = SIM_MS,
                                                .loss = (double)base_rng_below(rng, 3) * 0.05};
    world.net.port_closed_chance = 1;
}

static bool run_for(uint64_t ns)
{
    return sim_world_run(&world, sim_world_now(&world) + ns);
}

// How long the copy ran; negative: it still runs, or the other process stopped.
static double copy(uint64_t seed)
{
    struct base_rng rng;

    build(seed, &rng);
    struct sim_node *first = world.node[0], *second = world.node[world.options.nodes];
    for (size_t i = 0; i < world.options.nodes; i++)
        sim_node_start(world.node[i]);
    uint64_t apart_ms = base_rng_below(&rng, 2) ? 1000 + base_rng_below(&rng, 4000) // both are young
                                                : 10000 + base_rng_below(&rng, 20000);
    bool fine = run_for(apart_ms * SIM_MS);
    if (base_rng_below(&rng, 4)) { // they do not reach each other, so only other members can tell them
        sim_net_path(&world.net, first->host, second->host)->cuts = 1;
        sim_net_path(&world.net, second->host, first->host)->cuts = 1;
    }
    sim_disk_copy(&first->disk, &second->disk);
    uint64_t began_ns = sim_world_now(&world);
    sim_node_start(second);
    while (fine && first->running && second->running && sim_world_now(&world) < began_ns + 120 * SIM_SECOND)
        fine = run_for(50 * SIM_MS);
    double took_s = (double)(sim_world_now(&world) - began_ns) * 1e-9;
    bool stays = fine && first->running && !second->running;
    for (int i = 0; stays && i < 200; i++) // and no effect of the copy stops it later
        stays = run_for(100 * SIM_MS) && first->running;
    if (!stays)
        printf("seed %llu: %zu nodes, %s, the copy came after %llu ms, %.1f s ago: %s\n",
               (unsigned long long)seed, world.options.nodes, world.options.sealed ? "sealed" : "plain",
               (unsigned long long)apart_ms, took_s,
               !fine            ? world.broken
               : first->running ? "both run"
                                : "the first process stopped");
    sim_world_destroy(&world);
    sim_check_destroy(&check);
    sim_toy_destroy(&toy);
    return stays ? took_s : -1;
}

static void test_the_copy_stops(void **state)
{
    uint64_t first = number("P2PML_SEED", 1), seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : 100);
    uint64_t stopped = 0;
    double longest_s = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        double took_s = copy(seed);
        stopped += took_s >= 0;
        longest_s = took_s > longest_s ? took_s : longest_s;
    }
    printf("%llu of %llu copies stopped, after %.1f s at most, and the first process went on\n",
           (unsigned long long)stopped, (unsigned long long)seeds, longest_s);
    assert_int_equal(stopped, seeds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_copy_stops)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
