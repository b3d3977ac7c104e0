// Stop and resume, on every kind of graph, in every mode, with every optimiser: all nodes of a cluster are
// told to stop within 200 ms, start again in any order within 5 s, and some are killed while they wait for
// the others. In sync, a cluster that was stopped has the bits of one that was not. In every mode the sum of
// the models stays what the trainers made of it, no edge begins again, and nobody fetches a model.
//
// P2PML_SEED: the first one (default 1), P2PML_SEEDS: how many (default 48); P2PML_EVERY: the distance
// between two (odd seeds are sync, even ones async or bounded); P2PML_TRACE=1.
#include "base/hash.h"
#include "test/support/stop_cluster.h"
#include "topology/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 1, SEEDS = 48, STOPS_MAX = 4, TEXT_BYTES = 1 << 12 };
enum { ROUNDS_OF_A_STOP = 250 }; // at most, so that a stop does not meet the end

#define APART_NS   (200 * SIM_MS)   // two orders to stop
#define STARTS_NS  (5 * SIM_SECOND) // within these, all start
#define REST_NS    (2 * SIM_SECOND) // in which all messages arrive
#define GIVE_UP_NS (120 * SIM_SECOND)
#define SUM_ERROR  1e-5

enum mode { SYNC, ASYNC, BOUNDED, MODES };
static const char *const modes[MODES] = {"sync", "async", "bounded"};

enum optimizer { SGD, SGD_PROXIMAL, SGD_AND_OUTER, ADAMW, ADAMW_SHARED, LION, OPTIMIZERS };
static const char *const optimizers[OPTIMIZERS] = {
    "sgd", "sgd, momentum and proximal", "sgd and outer", "adamw", "adamw, shared", "lion"};

struct course {
    struct stop_cluster cluster;
    struct topology_graph *graph;
    uint32_t group[STOP_NODES];
    enum mode mode;
    enum optimizer optimizer;
    struct base_rng rng; // what happens when
    unsigned stops, done;
    bool kills_all; // one of the stops is a kill -9 of all: what they did since their checkpoints is lost
    bool starts_apart, kills_early;
    bool broken;
};

static void breaks(struct course *course, const char *what)
{
    const struct sim_options *o = &course->cluster.world.options;

    if (course->broken)
        return;
    course->broken = true;
    printf("seed %llu: %s (%zu nodes, %s, %s, %s%s, ratio %.2f, stop %u of %u%s%s%s; at %.3f s)\n",
           (unsigned long long)o->seed, what, o->nodes, topology_kind_name(o->topology.kind),
           modes[course->mode], optimizers[course->optimizer],
           o->exchange.drift_correction ? ", drift correction" : "", (double)o->exchange.ratio, course->done,
           course->stops, course->kills_all ? ", kills all" : "",
           course->starts_apart ? ", starts apart" : "", course->kills_early ? ", early kills" : "",
           (double)sim_world_now(&course->cluster.world) * 1e-9);
    printf("  replay: P2PML_SEED=%llu P2PML_TRACE=1 test_gossip_stop\n", (unsigned long long)o->seed);
}

// -- choices of the seed

static struct topology_graph *any_graph(struct base_rng *rng, size_t nodes)
{
    static char text[TEXT_BYTES];
    struct topology_graph *graph;
    struct base_reason why;
    size_t bytes = 0;

    for (size_t i = 0; i + 1 < nodes; i++) // a tree, and some more
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "node-%02zu node-%02zu\n",
                                  (size_t)base_rng_below(rng, i + 1), i + 1);
    assert_int_equal(topology_graph_read("tree", text, bytes, NULL, 0, &graph, &why), BASE_OK);
    return graph;
}

static struct train_options choose_optimizer(struct course *course)
{
    struct train_options options = {.optimizer = TRAIN_SGD, .rate = 0.05, .batch = 7, .seed = 5};

    switch (course->optimizer) {
    case SGD_PROXIMAL:
        options.momentum = 0.8;
        options.proximal = 0.3;
        break;
    case ADAMW:
    case ADAMW_SHARED:
        options.optimizer = TRAIN_ADAMW;
        options.rate = 0.01;
        options.beta1 = 0.9;
        options.beta2 = 0.99;
        options.epsilon = 1e-8;
        break;
    case LION:
        options.optimizer = TRAIN_LION;
        options.rate = 0.002;
        options.beta1 = 0.9;
        options.beta2 = 0.99;
        break;
    default:
        break;
    }
    return options;
}

static struct gossip_exchange_options choose_exchange(struct course *course, struct base_rng *rng)
{
    static const float ratios[] = {0.05f, 0.1f, 0.25f, 0.5f};
    const bool outer = course->optimizer == SGD_AND_OUTER; // adds nothing to the correction

    return (struct gossip_exchange_options){.ratio = ratios[base_rng_below(rng, 4)],
                                            .values = base_rng_below(rng, 2) ? KERNELS_INT8 : KERNELS_FP32,
                                            .sync = course->mode == SYNC,
                                            .bounded = course->mode == BOUNDED,
                                            .max_delay = 4,
                                            .drift_correction = base_rng_below(rng, 4) > 0 && !outer,
                                            .drift_gain = 2,
                                            .drift_limit = 0.25f,
                                            .on_death = GOSSIP_ON_DEATH_FADE,
                                            .fade_rounds = 150,
                                            .share_second_moment = course->optimizer == ADAMW_SHARED ? 5 : 0,
                                            .reference_bf16 = base_rng_below(rng, 4) == 0,
                                            .deadline_floor_ns = SIM_SECOND,
                                            .deadline_ceiling_ns = 10 * SIM_SECOND};
}

static void choose_times(struct course *course, struct base_rng *rng)
{
    struct stop_cluster *cluster = &course->cluster;
    const size_t nodes = cluster->world.options.nodes;
    const uint64_t round_ns = (5 + base_rng_below(rng, 20)) * SIM_MS;
    const uint64_t delay_ns = (100 + base_rng_below(rng, 5000)) * 1000;

    for (size_t i = 0; i < nodes; i++)
        cluster->round_ns[i] = round_ns + base_rng_below(rng, round_ns / 2);
    if (base_rng_below(rng, 4) == 0)
        cluster->round_ns[base_rng_below(rng, nodes)] *= 4;
    cluster->slow_rounds = base_rng_below(rng, 4) ? 0 : base_rng_below(rng, 4);
    cluster->world.net.quality[0] = (struct sim_quality){.delay_ns = delay_ns, .jitter_ns = delay_ns / 4};
    cluster->world.net.port_closed_chance = 1;
    cluster->world.trace.verbose = getenv("P2PML_TRACE") != NULL;
}

static void create(struct course *course, uint64_t seed)
{
    struct base_rng rng;

    base_rng_seed_stream(&rng, seed, 0x50000);
    const enum topology_kind kind = (enum topology_kind)(seed / 2 % TOPOLOGY_KINDS);
    const size_t nodes = 2 + base_rng_below(&rng, STOP_NODES - 1);
    course->mode = seed % 2 ? SYNC : seed / (2 * TOPOLOGY_KINDS) % 2 ? ASYNC : BOUNDED;
    course->optimizer = (enum optimizer)base_rng_below(&rng, OPTIMIZERS);
    course->graph = kind == TOPOLOGY_FILE ? any_graph(&rng, nodes) : NULL;
    course->stops = 1 + (unsigned)base_rng_below(&rng, STOPS_MAX);
    course->kills_all = base_rng_below(&rng, 8) == 0;
    course->starts_apart = base_rng_below(&rng, 4) > 0;
    course->kills_early = base_rng_below(&rng, 4) == 0;
    course->done = 0;
    course->broken = false;
    for (size_t i = 0; i < nodes; i++)
        course->group[i] = (uint32_t)(i / 3);
    const struct train_options train = choose_optimizer(course);
    const struct sim_options options = {
        .seed = seed,
        .nodes = nodes,
        .topology = {.kind = kind,
                     .seed = seed,
                     .rings = 1 + (unsigned)base_rng_below(&rng, 3),
                     .base_k = 1,
                     .graph = course->graph},
        .group = course->group,
        .peer_entries = 2,
        .checkpoint_ns = base_rng_below(&rng, 2) ? 100 * SIM_MS : 2 * SIM_SECOND,
        .life = {.start_members = nodes, .linger_ns = 10 * SIM_SECOND, .forget_after_ns = 600 * SIM_SECOND},
        .exchange = choose_exchange(course, &rng)};
    stop_cluster_create(&course->cluster, &options, &train, course->optimizer == SGD_AND_OUTER ? 0.4 : 0);
    choose_times(course, &rng);
    base_rng_seed_stream(&course->rng, seed, 0x60000);
}

static void destroy(struct course *course)
{
    stop_cluster_destroy(&course->cluster);
    topology_graph_destroy(course->graph);
}

// -- what happens

enum deed { START, KILL, LEAVE };
struct event {
    uint64_t at_ns;
    size_t host;
    enum deed deed;
};
struct events { // in the order of their times
    struct event list[3 * STOP_NODES];
    size_t count;
};

static void add(struct events *events, uint64_t at_ns, size_t host, enum deed deed)
{
    size_t at = events->count++;

    for (; at > 0 && events->list[at - 1].at_ns > at_ns; at--)
        events->list[at] = events->list[at - 1];
    events->list[at] = (struct event){at_ns, host, deed};
}

static void carry_out(struct course *course, const struct events *events)
{
    struct stop_cluster *cluster = &course->cluster;
    const uint64_t begun_ns = sim_world_now(&cluster->world);

    for (size_t i = 0; i < events->count; i++) {
        struct sim_node *node = cluster->world.node[events->list[i].host];
        const uint64_t passed_ns = sim_world_now(&cluster->world) - begun_ns;
        if (events->list[i].at_ns > passed_ns)
            stop_cluster_run(cluster, events->list[i].at_ns - passed_ns);
        if (events->list[i].deed == START)
            sim_node_start(node);
        else if (node->running && events->list[i].deed == KILL)
            sim_node_kill(node, false);
        else if (node->running)
            sim_node_leave(node);
    }
}

// The last one comes at once, at the end: before it nobody takes a step.
static void start_all(struct course *course)
{
    const size_t nodes = course->cluster.world.options.nodes;
    const uint64_t apart_ns = course->starts_apart ? base_rng_below(&course->rng, STARTS_NS) : 0;
    const size_t last = base_rng_below(&course->rng, nodes);
    struct events events = {0};

    for (size_t i = 0; i < nodes; i++) {
        const uint64_t at_ns = i == last ? apart_ns : base_rng_below(&course->rng, apart_ns + 1);
        const uint64_t left_ns = apart_ns - at_ns;
        add(&events, at_ns, i, START);
        if (!course->kills_early || left_ns < SIM_MS || base_rng_below(&course->rng, 2))
            continue;
        const uint64_t killed_ns = 1 + base_rng_below(&course->rng, left_ns - 1);
        add(&events, at_ns + killed_ns, i, KILL);
        add(&events, at_ns + killed_ns + base_rng_below(&course->rng, left_ns - killed_ns) + 1, i, START);
    }
    carry_out(course, &events);
}

static void end_all(struct course *course, enum deed deed)
{
    const size_t nodes = course->cluster.world.options.nodes;
    const uint64_t apart_ns = base_rng_below(&course->rng, 4) ? base_rng_below(&course->rng, APART_NS) : 0;
    struct events events = {0};

    for (size_t i = 0; i < nodes; i++)
        add(&events, base_rng_below(&course->rng, apart_ns + 1), i, deed);
    carry_out(course, &events);
    if (!stop_cluster_run_out(&course->cluster, GIVE_UP_NS))
        breaks(course, "a node does not stop");
}

static uint64_t furthest(const struct course *course)
{
    uint64_t most = 0;

    for (size_t i = 0; i < course->cluster.world.options.nodes; i++) {
        const uint64_t round = course->cluster.world.node[i]->train.rounds.round;
        most = round > most ? round : most;
    }
    return most;
}

static void check_sum(struct course *course)
{
    struct stop_cluster *cluster = &course->cluster;

    if (course->kills_all && course->done > 0) // the lost steps are in the account
        return;
    cluster->world.resting = true;
    stop_cluster_run(cluster, REST_NS);
    const double error = stop_cluster_sum_error(cluster);
    cluster->world.resting = false;
    if (error > SUM_ERROR) {
        printf("  the sum is off by %.2g a node\n", error);
        breaks(course, "the sum of the models has changed");
    }
}

static void check_stop(struct course *course)
{
    const struct sim_world *world = &course->cluster.world;

    for (size_t i = 1; i < world->options.nodes && course->mode == SYNC; i++)
        if (world->node[i]->disk.latest.round != world->node[0]->disk.latest.round)
            breaks(course, "the nodes have stopped at different rounds");
}

static void check(struct course *course)
{
    const struct stop_cluster *cluster = &course->cluster;

    if (cluster->resyncs > 0) {
        printf("  node %zu at %.3f s\n", cluster->resync_host, (double)cluster->resync_ns * 1e-9);
        breaks(course, "an edge has begun again");
    }
    if (cluster->world.counts.fetches > 0)
        breaks(course, "a node has fetched a model");
}

// Until all have trained for some rounds; false: too near to the end.
static bool train(struct course *course)
{
    struct stop_cluster *cluster = &course->cluster;
    const uint64_t trained = 1 + base_rng_below(&course->rng, 20),
                   until_ns = sim_world_now(&cluster->world) + GIVE_UP_NS;

    while (!stop_cluster_trained(cluster, trained) && stop_cluster_runs(cluster) &&
           sim_world_now(&cluster->world) < until_ns)
        stop_cluster_run(cluster, SIM_MS);
    if (!stop_cluster_trained(cluster, trained))
        breaks(course, "a node does not train");
    stop_cluster_run(cluster, base_rng_below(&course->rng, 30) * SIM_MS);
    return !course->broken && furthest(course) + ROUNDS_OF_A_STOP < STOP_ROUNDS;
}

static void run(struct course *course, bool undisturbed)
{
    start_all(course);
    while (!undisturbed && course->done < course->stops && train(course)) {
        check_sum(course);
        course->done++;
        const bool kills = course->kills_all && course->done == 1;
        end_all(course, kills ? KILL : LEAVE);
        if (!kills)
            check_stop(course);
        start_all(course);
        check(course);
    }
    if (!undisturbed && train(course))
        check_sum(course);
    if (!course->broken && !stop_cluster_run_out(&course->cluster, 10 * GIVE_UP_NS))
        breaks(course, "the training does not end");
    check(course);
    for (size_t i = 0; i < course->cluster.world.options.nodes; i++)
        if (!course->cluster.trainer[i].finished)
            breaks(course, "a node has not done its last step");
}

// -- seeds

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

static void compare(struct course *course)
{
    static struct course plain;
    size_t host;

    create(&plain, course->cluster.world.options.seed);
    run(&plain, true);
    const uint64_t round = stop_cluster_differs(&plain.cluster, &course->cluster, &host);
    if (round > 0 && !plain.broken && !course->broken) {
        printf("  node %zu has another state after round %llu\n", host, (unsigned long long)round);
        breaks(course, "other bits than without a stop");
    }
    if (plain.broken)
        breaks(course, "the undisturbed run breaks");
    destroy(&plain);
}

struct sums {
    unsigned runs, broken, stops, same;
};

static void run_seed(uint64_t seed, struct sums sums[MODES])
{
    static struct course course;

    create(&course, seed);
    run(&course, false);
    const bool same = course.mode == SYNC && !(course.kills_all && course.done > 0);
    if (same && !course.broken)
        compare(&course);
    struct sums *of = &sums[course.mode];
    of->runs++;
    of->broken += course.broken;
    of->stops += course.done;
    of->same += same && !course.broken;
    destroy(&course);
}

static void a_stop_changes_nothing(void **state)
{
    const uint64_t first = number("P2PML_SEED", FIRST), every = number("P2PML_EVERY", 1),
                   seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : SEEDS);
    struct sums sums[MODES] = {0};
    unsigned broken = 0;

    (void)state;
    printf("seeds from %llu\n", (unsigned long long)first);
    for (uint64_t i = 0; i < seeds; i++)
        run_seed(first + i * every, sums);
    for (int mode = 0; mode < MODES; mode++) {
        printf("%-7s %4u runs with %u stops: %u broken, %u have the bits of the undisturbed run\n",
               modes[mode], sums[mode].runs, sums[mode].stops, sums[mode].broken, sums[mode].same);
        broken += sums[mode].broken;
    }
    assert_int_equal(broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stop_changes_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
