// The learner of simulated test clusters: the toy model of sim_model.h as a struct sim_learner, with sums of
// what went into all models, so that a loss is detected.
#ifndef TEST_SUPPORT_SIM_TOY_H
#define TEST_SUPPORT_SIM_TOY_H

#include "lab/sim/sim_world.h"
#include "test/support/sim_model.h"

struct sim_toy {
    struct sim_learner learner; // owned
    struct sim_world *world;
    struct sim_model model;
    float start[SIM_PARAMETERS];
    double given[SIM_PARAMETERS]; // sum of what trainers and joiners put into models
    struct sim_trainer {
        float x[SIM_PARAMETERS], correction[SIM_PARAMETERS];
        uint64_t steps; // of the current round
    } * sim_trainer;    // [hosts]
    bool training;      // else rounds only average
    float rate;
    uint64_t round_ns; // of local steps
};

// Call this before the world is created: the world takes &toy->learner.
void sim_toy_create(struct sim_toy *toy, struct sim_world *world, size_t nodes, size_t hosts, uint64_t seed);
void sim_toy_destroy(struct sim_toy *toy);
struct sim_toy *sim_toy_of(const struct sim_world *world);

#endif
