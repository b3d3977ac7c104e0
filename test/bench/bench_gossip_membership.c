// Membership in simulation: how soon all members know of a death, a return, a partition and its end; the
// cost; and false deaths. Prints each limit beside its figure; exit status 1 if one is missed.
//
//     bench_gossip_membership [hours]   node hours under 30% loss with slow nodes (default 20; campaign
//     10,000)
#include "lab/sim/sim_node.h"
#include "test/support/bench.h"
#include "test/support/sim_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_BYTES 28u // IP and UDP of one datagram

enum { NODES_MAX = 1000, SAMPLES_MAX = 1 << 16, SEEDS = 4, VICTIMS = 6, KILL_SEEDS = 16 };

struct samples {
    size_t count;
    double second[SAMPLES_MAX];
};

static struct sim_world world;
static struct sim_check check;
static struct samples samples;
static size_t victim;
static uint64_t since_ns;
static bool counts[NODES_MAX]; // observers that take part in a sample
static bool missed;

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double part)
{
    if (!samples.count)
        return 1e9;
    qsort(samples.second, samples.count, sizeof *samples.second, ascending);
    return samples.second[(size_t)(part * (double)(samples.count - 1) + 0.5)];
}

static void row(const char *what, double value, const char *unit, double limit)
{
    const char *verdict = limit <= 0 ? "" : value <= limit ? "ok" : "MISSED";

    missed |= limit > 0 && value > limit;
    printf("  %-58s %9.3f %-5s", what, value, unit);
    if (limit > 0)
        printf(" <= %-8g %s", limit, verdict);
    printf("\n");
    fflush(stdout);
}

static void row_of(const char *what, size_t nodes, double value, const char *unit, double limit)
{
    char text[96];

    snprintf(text, sizeof text, what, nodes);
    row(text, value, unit, limit);
}

static void build(size_t nodes, uint64_t seed, double loss)
{
    const struct sim_options options = {.seed = seed,
                                        .watch = &check.watch,
                                        .nodes = nodes,
                                        .profile = GOSSIP_PROFILE_LAN,
                                        .topology = {.kind = TOPOLOGY_RANDOM, .seed = 7, .rings = 2},
                                        .peer_entries = 2,
                                        .slow_ns = 150 * SIM_MS};

    sim_check_create(&check, &world, nodes, nodes);
    check.lenient = true;
    sim_world_create(&world, &options);
    world.net.quality[0] =
        (struct sim_quality){.delay_ns = 200000, .jitter_ns = 100000, .loss = loss, .reorder = loss / 3};
}

static void fail(const char *what)
{
    printf("  %s (seed %llu, %zu nodes, at %.2f s)\n", what, (unsigned long long)world.options.seed,
           world.options.nodes, seconds(sim_world_now(&world)));
    sim_trace_dump(&world.trace, stdout);
    exit(1);
}

static void run_for(uint64_t ns)
{
    if (!sim_world_run(&world, sim_world_now(&world) + ns))
        fail(world.broken);
}

// Seconds until all agree; 1e9 after `most_ns`.
static double until_agreed(uint64_t most_ns)
{
    uint64_t from_ns = sim_world_now(&world);
    const char *what;

    while (!sim_check_agree(&world, &what)) {
        if (sim_world_now(&world) - from_ns > most_ns) {
            printf("  no agreement: %s\n", what);
            return 1e9;
        }
        run_for(50 * SIM_MS);
    }
    return seconds(sim_world_now(&world) - from_ns);
}

static void start_all(uint64_t each_ns)
{
    for (size_t i = 0; i < world.options.nodes; i++) {
        sim_node_start(world.node[i]);
        run_for(each_ns);
    }
    if (until_agreed(120 * SIM_SECOND) > 1e8)
        fail("the cluster never came together");
    run_for(5 * SIM_SECOND);
}

static void sample_death(struct sim_world *of, size_t host, const struct gossip_membership_action *action)
{
    if (action->state != GOSSIP_MEMBER_DEAD || sim_world_find(of, &action->peer) != victim || !counts[host])
        return;
    counts[host] = false;
    if (samples.count < SAMPLES_MAX)
        samples.second[samples.count++] = seconds(sim_world_now(of) - since_ns);
}

static size_t observers(void)
{
    size_t count = 0;

    for (size_t i = 0; i < world.options.nodes; i++)
        count += counts[i] = world.node[i]->running;
    return count;
}

enum how { KILLED, SILENT, DEAF, MUTE, CUT_OFF };

static const char *const how_names[] = {[KILLED] = "kill -9",
                                        [SILENT] = "silent host",
                                        [DEAF] = "deaf host",
                                        [MUTE] = "mute host",
                                        [CUT_OFF] = "host cut off"};

static void cut_one(size_t host, enum how how, bool cut)
{
    for (size_t i = 0; i < world.options.nodes; i++) {
        if (i != host && how != DEAF)
            sim_net_path(&world.net, host, i)->cuts = cut;
        if (i != host && how != MUTE)
            sim_net_path(&world.net, i, host)->cuts = cut;
    }
}

static void strike(size_t host, enum how how)
{
    if (how == KILLED || how == SILENT)
        sim_node_kill(world.node[host], how == SILENT);
    else
        cut_one(host, how, true);
}

static void kill_some(size_t nodes, uint64_t seed, enum how how)
{
    build(nodes, seed, 0);
    start_all(50 * SIM_MS);
    check.changed = sample_death;
    for (size_t v = 0; v < VICTIMS && v + 2 < nodes; v++) {
        victim = 2 + v; // not the nodes on the peer lists
        since_ns = sim_world_now(&world);
        strike(victim, how);
        size_t want = samples.count + observers() - (world.node[victim]->running ? 1 : 0);
        for (int i = 0; i < 400 && samples.count < want; i++)
            run_for(100 * SIM_MS);
        while (samples.count < want) // not within 40 s
            samples.second[samples.count++] = 40;
        if (how > SILENT)
            cut_one(victim, how, false);
        if (how > SILENT && until_agreed(60 * SIM_SECOND) > 1e8)
            fail("a node that was cut off did not come back");
        run_for(3 * SIM_SECOND);
    }
    sim_world_destroy(&world);
    sim_check_destroy(&check);
}

static void deaths(size_t nodes, enum how how, double median, double late, double latest)
{
    samples.count = 0;
    for (uint64_t seed = 1; seed <= KILL_SEEDS; seed++)
        kill_some(nodes, seed, how);
    printf("  %s, %zu nodes, to all observers:\n", how_names[how], nodes);
    row("    median", quantile(0.5), "s", median);
    row("    99th percentile", quantile(0.99), "s", late);
    row("    maximum", quantile(1), "s", latest);
}

// How long after an outage of `ns` until the node counts again.
static void outages(enum how how, uint64_t ns)
{
    char text[96];

    samples.count = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        build(12, seed, 0);
        start_all(50 * SIM_MS);
        cut_one(5, how, true);
        run_for(ns);
        cut_one(5, how, false);
        samples.second[samples.count++] = until_agreed(200 * SIM_SECOND);
        sim_world_destroy(&world);
        sim_check_destroy(&check);
    }
    snprintf(text, sizeof text, "%s for %.0f s, one of 12: in all views after healing, maximum",
             how_names[how], seconds(ns));
    row(text, quantile(1), "s", 8);
}

// How long until a node that is cut off detects that, and that it is no majority.
static void cut_offs(void)
{
    samples.count = 0;
    for (uint64_t seed = 1; seed <= KILL_SEEDS; seed++)
        for (enum how how = DEAF; how <= CUT_OFF; how++) {
            struct gossip_membership_totals totals = {0};
            build(12, seed, 0);
            start_all(50 * SIM_MS);
            uint64_t from_ns = sim_world_now(&world);
            cut_one(5, how, true);
            while (!(totals.cut_off && totals.minority) &&
                   sim_world_now(&world) < from_ns + 60 * SIM_SECOND) {
                run_for(50 * SIM_MS);
                gossip_membership_totals(world.node[5]->member.membership, &totals);
            }
            samples.second[samples.count++] = seconds(sim_world_now(&world) - from_ns);
            sim_world_destroy(&world);
            sim_check_destroy(&check);
        }
    row("one of 12 detects that it is cut off and no majority, median", quantile(0.5), "s", 0);
    row("    maximum", quantile(1), "s", 3);
}

static void rejoin(void)
{
    samples.count = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        build(16, seed, 0.3);
        start_all(50 * SIM_MS);
        for (size_t v = 2; v < 8; v++) {
            sim_node_kill(world.node[v], false);
            if (until_agreed(60 * SIM_SECOND) > 1e8)
                fail("a death that no member detects");
            run_for(5 * SIM_SECOND);
            sim_node_start(world.node[v]);
            samples.second[samples.count++] = until_agreed(60 * SIM_SECOND);
        }
        sim_world_destroy(&world);
        sim_check_destroy(&check);
    }
    row("rejoin at 30% loss, 16 nodes, until all views agree, median", quantile(0.5), "s", 0);
    row("    maximum", quantile(1), "s", 3);
}

static void set_cut(bool cut)
{
    size_t half = world.options.nodes / 2;

    for (size_t a = 0; a < world.options.nodes; a++)
        for (size_t b = 0; b < world.options.nodes; b++)
            sim_net_path(&world.net, a, b)->cuts = cut && (a < half) != (b < half);
}

static bool split_is_known(void)
{
    size_t half = world.options.nodes / 2;

    for (size_t a = 0; a < world.options.nodes; a++)
        for (size_t b = 0; b < world.options.nodes; b++) {
            struct gossip_member_info info;
            if ((a < half) != (b < half) && sim_member_info(world.node[a], b, &info) &&
                info.state != GOSSIP_MEMBER_DEAD)
                return false;
        }
    return true;
}

static void partition(size_t nodes)
{
    double detected = 0, healed = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        build(nodes, seed, 0);
        start_all(50 * SIM_MS);
        uint64_t from_ns = sim_world_now(&world);
        set_cut(true);
        while (!split_is_known() && sim_world_now(&world) - from_ns < 120 * SIM_SECOND)
            run_for(100 * SIM_MS);
        double took = seconds(sim_world_now(&world) - from_ns);
        detected = took > detected ? took : detected;
        run_for(10 * SIM_SECOND);
        set_cut(false);
        took = until_agreed(120 * SIM_SECOND);
        healed = took > healed ? took : healed;
        sim_world_destroy(&world);
        sim_check_destroy(&check);
    }
    row_of("partition of %zu in halves: all know, maximum", nodes, detected, "s", 14);
    row("    healed: all views agree, maximum", healed, "s", 3);
}

static void count_from_here(void)
{
    for (size_t i = 0; i < world.options.nodes; i++)
        world.node[i]->traffic.datagrams_sent = world.node[i]->traffic.datagram_bytes_sent = 0;
}

// Bytes per second: the mean over members, and the largest of one.
static double load(uint64_t ns, size_t wire_bytes, double *most)
{
    double sum = 0, top = 0;
    size_t nodes = 0;

    for (size_t i = 0; i < world.options.nodes; i++) {
        const struct sim_node *node = world.node[i];
        if (!node->running)
            continue;
        double bytes =
            (double)(node->traffic.datagram_bytes_sent + wire_bytes * node->traffic.datagrams_sent) /
            seconds(ns);
        nodes++;
        sum += bytes;
        top = bytes > top ? bytes : top;
    }
    *most = top;
    return sum / (double)nodes;
}

static void idle(size_t nodes, double limit)
{
    double most;

    build(nodes, 1, 0);
    start_all(50 * SIM_MS);
    run_for(20 * SIM_SECOND);
    count_from_here();
    run_for(60 * SIM_SECOND);
    row_of("idle, %zu nodes, sealed datagrams sent by a node", nodes, load(60 * SIM_SECOND, 0, &most), "B/s",
           limit);
    row("    with IP and UDP", load(60 * SIM_SECOND, WIRE_BYTES, &most), "B/s", 0);
    sim_world_destroy(&world);
    sim_check_destroy(&check);
}

static void false_deaths(double hours)
{
    const size_t nodes = 32;
    uint64_t end_ns;
    double began = bench_now_s();

    build(nodes, 1, 0.3);
    for (size_t i = 0; i < nodes; i += 8)
        world.node[i]->slow = true;
    start_all(50 * SIM_MS);
    check.suspects = check.deaths = 0;
    end_ns = sim_world_now(&world) + (uint64_t)(hours / (double)nodes * 3600e9);
    while (sim_world_now(&world) < end_ns)
        run_for(60 * SIM_SECOND);
    printf("  %.0f node hours at 30%% loss, 4 of %zu nodes slow, in %.0f s: %llu suspected, %llu deaths\n",
           hours, nodes, bench_now_s() - began, (unsigned long long)check.suspects,
           (unsigned long long)check.deaths);
    row("    false deaths per 1,000 node hours", (double)check.deaths * 1000 / hours, "", 0);
    missed |= check.deaths > 0;
    sim_world_destroy(&world);
    sim_check_destroy(&check);
}

static void thousand(void)
{
    double most, mean, began = bench_now_s();

    build(NODES_MAX, 1, 0.01);
    start_all(20 * SIM_MS);
    run_for(40 * SIM_SECOND); // until the updates about a thousand joins have spread
    count_from_here();
    run_for(30 * SIM_SECOND);
    mean = load(30 * SIM_SECOND, 0, &most);
    row_of("%zu members: sealed datagrams sent by a member", NODES_MAX, mean, "B/s", 430);
    row("    by the busiest, over the mean", most / mean, "x", 2);
    for (size_t i = 0; i < 20; i++) {
        sim_node_kill(world.node[10 + 7 * i], false);
        run_for(100 * SIM_MS);
    }
    run_for(2 * SIM_SECOND);
    for (size_t i = 0; i < 10; i++)
        sim_node_start(world.node[10 + 7 * i]);
    row("    20 killed, 10 back: views agree after the last of it", until_agreed(60 * SIM_SECOND), "s", 5);
    row("    wall time", bench_now_s() - began, "s", 0);
    sim_world_destroy(&world);
    sim_check_destroy(&check);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 16, 32, 64};
    double hours = argc > 1 ? strtod(argv[1], NULL) : 20, began = bench_now_s();

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        deaths(sizes[i], KILLED, sizes[i] == 32 ? 0.8 : 0, sizes[i] == 32 ? 1.5 : 0, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        deaths(sizes[i], SILENT, sizes[i] == 32 ? 7.2 : 0, sizes[i] == 32 ? 9.5 : 0, 0);
    for (enum how how = DEAF; how <= CUT_OFF; how++)
        deaths(12, how, 7.2, 0, 9.5);
    cut_offs();
    for (uint64_t s = 15; s <= 60; s += 15)
        outages(MUTE, s * SIM_SECOND);
    outages(CUT_OFF, 60 * SIM_SECOND);
    rejoin();
    partition(32);
    idle(8, 430);
    idle(32, 430);
    false_deaths(hours);
    thousand();
    row("wall time of all", bench_now_s() - began, "s", 0);
    return missed;
}
