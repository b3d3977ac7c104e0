#include "test/support/sim_toy.h"

#include "lab/sim/sim_node.h"
#include <stdlib.h>
#include <string.h>

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct sim_toy *toy = owner;
    struct sim_trainer *sim_trainer = &toy->sim_trainer[host];

    *sim_trainer = (struct sim_trainer){0};
    memcpy(sim_trainer->x, toy->start, sizeof sim_trainer->x);
    *vectors =
        (struct gossip_learner_vectors){.model = sim_trainer->x, .correction = sim_trainer->correction};
}

static void ready(void *owner, size_t host, enum sim_origin origin)
{
    struct sim_toy *toy = owner;

    (void)origin;
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        toy->given[j] += (double)toy->sim_trainer[host].x[j] - (double)toy->start[j];
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct sim_toy *toy = owner;

    (void)pace;
    toy->sim_trainer[host].steps = count;
    return toy->round_ns * (toy->world->node[host]->slow ? 4 : 1);
}

static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct sim_toy *toy = owner;
    struct sim_trainer *sim_trainer = &toy->sim_trainer[host];
    struct sim_node *node = toy->world->node[host];
    float before[SIM_PARAMETERS];

    memcpy(before, sim_trainer->x, sizeof before);
    for (uint64_t i = 0; toy->training && i < sim_trainer->steps; i++)
        sim_model_step(&toy->model, node->self, &node->rng, toy->rate, sim_trainer->correction,
                       sim_trainer->x);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        toy->given[j] += (double)sim_trainer->x[j] - (double)before[j];
    *did = (struct gossip_learner_steps){.step = node->train.rounds.step + sim_trainer->steps,
                                         .step_scale = toy->rate * (float)sim_trainer->steps};
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    (void)owner, (void)host, (void)change, (void)step; // it has no state besides the vectors
}

static void end(void *owner, size_t host)
{
    (void)owner, (void)host;
}

void sim_toy_create(struct sim_toy *toy, struct sim_world *world, size_t nodes, size_t hosts, uint64_t seed)
{
    struct base_rng rng;

    *toy = (struct sim_toy){.world = world, .training = true};
    base_rng_seed_stream(&rng, seed, 0x40000);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        toy->start[j] = 0.1f * (float)base_rng_normal(&rng);
    sim_model_create(&toy->model, nodes, seed);
    toy->sim_trainer = sim_must(calloc(hosts, sizeof *toy->sim_trainer));
    toy->learner = (struct sim_learner){.learner = {.owner = toy,
                                                    .parameters = SIM_PARAMETERS,
                                                    .begin = begin,
                                                    .steps = steps,
                                                    .boundary = boundary,
                                                    .adopt = adopt,
                                                    .end = end},
                                        .start = toy->start,
                                        .ready = ready};
}

void sim_toy_destroy(struct sim_toy *toy)
{
    sim_model_destroy(&toy->model);
    free(toy->sim_trainer);
}

struct sim_toy *sim_toy_of(const struct sim_world *world)
{
    return world->options.learner->learner.owner;
}
