// What the life of a node reads of members, links and graph.
#include "gossip/host/private.h"

static size_t members(const void *owner)
{
    const struct gossip_control *control = owner;

    return control->options.membership ? gossip_membership_count(control->options.membership)
                                       : control->options.members->count(control->options.owner);
}

static void member(const void *owner, size_t index, struct gossip_member_info *info)
{
    const struct gossip_control *control = owner;

    if (control->options.membership)
        gossip_membership_info(control->options.membership, index, info);
    else
        control->options.members->at(control->options.owner, index, info);
}

bool gossip_control_linked(const struct gossip_control *control, const struct gossip_id *peer)
{
    void *owner;

    return gossip_links_active(control->options.links, peer, &owner) != 0;
}

static bool linked(const void *owner, const struct gossip_id *peer)
{
    return gossip_control_linked(owner, peer);
}

static size_t entries(const struct gossip_control *control)
{
    return gossip_links_entries(control->options.links);
}

static bool listed(const void *owner, const struct gossip_id *peer)
{
    const struct gossip_control *control = owner;

    for (size_t i = 0; i < entries(control); i++) {
        const struct gossip_entry *entry = gossip_links_entry(control->options.links, i);
        if (entry->known && gossip_id_compare(&entry->id, peer) == 0)
            return true;
    }
    return false;
}

static bool is_own(const struct gossip_control *control, size_t entry)
{
    return entry < 64 && control->options.own_entries >> entry & 1;
}

static bool links_ended(const struct gossip_control *control)
{
    struct gossip_links_totals totals;

    gossip_links_totals(control->options.links, &totals);
    return control->options.links_end_with_it || totals.links == 0;
}

static void self(const void *owner, struct gossip_life_self *self)
{
    const struct gossip_control *control = owner;

    *self = (struct gossip_life_self){.links_ended = links_ended(control)};
    if (control->options.membership)
        gossip_life_see_membership(self, control->options.membership);
    gossip_life_see_graph(self, control->graph, &control->options.edges);
    for (size_t i = 0; i < entries(control); i++)
        if (!is_own(control, i))
            gossip_life_see_entry(self, control->graph, gossip_links_entry(control->options.links, i));
}

static void census(const void *owner, struct gossip_life_census *census)
{
    const struct gossip_control *control = owner;

    control->options.members->census(control->options.owner, census);
}

static bool gathered(const void *owner, const struct gossip_id *peer)
{
    const struct gossip_control *control = owner;

    return control->options.gathered(control->options.owner, peer);
}

struct gossip_life_world control_world(const struct gossip_control *control)
{
    return (struct gossip_life_world){.owner = control,
                                      .edges = &control->options.edges,
                                      .members = members,
                                      .member = member,
                                      .linked = linked,
                                      .listed = listed,
                                      .self = self,
                                      .gathered = control->options.gathered ? gathered : NULL,
                                      .census = control->options.membership ? NULL : census};
}

uint32_t gossip_control_free_shard(const struct gossip_control *control, uint32_t shards)
{
    const struct gossip_life_world world = control_world(control);

    return gossip_life_free_shard(&world, shards);
}
