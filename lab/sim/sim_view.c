// A process's view of the other members, from its own membership or from known membership.
#include "lab/sim/sim_process.h"

static const struct sim_known *known_to(const struct sim_node *node)
{
    return node->world->options.known ? &node->world->known : NULL;
}

bool sim_member_info(const struct sim_node *node, size_t peer, struct gossip_member_info *info)
{
    const struct sim_known *known = known_to(node);

    if (!known)
        return !gossip_membership_find(node->member.membership, sim_member_id(node, peer), info);
    sim_known_at(node, peer, info);
    return known->there[peer];
}

// -- known membership, for gossip/host

static size_t count(const void *owner)
{
    return ((const struct sim_node *)owner)->world->options.nodes;
}

// This process first.
static void at(const void *owner, size_t index, struct gossip_member_info *info)
{
    const struct sim_node *node = owner;

    sim_known_at(node, index == 0 ? node->self : index <= node->self ? index - 1 : index, info);
}

static const struct gossip_record *view(const void *owner, size_t *members)
{
    const struct sim_known *known = &((const struct sim_node *)owner)->world->known;

    *members = known->n_view;
    return known->view;
}

static void census(const void *owner, struct gossip_life_census *census)
{
    sim_known_census(owner, census);
}

static void flags(void *owner, uint8_t set, uint8_t clear)
{
    sim_known_flags(owner, set, clear);
}

static void stop_at(void *owner, uint64_t round)
{
    sim_known_stop_at(owner, round);
}

static void slot(void *owner, uint32_t claimed)
{
    sim_known_slot(owner, claimed);
}

static void leave(void *owner)
{
    sim_known_end(owner, true);
}

const struct gossip_control_members sim_known_members = {.count = count,
                                                         .at = at,
                                                         .view = view,
                                                         .census = census,
                                                         .flags = flags,
                                                         .stop_at = stop_at,
                                                         .slot = slot,
                                                         .leave = leave};
