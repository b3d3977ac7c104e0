// The plan of a view.
#include "gossip/graph/graph_private.h"

#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(GOSSIP_NO_SLOT == TOPOLOGY_NO_SLOT, "slots are passed on as they are");
_Static_assert((int)GOSSIP_ACCESS_USUAL == (int)TOPOLOGY_USUAL &&
                   (int)GOSSIP_ACCESS_OPEN == (int)TOPOLOGY_OPEN &&
                   (int)GOSSIP_ACCESS_HARD == (int)TOPOLOGY_HARD,
               "so is access");

static struct topology_member as_member(const struct gossip_record *record)
{
    struct topology_member member = {
        .slot = record->slot, .group = record->group, .access = (enum topology_access)record->access};

    memcpy(member.name, record->name, sizeof member.name);
    memcpy(member.id, record->id.bytes, sizeof member.id);
    return member;
}

static bool ascends(const struct gossip_record *view, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (gossip_id_compare(&view[i - 1].id, &view[i].id) >= 0)
            return false;
    return true;
}

enum base_error gossip_plan_create(const struct topology_options *options, const struct gossip_record *view,
                                   size_t count, struct gossip_plan **plan)
{
    if (count > TOPOLOGY_MEMBERS_MAX || !ascends(view, count))
        return BASE_EINVAL;
    struct gossip_plan *fresh = calloc(1, sizeof *fresh + count * sizeof *fresh->member);
    if (!fresh)
        return BASE_ENOMEM;
    atomic_init(&fresh->uses, 1);
    fresh->count = count;
    BASE_ASSERT(count <= TOPOLOGY_MEMBERS_MAX);
    for (size_t i = 0; i < count; i++)
        fresh->member[i] = as_member(&view[i]);
    enum base_error error = topology_plan_create(options, fresh->member, count, &fresh->topology);
    if (error) {
        free(fresh);
        return error;
    }
    *plan = fresh;
    return BASE_OK;
}

struct gossip_plan *gossip_plan_keep(struct gossip_plan *plan)
{
    atomic_fetch_add(&plan->uses, 1);
    return plan;
}

void gossip_plan_drop(struct gossip_plan *plan)
{
    if (!plan || atomic_fetch_sub(&plan->uses, 1) > 1)
        return;
    topology_plan_destroy(plan->topology);
    free(plan);
}

// Names are not compared: an id never changes its name.
bool gossip_plan_is_of(const struct gossip_plan *plan, const struct gossip_record *view, size_t count)
{
    if (plan->count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct topology_member *member = &plan->member[i];
        if (member->slot != view[i].slot || member->group != view[i].group ||
            (unsigned)member->access != view[i].access ||
            memcmp(member->id, view[i].id.bytes, sizeof member->id) != 0)
            return false;
    }
    return true;
}

uint64_t gossip_plan_hash(const struct gossip_record *view, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, view[i].id.bytes, sizeof word);
        hash += base_hash_mix(word ^ ((uint64_t)view[i].slot << 32 | view[i].group)) + view[i].access;
    }
    return hash;
}

size_t plan_find(const struct gossip_plan *plan, const struct gossip_id *id)
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
    return TOPOLOGY_NOBODY;
}
