#include "node/graph.h"
#include <stdlib.h>
#include <string.h>

struct linked {
    struct gossip_id peer;
    bool linked; // false: only remembered until its edge was told to go down
    bool up;     // its edge was told to come up
};

struct node_graph {
    struct topology_options topology;
    struct gossip_id self;
    struct topology_plan *plan;
    struct gossip_id *view; // the plan's members, in its numbers
    size_t n_view, position;
    struct gossip_id neighbours[NODE_GRAPH_NEIGHBOURS];
    size_t n_neighbours;
    struct linked *links;
    size_t n_links;
};

static size_t position_of(const struct gossip_id *ids, size_t n, const struct gossip_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (gossip_id_compare(&ids[i], id) == 0)
            return i;
    return TOPOLOGY_NOBODY;
}

static size_t place_of(const struct topology_member *view, size_t n, const struct gossip_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(view[i].id, id->bytes, sizeof id->bytes) == 0)
            return i;
    return TOPOLOGY_NOBODY;
}

static struct gossip_id id_of(const struct topology_member *member)
{
    struct gossip_id id;
    memcpy(id.bytes, member->id, sizeof id.bytes);
    return id;
}

// BASE_ELIMIT: more neighbours than `out` has room for.
static enum base_error neighbours_in(const struct topology_plan *plan, const struct topology_member *view,
                                     size_t position, struct gossip_id out[NODE_GRAPH_NEIGHBOURS],
                                     size_t *count)
{
    size_t peers[NODE_GRAPH_NEIGHBOURS], found = 0;

    if (position != TOPOLOGY_NOBODY)
        found = topology_plan_neighbours(plan, position, peers, NODE_GRAPH_NEIGHBOURS);
    if (found > NODE_GRAPH_NEIGHBOURS)
        return BASE_ELIMIT;
    for (size_t i = 0; i < found; i++)
        out[i] = id_of(&view[peers[i]]);
    *count = found;
    return BASE_OK;
}

// Members come from the network: a plan may hold more of them than a node may know.
static enum base_error plan_of(const struct topology_options *topology, const struct topology_member *view,
                               size_t n, struct topology_plan **plan)
{
    return n > LIMIT_MEMBERS ? BASE_EINVAL : topology_plan_create(topology, view, n, plan);
}

enum base_error node_graph_neighbours(const struct topology_options *topology,
                                      const struct topology_member *view, size_t n,
                                      const struct gossip_id *self,
                                      struct gossip_id out[NODE_GRAPH_NEIGHBOURS], size_t *count,
                                      uint32_t *slot)
{
    struct topology_plan *plan;
    size_t position = place_of(view, n, self);
    enum base_error error = plan_of(topology, view, n, &plan);

    if (error)
        return error;
    error = neighbours_in(plan, view, position, out, count);
    if (!error)
        *slot = position == TOPOLOGY_NOBODY ? TOPOLOGY_NO_SLOT : topology_plan_slot(plan, position);
    topology_plan_destroy(plan);
    return error;
}

enum base_error node_graph_create(const struct topology_options *topology, const struct gossip_id *self,
                                  struct node_graph **graph)
{
    struct node_graph *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        return BASE_ENOMEM;
    fresh->topology = *topology;
    fresh->self = *self;
    enum base_error error = node_graph_view(fresh, NULL, 0); // also says whether the options can be
    if (error) {
        node_graph_destroy(fresh);
        return error;
    }
    *graph = fresh;
    return BASE_OK;
}

void node_graph_destroy(struct node_graph *graph)
{
    if (!graph)
        return;
    topology_plan_destroy(graph->plan);
    free(graph->view);
    free(graph->links);
    free(graph);
}

static struct linked *find(const struct node_graph *graph, const struct gossip_id *peer)
{
    for (size_t i = 0; i < graph->n_links; i++)
        if (gossip_id_compare(&graph->links[i].peer, peer) == 0)
            return &graph->links[i];
    return NULL;
}

enum base_error node_graph_link(struct node_graph *graph, const struct gossip_id *peer)
{
    struct linked *link = find(graph, peer);

    if (!link) {
        struct linked *links = realloc(graph->links, (graph->n_links + 1) * sizeof *links);
        if (!links)
            return BASE_ENOMEM;
        graph->links = links;
        link = &links[graph->n_links++];
        *link = (struct linked){.peer = *peer};
    }
    link->linked = true;
    link->up = false; // the edge of an older link to the same peer compares states anew
    return BASE_OK;
}

void node_graph_unlink(struct node_graph *graph, const struct gossip_id *peer)
{
    struct linked *link = find(graph, peer);

    if (link)
        link->linked = false;
}

enum base_error node_graph_view(struct node_graph *graph, const struct topology_member *view, size_t n)
{
    struct gossip_id neighbours[NODE_GRAPH_NEIGHBOURS], *ids = NULL;
    struct topology_plan *plan = NULL, *unused;
    size_t count = 0, position = place_of(view, n, &graph->self);
    enum base_error error = plan_of(&graph->topology, view, n, &plan);

    unused = plan;
    if (!error)
        error = neighbours_in(plan, view, position, neighbours, &count);
    if (error)
        goto out;
    ids = malloc((n ? n : 1) * sizeof *ids);
    if (!ids) {
        error = BASE_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        ids[i] = id_of(&view[i]);
    unused = graph->plan;
    free(graph->view);
    graph->plan = plan;
    graph->view = ids;
    graph->n_view = n;
    graph->position = position;
    memcpy(graph->neighbours, neighbours, count * sizeof *neighbours);
    graph->n_neighbours = count;
out:
    topology_plan_destroy(unused);
    return error;
}

static bool is_neighbour(const struct node_graph *graph, const struct gossip_id *peer)
{
    return position_of(graph->neighbours, graph->n_neighbours, peer) != TOPOLOGY_NOBODY;
}

bool node_graph_next(struct node_graph *graph, struct node_graph_change *change)
{
    for (size_t i = 0; i < graph->n_links; i++) {
        struct linked *link = &graph->links[i];
        bool wanted = link->linked && is_neighbour(graph, &link->peer);
        if (wanted == link->up && link->linked)
            continue;
        bool told = wanted != link->up;
        *change = (struct node_graph_change){.peer = link->peer, .up = wanted};
        link->up = wanted;
        if (!link->linked)
            graph->links[i--] = graph->links[--graph->n_links];
        if (told)
            return true;
    }
    return false;
}

bool node_graph_has(const struct node_graph *graph, const struct gossip_id *peer)
{
    return position_of(graph->view, graph->n_view, peer) != TOPOLOGY_NOBODY;
}

bool node_graph_is_stranger(const struct node_graph *graph, const struct gossip_id *peer)
{
    return node_graph_has(graph, peer) && !is_neighbour(graph, peer);
}

bool node_graph_partner(const struct node_graph *graph, uint64_t round, struct gossip_id *partner,
                        float *weight)
{
    if (graph->position == TOPOLOGY_NOBODY)
        return false;
    size_t peer = topology_plan_partner(graph->plan, graph->position, round);
    if (peer == TOPOLOGY_NOBODY)
        return false;
    *partner = graph->view[peer];
    *weight = (float)topology_plan_weight(graph->plan, graph->position, round);
    return true;
}
