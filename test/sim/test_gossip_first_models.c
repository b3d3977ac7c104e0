// Nodes whose programs made different first weights start together: the cluster begins from one of them.
// P2PML_SEED: the first seed, P2PML_SEEDS: how many.
#include "lab/sim/sim_node.h"
#include "test/support/cpu_kernels.h"
#include "test/support/sim_toy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES_MAX = 8, SEEDS = 40 };

static struct sim_world world;
static struct sim_toy toy;
static uint64_t first_models[NODES_MAX];
static void (*toy_begin)(void *owner, size_t host, struct gossip_learner_vectors *vectors);

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);

    return given ? strtoull(given, NULL, 10) : otherwise;
}

// Every parameter is the digest, a power of two: the mean of two different ones is not a digest.
static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    toy_begin(owner, host, vectors);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        vectors->model[j] = (float)first_models[world.node[host]->self];
}

static void build(uint64_t seed)
{
    struct base_rng rng;
    struct sim_options options = {
        .seed = seed, .topology = {.kind = TOPOLOGY_RING, .seed = 7}, .first_models = first_models};

    base_rng_seed_stream(&rng, seed, 0x72000);
    options.nodes = 2 + base_rng_below(&rng, NODES_MAX - 1);
    const uint64_t kinds = 1 + base_rng_below(&rng, options.nodes); // of first weights
    for (size_t i = 0; i < options.nodes; i++)
        first_models[i] = 1ull << base_rng_below(&rng, kinds);
    options.peer_entries = options.nodes - 1;
    options.life.start_members =
        options.nodes; // the lists have only some nodes: two may begin that do not wait for each other
    options.life.forget_after_ns = 600 * SIM_SECOND;
    options.exchange = (struct gossip_exchange_options){.kernels = cpu_kernels(),
                                                        .ratio = 0.25f,
                                                        .sync = base_rng_below(&rng, 2),
                                                        .deadline_floor_ns = 100 * SIM_MS,
                                                        .deadline_ceiling_ns = SIM_SECOND};
    sim_toy_create(&toy, &world, options.nodes, options.nodes, seed);
    toy_begin = toy.learner.learner.begin;
    toy.learner.learner.begin = begin;
    toy.training = false; // a difference later was a difference at the start
    toy.round_ns = 100 * SIM_MS;
    options.learner = &toy.learner;
    sim_world_create(&world, &options);
    world.trace.verbose = getenv("P2PML_TRACE") != NULL;
    world.net.quality[0] = (struct sim_quality){
        .delay_ns = (1 + base_rng_below(&rng, 100)) * SIM_MS, .jitter_ns = SIM_MS, .loss = 0.02};
}

static bool all_train(void)
{
    for (size_t i = 0; i < world.options.nodes; i++)
        if (gossip_life_state(world.node[i]->life.rules) != GOSSIP_LIFE_TRAINING)
            return false;
    return true;
}

// All have the first model of the same node.
static bool agree(void)
{
    const float first = toy.sim_trainer[0].x[0];
    bool known = false;

    for (size_t i = 0; i < world.options.nodes; i++) {
        known |= (float)first_models[i] == first;
        for (size_t j = 0; j < SIM_PARAMETERS; j++)
            if (toy.sim_trainer[i].x[j] != first)
                return false;
    }
    return known;
}

// What is wrong with the seed; NULL: nothing.
static const char *start_together(uint64_t seed)
{
    const char *wrong = NULL;

    build(seed);
    for (size_t i = 0; i < world.options.nodes; i++)
        sim_node_start(world.node[i]);
    while (!world.broken && !all_train() && sim_world_now(&world) < 60 * SIM_SECOND)
        (void)sim_world_run(&world, sim_world_now(&world) + 100 * SIM_MS);
    if (world.broken || !all_train())
        wrong = world.broken ? world.broken : "not all nodes train within a minute";
    else if (sim_world_now(&world) > 9 * SIM_SECOND) // the start_timeout is 10 s
        wrong = "the nodes waited until start_timeout";
    if (!wrong && !sim_world_run(&world, sim_world_now(&world) + 5 * SIM_SECOND))
        wrong = world.broken;
    if (!wrong && !agree())
        wrong = "the models are not one of the first models";
    if (wrong)
        printf("seed %llu, %zu nodes: %s\n", (unsigned long long)seed, world.options.nodes, wrong);
    sim_world_destroy(&world);
    sim_toy_destroy(&toy);
    return wrong;
}

static void test_the_cluster_begins_from_one_model(void **state)
{
    const uint64_t from = number("P2PML_SEED", 1),
                   seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : SEEDS);
    size_t wrong = 0;

    (void)state;
    for (uint64_t seed = from; seed < from + seeds; seed++)
        wrong += start_together(seed) != NULL;
    printf("%llu seeds from %llu, %zu wrong\n", (unsigned long long)seeds, (unsigned long long)from, wrong);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_cluster_begins_from_one_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
