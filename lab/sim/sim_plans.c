#include "lab/sim/sim_plans.h"

#include "base/hash.h"
#include "lab/sim/sim_world.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const struct gossip_record *view, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, view[i].id.bytes, sizeof word);
        hash += base_hash_mix(word ^ ((uint64_t)view[i].slot << 32 | view[i].group));
    }
    return hash;
}

static bool is_of(const struct sim_plan *plan, const struct gossip_record *view, size_t count)
{
    if (plan->count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct topology_member *member = &plan->member[i];
        if (member->slot != view[i].slot || member->group != view[i].group ||
            memcmp(member->id, view[i].id.bytes, sizeof member->id) != 0)
            return false;
    }
    return true;
}

static struct sim_plan *make(struct sim_world *world, const struct gossip_record *view, size_t count)
{
    struct sim_plan *plan = sim_must(calloc(1, sizeof *plan));

    plan->count = count;
    plan->member = sim_must(calloc(count + 1, sizeof *plan->member));
    plan->identity = sim_must(calloc(count + 1, sizeof *plan->identity));
    for (size_t i = 0; i < count; i++) {
        struct topology_member *member = &plan->member[i];
        memcpy(member->name, view[i].name, sizeof member->name);
        memcpy(member->id, view[i].id.bytes, sizeof member->id);
        member->slot = view[i].slot;
        member->group = view[i].group;
        plan->identity[i] = sim_world_find(world, &view[i].id);
    }
    BASE_ASSERT(topology_plan_create(&world->options.topology, plan->member, count, &plan->plan) == BASE_OK);
    return plan;
}

struct sim_plan *sim_plans_take(struct sim_world *world, const struct gossip_record *view, size_t count)
{
    uint64_t hash = hash_of(view, count);
    struct sim_plan **bucket = &world->plans.bucket[hash % SIM_PLAN_BUCKETS], *plan = *bucket;

    while (plan && (plan->hash != hash || !is_of(plan, view, count)))
        plan = plan->next;
    if (!plan) {
        plan = make(world, view, count);
        plan->hash = hash;
        plan->next = *bucket;
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
    topology_plan_destroy(plan->plan);
    free(plan->member);
    free(plan->identity);
    free(plan);
}

size_t sim_plan_position(const struct sim_plan *plan, const struct gossip_id *id)
{
    size_t low = 0, high = plan->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(plan->member[middle].id, id->bytes, sizeof id->bytes);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}
