// What a process sees of the others, by its own membership or because all is known.
#include "lab/sim/sim_process.h"

static const struct sim_known *known_to(const struct sim_node *node)
{
    return node->world->options.known ? &node->world->known : NULL;
}

bool sim_member_info(const struct sim_node *node, size_t peer, struct gossip_member_info *info)
{
    const struct sim_known *known = known_to(node);

    if (!known)
        return gossip_membership_find(node->membership, sim_member_id(node, peer), info) == BASE_OK;
    const struct sim_node *other = node->world->node[peer];
    *info = (struct gossip_member_info){.record = &known->record[peer],
                                        .state = known->state[peer],
                                        .round = other->round,
                                        .step = other->step,
                                        .progress_ns = sim_node_now(node),
                                        .answered = other->running};
    return known->there[peer];
}

// What membership promises changes with its steps only, and with what it is told of this node.
void sim_member_promise(struct sim_node *node)
{
    node->member_ns = known_to(node) ? UINT64_MAX : gossip_membership_deadline(node->membership);
}

uint64_t sim_member_deadline(const struct sim_node *node)
{
    return node->member_ns;
}

void sim_member_flags(struct sim_node *node, uint8_t set)
{
    if (known_to(node))
        sim_known_flags(node, set);
    else
        gossip_membership_flags(node->membership, set, 0);
    sim_member_promise(node);
}

void sim_member_slot(struct sim_node *node, uint32_t slot)
{
    if (known_to(node))
        sim_known_slot(node, slot);
    else
        gossip_membership_slot(node->membership, slot);
    sim_member_promise(node);
}

const struct gossip_record *sim_member_view(const struct sim_node *node, size_t *count)
{
    const struct sim_known *known = known_to(node);

    if (!known)
        return gossip_membership_view(node->membership, count);
    *count = known->n_view;
    return known->view;
}

static struct sim_census look_around(const struct sim_node *node)
{
    size_t count = gossip_membership_count(node->membership);
    struct sim_census census = {0};

    for (size_t i = 1; i < count; i++) {
        struct gossip_member_info info;
        gossip_membership_info(node->membership, i, &info);
        uint8_t flags = info.record->flags;
        census.finished += (flags & GOSSIP_RECORD_FINISHED) != 0;
        if (info.state == GOSSIP_MEMBER_DEAD || info.state == GOSSIP_MEMBER_LEFT)
            continue;
        census.here++;
        census.busy += (flags & GOSSIP_RECORD_ELIGIBLE) && !(flags & GOSSIP_RECORD_FINISHED);
        census.training |= (flags & GOSSIP_RECORD_TRAINING) != 0;
    }
    return census;
}

bool sim_census_is_alone(const struct sim_census *census)
{
    return census->finished > 0 && census->busy == 0;
}

struct sim_census sim_member_census(const struct sim_node *node)
{
    const struct sim_known *known = known_to(node);

    if (!known)
        return look_around(node);
    uint8_t flags = known->record[node->self].flags;
    bool finished = flags & GOSSIP_RECORD_FINISHED;
    bool counts = (flags & GOSSIP_RECORD_ELIGIBLE) && !(flags & GOSSIP_RECORD_FINISHED);
    return (struct sim_census){.here = known->here - (known->here > 0),
                               .busy = known->busy - (counts && known->busy > 0),
                               .finished = known->finished - (finished && known->finished > 0),
                               .training = known->training > 0};
}
