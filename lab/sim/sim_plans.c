#include "lab/sim/sim_plans.h"

#include "lab/sim/sim_world.h"
#include <stdlib.h>

struct sim_plan *sim_plans_take(struct sim_world *world, const struct gossip_record *view, size_t count)
{
    uint64_t hash = gossip_plan_hash(view, count);
    struct sim_plan **bucket = &world->plans.bucket[hash % SIM_PLAN_BUCKETS], *plan = *bucket;

    while (plan && (plan->hash != hash || !gossip_plan_is_of(plan->plan, view, count)))
        plan = plan->next;
    if (!plan) {
        plan = sim_must(calloc(1, sizeof *plan));
        plan->hash = hash;
        plan->next = *bucket;
        BASE_ASSERT(!gossip_plan_create(&world->options.topology, view, count, &plan->plan));
        *bucket = plan;
    }
    plan->users++;
    return plan;
}

void sim_plans_drop(struct sim_world *world, struct sim_plan *plan)
{
    if (!plan || --plan->users > 0)
        return;
    struct sim_plan **at = &world->plans.bucket[plan->hash % SIM_PLAN_BUCKETS];
    while (*at != plan)
        at = &(*at)->next;
    *at = plan->next;
    gossip_plan_drop(plan->plan);
    free(plan);
}
