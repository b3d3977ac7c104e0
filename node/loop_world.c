// What the life of this node (gossip/life) reads of its exchange, as the worker last reported it.
#include "node/loop_private.h"

static size_t edges(const void *owner)
{
    return ((const struct node_loop *)owner)->n_edges;
}

static bool edge(const void *owner, size_t index, struct gossip_id *peer)
{
    const struct gossip_edge_info *at = &((const struct node_loop *)owner)->edges[index];
    *peer = at->peer;
    return (at->state == GOSSIP_EDGE_LIVE || at->begins) && !at->silent;
}

static bool apart(const void *owner, size_t index, uint64_t scaling[2])
{
    const struct gossip_edge_info *at = &((const struct node_loop *)owner)->edges[index];
    if (!at->other_scaling)
        return false;
    scaling[0] = at->scaling;
    scaling[1] = at->other_scaling;
    return true;
}

struct gossip_life_edges node_loop_edges(const struct node_loop *loop)
{
    return (struct gossip_life_edges){.owner = loop, .count = edges, .at = edge, .apart = apart};
}
