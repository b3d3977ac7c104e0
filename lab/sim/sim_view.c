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

// The deadline of membership changes only with its steps, and with changes of this node's own record.
void sim_member_promise(struct sim_node *node)
{
    node->member.timer_ns = known_to(node) ? UINT64_MAX : gossip_membership_deadline(node->member.membership);
}

uint64_t sim_member_deadline(const struct sim_node *node)
{
    return node->member.timer_ns;
}

void sim_member_flags(struct sim_node *node, uint8_t set, uint8_t clear)
{
    if (known_to(node))
        sim_known_flags(node, set, clear);
    else
        gossip_membership_flags(node->member.membership, set, clear);
    sim_member_promise(node);
}

void sim_member_progress(struct sim_node *node)
{
    if (!known_to(node))
        gossip_membership_progress(node->member.membership, node->train.rounds.round,
                                   node->train.rounds.step);
}

void sim_member_stop_at(struct sim_node *node, uint64_t round)
{
    if (known_to(node))
        sim_known_stop_at(node, round);
    else
        gossip_membership_stop_at(node->member.membership, round);
    sim_member_promise(node);
}

void sim_member_slot(struct sim_node *node, uint32_t slot)
{
    if (known_to(node))
        sim_known_slot(node, slot);
    else
        gossip_membership_slot(node->member.membership, slot);
    sim_member_promise(node);
}

const struct gossip_record *sim_member_view(const struct sim_node *node, size_t *count)
{
    const struct sim_known *known = known_to(node);

    if (!known)
        return gossip_membership_view(node->member.membership, count);
    *count = known->n_view;
    return known->view;
}

size_t sim_member_count(const struct sim_node *node)
{
    return known_to(node) ? node->world->options.nodes : gossip_membership_count(node->member.membership);
}

void sim_member_at(const struct sim_node *node, size_t index, struct gossip_member_info *info)
{
    if (known_to(node))
        sim_known_at(node, index == 0 ? node->self : index <= node->self ? index - 1 : index, info);
    else
        gossip_membership_info(node->member.membership, index, info);
}
