// One death, on every kind of graph, in every mode: a cluster with default deadlines trains a fixed number of
// steps once undisturbed and once with a kill -9 at a random moment. The death may cost 3 s, no boundary
// waits 2 s for it, and no deadline passes for a node that lives.
//
// P2PML_SEED: the first one (default 1), P2PML_SEEDS: how many (default 36:
// each kind in each mode); P2PML_EVERY: the distance between two (36: one kind in one mode); P2PML_TRACE=1.
#include "base/hash.h"
#include "lab/sim/sim_node.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_toy.h"
#include "topology/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    NODES_MAX = 64,
    DEGREE_MAX = 15,
    ROUNDS = 150,
    FIRST = 1,
    SEEDS = 36,
    MODES = 3,
    TEXT_BYTES = 1 << 14
};

#define DEATH_NS   (3 * SIM_SECOND) // that one may cost
#define STALL_NS   (2 * SIM_SECOND) // no boundary lasts that long
#define CEILING_NS (10 * SIM_SECOND)
#define GIVE_UP_NS (300 * SIM_SECOND)
#define SETTLED_NS (2 * SIM_SECOND) // after its first steps a cluster has its links

struct campaign {
    struct sim_world world;
    struct sim_toy toy;
    struct sim_watch watch;
    struct topology_graph *graph;
    uint32_t group[NODES_MAX];
    size_t victim; // SIZE_MAX: none
    uint64_t kill_ns;
    uint64_t begun_ns, over_ns, longest_ns, overdue;
    size_t longest_host;
    uint64_t overdue_of[NODES_MAX];
    bool broken;
};

static const char *const modes[MODES] = {"sync", "async", "bounded"};

// A seed that breaks a promise is printed; the others still run.
static void breaks(struct campaign *c, const char *what)
{
    const struct sim_options *o = &c->world.options;

    c->broken = true;
    printf(
        "seed %llu: %s (%zu nodes, %s, %s, rounds of %.0f ms; over after %.2f s, longest boundary %.2f s of node "
        "%zu, %llu deadlines passed; node %zu killed at %.2f s)\n",
        (unsigned long long)o->seed, what, o->nodes, topology_kind_name(o->topology.kind),
        modes[o->exchange.sync      ? 0
              : o->exchange.bounded ? 2
                                    : 1],
        (double)c->toy.round_ns * 1e-6, (double)(c->over_ns - c->begun_ns) * 1e-9,
        (double)c->longest_ns * 1e-9, c->longest_host, (unsigned long long)c->overdue, c->victim,
        (double)c->kill_ns * 1e-9);
    printf("  replay: P2PML_SEED=%llu P2PML_TRACE=1 test_gossip_kill\n", (unsigned long long)o->seed);
}

// -- what is watched

static void round_done(void *owner, struct sim_node *node, uint64_t open_ns)
{
    struct campaign *c = owner;

    if (c->begun_ns == 0 || sim_world_now(&c->world) < c->begun_ns + SETTLED_NS || open_ns <= c->longest_ns)
        return;
    c->longest_ns = open_ns;
    c->longest_host = node->host;
}

static void exchanged(void *owner, struct sim_node *node)
{
    struct campaign *c = owner;
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(node->train.exchange, &totals);
    if (totals.waits.overdue > c->overdue_of[node->host])
        c->overdue += totals.waits.overdue - c->overdue_of[node->host];
    c->overdue_of[node->host] = totals.waits.overdue;
}

// -- a cluster

// A ring and random chords, at most DEGREE_MAX neighbours each.
static struct topology_graph *any_graph(struct base_rng *rng, size_t nodes)
{
    static char text[TEXT_BYTES];
    static bool joined[NODES_MAX][NODES_MAX];
    size_t degree[NODES_MAX] = {0}, bytes = 0;
    struct topology_graph *graph;
    struct base_reason why;

    memset(joined, 0, sizeof joined);
    for (size_t i = 0; i < 5 * nodes; i++) {
        const size_t a = i < nodes ? i : base_rng_below(rng, nodes),
                     b = i < nodes ? (i + 1) % nodes : base_rng_below(rng, nodes);
        if (a == b || joined[a][b] || degree[a] == DEGREE_MAX || degree[b] == DEGREE_MAX)
            continue;
        joined[a][b] = joined[b][a] = true;
        degree[a]++;
        degree[b]++;
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "node-%02zu node-%02zu\n", a, b);
        assert_true(bytes < sizeof text);
    }
    assert_int_equal(topology_graph_read("chords", text, bytes, NULL, 0, &graph, &why), BASE_OK);
    return graph;
}

// A third of the clusters is small: of two nodes one is left.
static size_t nodes_of(struct base_rng *rng, enum topology_kind kind, bool small)
{
    const bool wide = kind == TOPOLOGY_COMPLETE || kind == TOPOLOGY_STAR || kind == TOPOLOGY_MATCHINGS;
    const size_t most = wide ? DEGREE_MAX + 1 : base_rng_below(rng, 3) ? 24 : NODES_MAX;

    return small ? 2 + base_rng_below(rng, 6) : 8 + base_rng_below(rng, most - 7);
}

static void choose(struct campaign *c, struct sim_options *options, uint64_t seed)
{
    const enum topology_kind kind = (enum topology_kind)(seed % TOPOLOGY_KINDS);
    const size_t mode = seed / TOPOLOGY_KINDS % MODES;
    struct base_rng rng;

    base_rng_seed_stream(&rng, seed, 0xb0000);
    const size_t nodes = nodes_of(&rng, kind, base_hash_mix(seed) % 3 == 0);
    for (size_t i = 0; i < nodes; i++)
        c->group[i] = (uint32_t)(i / 4);
    c->graph = kind == TOPOLOGY_FILE ? any_graph(&rng, nodes) : NULL;
    *options = (struct sim_options){
        .seed = seed,
        .nodes = nodes,
        .profile = GOSSIP_PROFILE_LAN,
        .topology = {.kind = kind, .seed = seed, .rings = 3, .base_k = 1, .graph = c->graph},
        .group = c->group,
        .peer_entries = 2,
        .diskless = true,
        .local_steps = 2,
        .steps = 2 * ROUNDS,
        .life = {.start_members = nodes, .linger_ns = 10 * SIM_SECOND, .forget_after_ns = 600 * SIM_SECOND},
        .exchange = {.kernels = cpu_kernels(),
                     .ratio = 0.1f,
                     .values = KERNELS_INT8,
                     .sync = mode == 0,
                     .bounded = mode == 2,
                     .max_delay = 4,
                     .drift_correction = true,
                     .drift_gain = 2,
                     .drift_limit = 0.25f,
                     .deadline_floor_ns = SIM_SECOND,
                     .deadline_ceiling_ns = CEILING_NS}};
    c->toy.round_ns = (4 + base_rng_below(&rng, 26)) * SIM_MS;
    c->victim = base_rng_below(&rng, nodes);
    c->kill_ns = base_rng_below(&rng, ROUNDS * c->toy.round_ns * 2 / 3);
}

static void create(struct campaign *c, uint64_t seed, bool kills)
{
    struct sim_options options;
    struct base_rng rng;

    *c = (struct campaign){.watch = {.owner = c, .round_done = round_done, .exchanged = exchanged}};
    choose(c, &options, seed);
    const uint64_t round_ns = c->toy.round_ns;
    sim_toy_create(&c->toy, &c->world, options.nodes, options.nodes, seed);
    c->toy.rate = 0.05f;
    c->toy.round_ns = round_ns;
    options.learner = &c->toy.learner;
    options.watch = &c->watch;
    sim_world_create(&c->world, &options);
    base_rng_seed_stream(&rng, seed, 0xc0000);
    const uint64_t delay_ns = (100 + base_rng_below(&rng, 10000)) * 1000;
    c->world.net.quality[0] = (struct sim_quality){.delay_ns = delay_ns, .jitter_ns = delay_ns / 4};
    c->world.net.port_closed_chance = 1;
    c->world.trace.verbose = getenv("P2PML_TRACE") != NULL;
    if (!kills)
        c->victim = SIZE_MAX;
    for (size_t i = 0; i < options.nodes; i++)
        sim_node_start(c->world.node[i]);
}

static void destroy(struct campaign *c)
{
    sim_world_destroy(&c->world);
    sim_toy_destroy(&c->toy);
    topology_graph_destroy(c->graph);
}

static bool is_done(const struct campaign *c, size_t host)
{
    const struct sim_node *node = c->world.node[host];

    return !node->running || node->train.rounds.state >= GOSSIP_ROUNDS_FINISHED;
}

static void look(struct campaign *c)
{
    size_t done = 0, training = 0;

    for (size_t i = 0; i < c->world.options.nodes; i++) {
        done += is_done(c, i);
        training += c->world.node[i]->running && c->world.node[i]->train.rounds.round > 0;
    }
    if (c->begun_ns == 0 && training == c->world.options.nodes)
        c->begun_ns = sim_world_now(&c->world);
    if (done == c->world.options.nodes)
        c->over_ns = sim_world_now(&c->world);
}

static void run(struct campaign *c)
{
    bool killed = c->victim == SIZE_MAX;

    while (c->over_ns == 0 && !c->broken) {
        if (!sim_world_run(&c->world, sim_world_now(&c->world) + 5 * SIM_MS))
            breaks(c, c->world.broken);
        look(c);
        if (!killed && c->begun_ns > 0 && sim_world_now(&c->world) >= c->begun_ns + c->kill_ns) {
            sim_world_trace(&c->world, c->victim, "trial", "kill", 0, 0);
            sim_node_kill(c->world.node[c->victim], false);
            killed = true;
        }
        if (sim_world_now(&c->world) > GIVE_UP_NS)
            breaks(c, "not over after 300 s");
    }
}

// -- seeds

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

struct sums {
    double more_s, more_most_s, longest_s;
    uint64_t runs, overdue;
};

static bool run_seed(uint64_t seed, struct sums *sums)
{
    static struct campaign plain, campaign;

    create(&plain, seed, false);
    run(&plain);
    create(&campaign, seed, true);
    run(&campaign);
    const uint64_t usual_ns = plain.over_ns - plain.begun_ns, took_ns = campaign.over_ns - campaign.begun_ns;
    const double more_s = ((double)took_ns - (double)usual_ns) * 1e-9;
    struct sums *of = &sums[campaign.world.options.topology.kind];
    of->runs++;
    of->more_s += more_s;
    of->more_most_s = more_s > of->more_most_s ? more_s : of->more_most_s;
    of->longest_s = (double)campaign.longest_ns * 1e-9 > of->longest_s ? (double)campaign.longest_ns * 1e-9
                                                                       : of->longest_s;
    of->overdue += plain.overdue + campaign.overdue;
    if (plain.overdue)
        breaks(&plain, "a deadline passed in an undisturbed cluster");
    if (plain.longest_ns >= STALL_NS)
        breaks(&plain, "a boundary of an undisturbed cluster waited 2 s");
    if (campaign.overdue)
        breaks(&campaign, "a deadline passed for a node that lives, or was known to be dead");
    if (campaign.longest_ns >= STALL_NS)
        breaks(&campaign, "a boundary waited 2 s");
    if (took_ns > usual_ns + DEATH_NS)
        breaks(&campaign, "a death cost more than 3 s");
    const bool good = !plain.broken && !campaign.broken;
    destroy(&plain);
    destroy(&campaign);
    return good;
}

static void one_death_costs_little_on_every_graph(void **state)
{
    const uint64_t first = number("P2PML_SEED", FIRST), every = number("P2PML_EVERY", 1),
                   seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : SEEDS);
    struct sums sums[TOPOLOGY_KINDS] = {0};
    unsigned broken = 0;

    (void)state;
    printf("seeds from %llu\n", (unsigned long long)first);
    for (uint64_t i = 0; i < seeds; i++)
        broken += !run_seed(first + i * every, sums);
    for (int kind = 0; kind < TOPOLOGY_KINDS; kind++)
        if (sums[kind].runs)
            printf(
                "%-12s %4llu runs: a death cost %.2f s on average, %.2f s at most; longest boundary %.2f s\n",
                topology_kind_name((enum topology_kind)kind), (unsigned long long)sums[kind].runs,
                sums[kind].more_s / (double)sums[kind].runs, sums[kind].more_most_s, sums[kind].longest_s);
    printf("%llu seeds, %u broken\n", (unsigned long long)seeds, broken);
    assert_int_equal(broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_death_costs_little_on_every_graph)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
