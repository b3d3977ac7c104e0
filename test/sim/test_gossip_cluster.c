// Whole nodes in virtual time, thousands of clusters from seeds: membership, sealed datagrams, streams,
// exchange, topology, snapshots and a model that learns, under all the faults that test/support/sim_fault.h
// lists. After every step the invariants of sim_check.h hold; then everything heals, and views, edges, models
// and the loss must converge.
//
// P2PML_SEEDS: how many seeds (default 1,000); P2PML_SEED: the first one, alone unless P2PML_SEEDS is given
// as well; P2PML_TRACE=1: every line of the trace.
#include "base/hash.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_check.h"
#include "test/support/sim_fault.h"
#include "test/support/sim_toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SETTLE_MS   100
#define BANNED_S    310 // GOSSIP_LINKS_BAN_MAX_NS, and some more
#define SUM_ERROR   1e-5
#define DISTANCE    5e-3
#define EXCESS_LOSS 0.05

#define FORGET_SOON_NS (5 * SIM_SECOND)

enum { SEEDS = 1000, TWICE = 5 };
enum { TURN_USUAL = 2, TURN_MOST = 8, TURN_ROUNDS = 6 }; // seconds, and rounds of learning

struct trial {
    struct sim_world world;
    struct sim_toy toy;
    struct sim_check check;
    struct sim_faults faults;
    bool gentle, liar, learnt;
    uint64_t heal_ns, agreed_ns;
    const char *why;
};

static bool chance(struct base_rng *rng, unsigned percent)
{
    return base_rng_below(rng, 100) < percent;
}

// Returns how long the local steps of a round take.
static uint64_t choose(struct base_rng *rng, uint64_t seed, struct sim_options *options)
{
    static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_BUTTERFLY, TOPOLOGY_RANDOM};
    static const float ratios[] = {0.1f, 0.25f, 1.0f};

    *options = (struct sim_options){.seed = seed, .topology = {.seed = 7, .rings = 2}, .shred = true};
    options->exchange = (struct gossip_exchange_options){.kernels = cpu_kernels(),
                                                         .drift_correction = true,
                                                         .drift_gain = 2,
                                                         .drift_limit = 0.25f,
                                                         .deadline_floor_ns = 100 * SIM_MS,
                                                         .deadline_ceiling_ns = SIM_SECOND};
    options->nodes = 3 + base_rng_below(rng, chance(rng, 10) ? 12 : 6);
    options->twins = chance(rng, 8);
    options->topology.kind = kinds[base_rng_below(rng, 3)];
    options->peer_entries = 1 + base_rng_below(rng, 3);
    options->sealed = chance(rng, 40);
    options->exchange.sync = chance(rng, 30);
    options->exchange.ratio = ratios[base_rng_below(rng, 3)];
    options->exchange.values = (enum kernels_format)base_rng_below(rng, KERNELS_FORMATS);
    uint64_t round_ns = (40 + base_rng_below(rng, 120)) * SIM_MS;
    options->life.forget_after_ns = chance(rng, 50) ? 600 * SIM_SECOND : FORGET_SOON_NS;
    options->slow_ns = 150 * SIM_MS;
    options->checkpoint_rounds = 24;
    options->profile = chance(rng, 15) ? GOSSIP_PROFILE_WAN : GOSSIP_PROFILE_LAN;
    options->life.start_members = options->nodes;
    return round_ns;
}

static void choose_network(struct base_rng *rng, struct sim_world *world)
{
    static const double losses[] = {0, 0.02, 0.1, 0.3};
    struct sim_quality *usual = &world->net.quality[0], *bad = &world->net.quality[1];
    bool far = world->options.profile == GOSSIP_PROFILE_WAN;

    usual->delay_ns =
        far ? (20 + base_rng_below(rng, 60)) * SIM_MS : (100 + base_rng_below(rng, 10000)) * 1000;
    usual->jitter_ns = base_rng_below(rng, usual->delay_ns);
    usual->loss = losses[base_rng_below(rng, 4)];
    usual->duplicate = chance(rng, 30) ? 0.1 : 0;
    usual->reorder = chance(rng, 30) ? 0.2 : 0;
    *bad = *usual;
    bad->loss = 0.3;
    world->net.port_closed_chance = chance(rng, 70) ? 1 : chance(rng, 50) ? 0.3 : 0;
}

static void start_nodes(struct trial *trial, struct base_rng *rng)
{
    struct sim_world *world = &trial->world;
    size_t slow = chance(rng, 40) ? 1 + base_rng_below(rng, 2) : 0;

    for (size_t i = 0; i < slow && i < world->options.nodes; i++)
        world->node[i]->slow = true;
    for (size_t i = 0; i < world->options.nodes; i++) {
        bool late = !trial->gentle && chance(rng, 15);
        uint64_t at_ms = 1000 + base_rng_below(rng, late ? 30000 : 1500);
        sim_fault_start_later(&trial->faults, i, at_ms * SIM_MS);
    }
    if (trial->liar)
        sim_liar_begin(world->node[world->options.nodes - 1]);
}

static void trial_create(struct trial *trial, uint64_t seed)
{
    struct sim_options options;
    struct base_rng rng;

    *trial = (struct trial){0};
    base_rng_seed_stream(&rng, seed, 0x60000);
    uint64_t round_ns = choose(&rng, seed, &options);
    trial->gentle = chance(&rng, 25);
    trial->liar = options.nodes >= 5 && chance(&rng, 12);
    if (trial->gentle)
        options.twins = 0;
    trial->heal_ns = (options.profile == GOSSIP_PROFILE_WAN ? 60 : 35) * SIM_SECOND;
    sim_toy_create(&trial->toy, &trial->world, options.nodes, options.nodes + options.twins, seed);
    sim_check_create(&trial->check, &trial->world, options.nodes, options.nodes + options.twins);
    options.local_steps = 4;
    trial->toy.rate = 0.1f;
    trial->toy.round_ns = round_ns;
    trial->check.gentle = trial->gentle;
    options.learner = &trial->toy.learner;
    options.watch = &trial->check.watch;
    sim_world_create(&trial->world, &options);
    choose_network(&rng, &trial->world);
    sim_faults_create(&trial->faults, &trial->world, trial->heal_ns, trial->gentle);
    start_nodes(trial, &rng);
    sim_faults_begin(&trial->faults, 6 * SIM_SECOND);
}

static void trial_destroy(struct trial *trial)
{
    sim_faults_destroy(&trial->faults);
    sim_world_destroy(&trial->world);
    sim_check_destroy(&trial->check);
    sim_toy_destroy(&trial->toy);
}

static bool fails(struct trial *trial, const char *why)
{
    if (!trial->why)
        trial->why = why;
    return false;
}

static bool run_for(struct trial *trial, uint64_t ns)
{
    struct sim_world *world = &trial->world;

    return sim_world_run(world, sim_world_now(world) + ns) || fails(trial, world->broken);
}

static bool run_until(struct trial *trial, uint64_t end_ns)
{
    uint64_t now_ns = sim_world_now(&trial->world);

    return now_ns >= end_ns || run_for(trial, end_ns - now_ns);
}

// Two processes have the identity of node 0.
static bool is_copied(const struct sim_world *world)
{
    return world->options.twins && world->node[0]->running && world->node[world->options.nodes]->running;
}

static uint64_t settled_ns(const struct trial *trial)
{
    return (trial->world.options.profile == GOSSIP_PROFILE_WAN ? 15 : 5) * SIM_SECOND;
}

// Views agree 5 s after healing. A node that came back at the end may hear of a dead member from one that
// does not know of the death yet, and suspects it again. Of two processes with one identity one ends within
// the same time, and the view follows.
static uint64_t patience_ns(const struct trial *trial, bool copied)
{
    bool far = trial->world.options.profile == GOSSIP_PROFILE_WAN;
    uint64_t ghosts_ns = trial->faults.n_gone ? (far ? 60 : 20) * SIM_SECOND : 0;

    return trial->heal_ns + ghosts_ns + (copied ? 2 : 1) * settled_ns(trial);
}

// Of what the nodes say in their own records: a new refutation is no change.
static uint64_t hash_of_records(const struct sim_world *world)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct sim_node *node = sim_check_process(world, i);
        struct gossip_member_info info;
        if (!node || !sim_member_info(node, i, &info))
            continue;
        const uint64_t said[] = {i, info.record->version.instance_id, info.record->flags, info.record->slot};
        hash = base_hash_bytes(hash, said, sizeof said);
    }
    return hash;
}

// A node that must first take a model counts, trains and claims a slot later than that: the views have the
// same time again from then on. All such changes are over after the same time once more.
static bool views_agree(struct trial *trial, uint64_t end_ns)
{
    struct sim_world *world = &trial->world;
    const char *what = NULL;
    uint64_t said = hash_of_records(world), said_ns = sim_world_now(world);

    while (!sim_check_agree(world, &what)) {
        const uint64_t now_ns = sim_world_now(world), hash = hash_of_records(world);
        said_ns = hash == said ? said_ns : now_ns;
        said = hash;
        if (now_ns >= end_ns &&
            (now_ns >= said_ns + settled_ns(trial) || now_ns >= end_ns + settled_ns(trial)))
            return fails(trial, what);
        if (!run_for(trial, SETTLE_MS * SIM_MS))
            return false;
    }
    return true;
}

// An edge is not live for the moments in which an answer is missing, that of a liar for as long as it is
// banned.
static bool is_connected(struct trial *trial)
{
    for (int i = 0; i < (trial->liar ? BANNED_S : 10) * 1000 / SETTLE_MS; i++) {
        if (sim_check_connected(&trial->world))
            return true;
        if (!run_for(trial, SETTLE_MS * SIM_MS))
            return false;
    }
    return fails(trial, "the graph of live edges is not connected");
}

// A node that came back too often is kept out of the graph for a while: only its own data pull it.
static bool all_count(const struct sim_world *world)
{
    bool all = true;

    for (size_t i = 0; i < world->options.nodes; i++)
        all &= sim_check_counts(world, i) || !sim_check_process(world, i);
    return all;
}

static uint64_t furthest_round(const struct sim_world *world)
{
    uint64_t furthest = 0;

    for (size_t i = 0; i < world->options.nodes; i++)
        if (world->node[i]->running && world->node[i]->train.rounds.round > furthest)
            furthest = world->node[i]->train.rounds.round;
    return furthest;
}

// Where rounds are long, as with slow nodes in sync, that time has too few of them.
static bool run_turn(struct trial *trial)
{
    uint64_t enough = furthest_round(&trial->world) + TURN_ROUNDS;

    for (int i = 0; i < TURN_MOST && (i < TURN_USUAL || furthest_round(&trial->world) < enough); i++)
        if (!run_for(trial, SIM_SECOND))
            return false;
    return true;
}

static bool learns(struct trial *trial)
{
    struct sim_world *world = &trial->world;
    struct sim_toy *toy = &trial->toy;
    float rate = toy->rate;

    if (!is_connected(trial))
        return false;
    // A node that never forgets dead members keeps their last pull, and that of excluded nodes.
    bool pulled =
        (trial->faults.n_gone && world->options.life.forget_after_ns > FORGET_SOON_NS) || !all_count(world);
    for (int i = 0; i < 10 || (i < 40 && sim_check_excess_loss(world) > EXCESS_LOSS / 2); i++) {
        toy->rate = rate / (float)(1 + i / 4); // falls, as in training
        if (!run_turn(trial))
            return false;
    }
    toy->training = false;
    if (world->options.profile == GOSSIP_PROFILE_LAN)
        toy->round_ns /= 4;
    const int seconds = world->options.profile == GOSSIP_PROFILE_LAN ? 200 : 800; // its rounds are longer
    for (int i = 0; i < seconds && sim_check_distance(world) > DISTANCE / 2; i++)
        if (!run_for(trial, SIM_SECOND))
            return false;
    if (sim_check_distance(world) > DISTANCE)
        return fails(trial, "no consensus");
    world->resting = true;
    if (!run_for(trial, 5 * SIM_SECOND))
        return false;
    if (!sim_check_edges_match(world))
        return fails(trial, "the ends of an edge differ");
    // A liar's link ends often, and an exchange that was half done then is completed over the next one.
    for (int i = 0; i < BANNED_S && trial->liar && sim_check_sum_error(world) > SUM_ERROR; i++)
        if (!run_for(trial, SIM_SECOND))
            return false;
    if (!trial->check.may_lose && sim_check_sum_error(world) > SUM_ERROR)
        return fails(trial, "the mean of the models has moved");
    world->resting = false; // at rest there is no boundary, and a node that must fetch a model waits for one
    if (!pulled && sim_check_excess_loss(world) > EXCESS_LOSS)
        return fails(trial, "the loss is not near the best");
    trial->learnt = !pulled;
    return true;
}

static bool trial_run(struct trial *trial)
{
    if (!run_for(trial, trial->heal_ns - sim_world_now(&trial->world)))
        return false;
    uint64_t patience = patience_ns(trial, is_copied(&trial->world));
    if (!views_agree(trial, patience))
        return false;
    trial->agreed_ns = sim_world_now(&trial->world);
    if (is_copied(&trial->world) && !(run_until(trial, patience) && !is_copied(&trial->world)))
        return fails(trial, "two processes with one identity are still running");
    return learns(trial) && views_agree(trial, sim_world_now(&trial->world) + 5 * SIM_SECOND);
}

static void report(const struct trial *trial)
{
    const struct sim_options *options = &trial->world.options;

    sim_trace_dump(&trial->world.trace, stdout);
    sim_check_describe(&trial->world, stdout);
    printf("seed %llu broke at %.6f s, node %zu: %s\n", (unsigned long long)options->seed,
           (double)trial->world.queue.now_ns * 1e-9, trial->world.broken_host, trial->why);
    printf("  %zu nodes, %s, %s, %s, %s%s%s, loss %.2f, delay %.1f ms, healed at %.0f s; distance %.2g, "
           "excess loss %.2g, sum error %.2g, pull %.2g\n",
           options->nodes, topology_kind_name(options->topology.kind), options->sealed ? "sealed" : "plain",
           options->exchange.sync ? "sync" : "async", trial->gentle ? "gentle" : "rough",
           trial->liar ? ", a liar" : "", options->twins ? ", a twin" : "", trial->world.net.quality[0].loss,
           (double)trial->world.net.quality[0].delay_ns * 1e-6, (double)trial->heal_ns * 1e-9,
           sim_check_distance(&trial->world), sim_check_excess_loss(&trial->world),
           sim_check_sum_error(&trial->world), sim_check_pull(&trial->world));
    printf("replay: P2PML_SEED=%llu P2PML_TRACE=1 build/release/bin/test_gossip_cluster\n",
           (unsigned long long)options->seed);
}

struct sums {
    uint64_t seeds, broken, kept, learnt, steps, deaths, false_deaths, conflicts, raised_generations, fetches,
        resumed, lies;
    uint64_t hash; // of all traces
    double agreed_s, agreed_most_s;
};

static void add(struct sums *sums, const struct trial *trial)
{
    const struct sim_counts *counts = &trial->world.counts;
    double agreed_s = ((double)trial->agreed_ns - (double)trial->heal_ns) * 1e-9;

    sums->seeds++;
    sums->hash = base_hash_mix(sums->hash ^ trial->world.trace.hash);
    sums->broken += trial->why != NULL;
    sums->kept += !trial->check.may_lose;
    sums->learnt += trial->learnt;
    sums->steps += counts->steps;
    sums->deaths += trial->check.deaths;
    sums->false_deaths += trial->check.false_deaths;
    sums->lies += trial->check.false_deltas;
    sums->conflicts += counts->conflicts;
    sums->raised_generations += counts->raised_generations;
    sums->fetches += counts->fetches;
    sums->resumed += counts->resumed;
    if (trial->why)
        return;
    sums->agreed_s += agreed_s;
    sums->agreed_most_s = agreed_s > sums->agreed_most_s ? agreed_s : sums->agreed_most_s;
}

static uint64_t run_seed(uint64_t seed, bool verbose, struct sums *sums)
{
    static struct trial trial;

    trial_create(&trial, seed);
    trial.world.trace.verbose = verbose;
    if (!trial_run(&trial))
        report(&trial);
    add(sums, &trial);
    uint64_t hash = trial.world.trace.hash;
    trial_destroy(&trial);
    return hash;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

static void test_a_cluster_heals_after_any_faults(void **state)
{
    uint64_t first = number("P2PML_SEED", 1), seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : SEEDS);
    struct sums sums = {0};

    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++)
        run_seed(seed, getenv("P2PML_TRACE") != NULL, &sums);
    printf(
        "%llu seeds, %llu broken; %llu steps, %llu deaths, %llu fetched, "
        "%llu resumed, %llu generations "
        "raised, "
        "%llu conflicts, %llu false deltas; views agreed %.2f s after healing on average, %.2f s at most; %llu lost no "
        "memory, %llu came near the best loss; traces %016llx\n",
        (unsigned long long)sums.seeds, (unsigned long long)sums.broken, (unsigned long long)sums.steps,
        (unsigned long long)sums.deaths, (unsigned long long)sums.fetches, (unsigned long long)sums.resumed,
        (unsigned long long)sums.raised_generations, (unsigned long long)sums.conflicts,
        (unsigned long long)sums.lies, sums.agreed_s / (double)(sums.seeds - sums.broken + !sums.seeds),
        sums.agreed_most_s, (unsigned long long)sums.kept, (unsigned long long)sums.learnt,
        (unsigned long long)sums.hash);
    assert_int_equal(sums.broken, 0);
}

static void test_a_seed_has_one_trace(void **state)
{
    struct sums sums = {0};

    (void)state;
    uint64_t first = number("P2PML_SEED", 1000001), seeds = getenv("P2PML_SEED") ? 1 : TWICE;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        uint64_t hash = run_seed(seed, false, &sums);
        assert_true(run_seed(seed, false, &sums) == hash);
    }
    assert_int_equal(sums.broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_cluster_heals_after_any_faults),
                                       cmocka_unit_test(test_a_seed_has_one_trace)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
