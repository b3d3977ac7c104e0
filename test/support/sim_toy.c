#include "test/support/sim_toy.h"

#include "lab/sim/sim_node.h"
#include <stdlib.h>
#include <string.h>

static void begin(void *owner, size_t host, struct sim_vectors *vectors)
{
    struct sim_toy *toy = owner;
    struct sim_pupil *pupil = &toy->pupil[host];

    *pupil = (struct sim_pupil){0};
    memcpy(pupil->x, toy->start, sizeof pupil->x);
    *vectors = (struct sim_vectors){.model = pupil->x, .correction = pupil->correction};
}

static void ready(void *owner, size_t host, enum sim_origin origin, uint64_t round, uint64_t step)
{
    struct sim_toy *toy = owner;

    (void)origin, (void)round, (void)step;
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        toy->given[j] += (double)toy->pupil[host].x[j] - (double)toy->start[j];
}

static uint64_t steps(void *owner, size_t host, uint64_t round, double pace)
{
    struct sim_toy *toy = owner;

    (void)round, (void)pace;
    return toy->round_ns * (toy->world->node[host]->slow ? 4 : 1);
}

static void collect(void *owner, size_t host, uint64_t round, struct sim_steps *did)
{
    struct sim_toy *toy = owner;
    struct sim_pupil *pupil = &toy->pupil[host];
    struct sim_node *node = toy->world->node[host];
    float before[SIM_PARAMETERS];

    memcpy(before, pupil->x, sizeof before);
    for (unsigned i = 0; toy->training && i < toy->local_steps; i++)
        sim_model_step(&toy->model, node->self, &node->rng, toy->rate, pupil->correction, pupil->x);
    for (size_t j = 0; j < SIM_PARAMETERS; j++)
        toy->given[j] += (double)pupil->x[j] - (double)before[j];
    *did = (struct sim_steps){.step = round * toy->local_steps,
                              .step_scale = toy->rate * (float)toy->local_steps};
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
    toy->pupil = sim_must(calloc(hosts, sizeof *toy->pupil));
    toy->learner = (struct sim_learner){.owner = toy,
                                        .parameters = SIM_PARAMETERS,
                                        .start = toy->start,
                                        .begin = begin,
                                        .ready = ready,
                                        .steps = steps,
                                        .collect = collect,
                                        .end = end};
}

void sim_toy_destroy(struct sim_toy *toy)
{
    sim_model_destroy(&toy->model);
    free(toy->pupil);
}

struct sim_toy *sim_toy_of(const struct sim_world *world)
{
    return world->options.learner->owner;
}
