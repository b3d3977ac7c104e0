// Plans of views. Nearly all processes of a simulation hold the same view most of the time, so they share one
// plan of it: a plan is a pure function of its members. One owner.
#ifndef LAB_SIM_PLANS_H
#define LAB_SIM_PLANS_H

#include "gossip/graph/graph.h"

enum { SIM_PLAN_BUCKETS = 256 };

struct sim_plan {
    struct sim_plan *next; // in the same bucket
    uint64_t hash;
    size_t users;
    struct gossip_plan *plan;
};

struct sim_plans {
    struct sim_plan *bucket[SIM_PLAN_BUCKETS];
};

struct sim_world;
// The plan of a view, created if no process has it yet; each call needs one sim_plans_drop.
struct sim_plan *sim_plans_take(struct sim_world *world, const struct gossip_record *view, size_t count);
void sim_plans_drop(struct sim_world *world, struct sim_plan *plan); // NULL is fine

#endif
