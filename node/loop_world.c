// What the life of this node (gossip/life) reads of membership, links and edges.
#include "node/loop_private.h"

static size_t members(const void *owner)
{
    const struct node_loop *loop = owner;
    return gossip_membership_count(node_cluster_membership(loop->cluster));
}

static void member(const void *owner, size_t index, struct gossip_member_info *info)
{
    const struct node_loop *loop = owner;
    gossip_membership_info(node_cluster_membership(loop->cluster), index, info);
}

static bool linked(const void *owner, const struct gossip_id *peer)
{
    const struct node_loop *loop = owner;
    return node_peers_has(node_cluster_peers(loop->cluster), peer);
}

static bool listed(const void *owner, const struct gossip_id *peer)
{
    const struct node_loop *loop = owner;
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    for (size_t i = 0; i < node_peers_entries(peers); i++) {
        const struct gossip_entry *entry = node_peers_entry(peers, i);
        if (entry->known && gossip_id_compare(&entry->id, peer) == 0)
            return true;
    }
    return false;
}

static size_t edges(const void *owner)
{
    return ((const struct node_loop *)owner)->n_edges;
}

static bool edge(const void *owner, size_t index, struct gossip_id *peer)
{
    const struct node_edge_status *at = &((const struct node_loop *)owner)->edges[index];
    *peer = at->peer;
    return (at->state == GOSSIP_EDGE_LIVE || at->begins) && !at->silent;
}

static bool apart(const void *owner, size_t index, uint64_t scaling[2])
{
    const struct node_edge_status *at = &((const struct node_loop *)owner)->edges[index];
    if (!at->other_scaling)
        return false;
    scaling[0] = at->scaling;
    scaling[1] = at->other_scaling;
    return true;
}

static void self(const void *owner, struct gossip_life_self *self)
{
    const struct node_loop *loop = owner;
    const struct gossip_graph *graph = node_cluster_graph(loop->cluster);
    const struct node_peers *peers = node_cluster_peers(loop->cluster);
    *self = (struct gossip_life_self){.links_ended = node_peers_gone(peers)};
    gossip_life_see_membership(self, node_cluster_membership(loop->cluster));
    gossip_life_see_graph(
        self, graph, &(struct gossip_life_edges){.owner = loop, .count = edges, .at = edge, .apart = apart});
    for (size_t i = 0; i < node_peers_entries(peers); i++)
        gossip_life_see_entry(self, graph, node_peers_entry(peers, i));
}

struct gossip_life_world node_loop_world(const struct node_loop *loop, struct gossip_life_edges *known)
{
    *known = (struct gossip_life_edges){.owner = loop, .count = edges, .at = edge, .apart = apart};
    return (struct gossip_life_world){.owner = loop,
                                      .edges = known,
                                      .members = members,
                                      .member = member,
                                      .linked = linked,
                                      .listed = listed,
                                      .self = self,
                                      .gathered = node_loop_gathered};
}

uint32_t node_loop_free_shard(const struct node_loop *loop, uint32_t shards)
{
    struct gossip_life_edges known;
    const struct gossip_life_world world = node_loop_world(loop, &known);
    return gossip_life_free_shard(&world, shards);
}
