// The view in use becomes the graph of this node (gossip/graph): its links are kept, its slot is claimed.
#include "base/log.h"
#include "node/cluster/private.h"

// To neighbours and donors.
static void keep_links(struct node_cluster *cluster)
{
    struct gossip_id ids[LIMIT_NEIGHBOURS + NODE_CLUSTER_DONORS];
    node_peers_want(cluster->peers, ids,
                    gossip_graph_links(cluster->graph, cluster->donors, cluster->n_donors, ids));
}

void node_cluster_claim_slot(struct node_cluster *cluster)
{
    struct gossip_member_info self;
    gossip_membership_info(cluster->membership, 0, &self);
    uint32_t slot = gossip_graph_slot(cluster->graph, self.record->slot, cluster->trains);
    if (self.record->slot != slot)
        gossip_membership_slot(cluster->membership, slot);
}

static enum base_error make_graph(const struct node_cluster *cluster, struct gossip_graph **graph)
{
    size_t count = 0;
    const struct gossip_record *view = gossip_membership_view(cluster->membership, &count);
    struct gossip_plan *plan;
    enum base_error error = gossip_plan_create(&cluster->options.topology, view, count, &plan);
    if (error)
        return error;
    error = gossip_graph_create(plan, &cluster->options.links.identity->id, LIMIT_NEIGHBOURS, graph);
    gossip_plan_drop(plan);
    return error;
}

struct gossip_graph *node_cluster_take_view(struct node_cluster *cluster)
{
    struct gossip_graph *graph;
    enum base_error error = make_graph(cluster, &graph);
    if (error) { // the graph stays as it was until the next change
        base_log(BASE_LOG_ERROR, "view", "the graph cannot follow the members: %s", base_error_name(error));
        return NULL;
    }
    BASE_ASSERT(graph != cluster->graph);
    gossip_graph_drop(cluster->graph);
    cluster->graph = graph;
    node_cluster_claim_slot(cluster);
    keep_links(cluster);
    node_cluster_tell_view(cluster);
    return gossip_graph_keep(graph);
}

const struct gossip_graph *node_cluster_graph(const struct node_cluster *cluster)
{
    return cluster->graph;
}

void node_cluster_want(struct node_cluster *cluster, const struct gossip_id *ids, size_t count)
{
    BASE_ASSERT(count <= NODE_CLUSTER_DONORS);
    cluster->n_donors = count;
    memcpy(cluster->donors, ids, count * sizeof *ids);
    keep_links(cluster);
}
