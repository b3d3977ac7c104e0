// The view in use: who the neighbours are, which links are kept, which slot is claimed.
#include "base/log.h"
#include "node/cluster_private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct topology_member *as_topology(const struct gossip_record *view, size_t count)
{
    struct topology_member *members = calloc(count + 1, sizeof *members);
    for (size_t i = 0; members && i < count; i++) {
        snprintf(members[i].name, sizeof members[i].name, "%s", view[i].name);
        memcpy(members[i].id, view[i].id.bytes, sizeof members[i].id);
        members[i].slot = view[i].slot;
        members[i].group = view[i].group;
    }
    return members;
}
_Static_assert(GOSSIP_NO_SLOT == TOPOLOGY_NO_SLOT, "slots are passed on as they are");

void node_cluster_keep_links(struct node_cluster *cluster)
{
    struct gossip_id ids[NODE_GRAPH_NEIGHBOURS + NODE_CLUSTER_DONORS];
    memcpy(ids, cluster->neighbours, cluster->n_neighbours * sizeof *ids);
    memcpy(ids + cluster->n_neighbours, cluster->donors, cluster->n_donors * sizeof *ids);
    node_peers_want(cluster->peers, ids, cluster->n_neighbours + cluster->n_donors);
}

static void claim_slot(struct node_cluster *cluster, uint32_t slot)
{
    struct gossip_member_info self;
    gossip_membership_info(cluster->membership, 0, &self);
    if (self.record->slot != slot)
        gossip_membership_slot(cluster->membership, slot);
}

void node_cluster_take_view(struct node_cluster *cluster)
{
    const struct gossip_id *self = &cluster->options.identity->id;
    size_t count = 0, n_neighbours = 0;
    uint32_t slot = TOPOLOGY_NO_SLOT;
    struct gossip_id neighbours[NODE_GRAPH_NEIGHBOURS];
    const struct gossip_record *view = gossip_membership_view(cluster->membership, &count);
    struct topology_member *members = as_topology(view, count);
    enum base_error code = members ? BASE_OK : BASE_ENOMEM;
    if (code == BASE_OK)
        code = node_graph_neighbours(&cluster->options.topology, members, count, self, neighbours,
                                     &n_neighbours, &slot);
    if (code != BASE_OK) { // the graph stays as it was until the next change
        base_log(BASE_LOG_ERROR, "view", "the graph can't follow the members: %s", base_error_name(code));
        free(members);
        return;
    }
    memcpy(cluster->neighbours, neighbours, n_neighbours * sizeof *neighbours);
    cluster->n_neighbours = n_neighbours;
    if (node_cluster_in_view(cluster, self))
        claim_slot(cluster, slot);
    node_cluster_keep_links(cluster);
    node_cluster_tell_view(cluster, count);
    cluster->options.handler->view(cluster->options.owner, members, count);
    free(members);
}

bool node_cluster_in_view(const struct node_cluster *cluster, const struct gossip_id *id)
{
    size_t count = 0;
    const struct gossip_record *view = gossip_membership_view(cluster->membership, &count);
    for (size_t i = 0; i < count; i++)
        if (gossip_id_compare(&view[i].id, id) == 0)
            return true;
    return false;
}

const struct gossip_id *node_cluster_neighbours(const struct node_cluster *cluster, size_t *count)
{
    *count = cluster->n_neighbours;
    return cluster->neighbours;
}

void node_cluster_want(struct node_cluster *cluster, const struct gossip_id *ids, size_t count)
{
    cluster->n_donors = count < NODE_CLUSTER_DONORS ? count : NODE_CLUSTER_DONORS;
    memcpy(cluster->donors, ids, cluster->n_donors * sizeof *ids);
    node_cluster_keep_links(cluster);
}
