// The cost of simulated clusters: CPU seconds and memory for starting all processes at once, until every view
// has all of them, and virtual seconds per second while nothing happens.
//
//     bench_lab_sim [--sealed] [--known] [nodes...]      (64 256 1024)
#include "lab/sim/sim_node.h"
#include "lab/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TOGETHER_NS (300 * SIM_SECOND)

static double cpu(void) // one thread: the time on a quiet machine
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double memory_mib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static bool together(const struct sim_world *world)
{
    for (size_t i = 0; i < world->options.nodes; i++)
        if (gossip_graph_members(sim_graph(world->node[i])) != world->options.nodes)
            return false;
    return true;
}

static void run(struct sim_world *world, uint64_t ns)
{
    if (sim_world_run(world, sim_world_now(world) + ns))
        return;
    printf("broken: %s\n", world->broken);
    exit(1);
}

static void measure(struct sim_options options)
{
    static struct sim_world world;
    double began = cpu();

    sim_world_create(&world, &options);
    world.net.quality[0] = (struct sim_quality){.delay_ns = 10 * SIM_MS, .jitter_ns = SIM_MS};
    uint64_t from_ns = sim_world_now(&world);
    for (size_t i = 0; i < options.nodes; i++) {
        sim_node_start(world.node[i]);
        run(&world, SIM_MS);
    }
    while (!together(&world) && sim_world_now(&world) - from_ns < TOGETHER_NS)
        run(&world, 100 * SIM_MS);
    double virtual_s = (double)(sim_world_now(&world) - from_ns) * 1e-9, start_s = cpu() - began;
    run(&world, 20 * SIM_SECOND); // until the updates about that many joins have spread
    double settled_s = cpu() - began;
    uint64_t steps = world.counts.steps;
    began = cpu();
    run(&world, 20 * SIM_SECOND);
    double idle_s = cpu() - began;
    printf("%5zu nodes, %s%s: together after %.1f virtual s in %.2f s (%.2f s with the 20 s behind it), idle "
           "%.1f "
           "virtual s a second (%llu steps of membership a virtual s), %.0f MiB\n",
           options.nodes,
           options.known    ? "known"
           : options.sealed ? "sealed"
                            : "plain",
           together(&world) ? "" : ", NOT together", virtual_s, start_s, settled_s, 20 / idle_s,
           (unsigned long long)(world.counts.steps - steps) / 20, memory_mib());
    fflush(stdout);
    sim_world_destroy(&world);
}

int main(int argc, char **argv)
{
    struct sim_options options = {.seed = 1,
                                  .profile = GOSSIP_PROFILE_LAN,
                                  .topology = {.kind = TOPOLOGY_RANDOM, .seed = 7, .rings = 2},
                                  .peer_entries = 3};
    size_t sizes[16] = {64, 256, 1024}, count = 0;

    for (int i = 1; i < argc && count < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(argv[i], "--sealed") == 0)
            options.sealed = true;
        else if (strcmp(argv[i], "--known") == 0)
            options.known = true;
        else
            sizes[count++] = strtoull(argv[i], NULL, 10);
    }
    for (size_t i = 0; i < (count ? count : 3); i++) {
        options.nodes = sizes[i];
        measure(options);
    }
    return 0;
}
