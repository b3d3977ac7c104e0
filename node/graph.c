#include "node/graph.h"
#include <stdlib.h>
#include <string.h>

struct linked {
    struct gossip_id peer;
    bool linked; // false: only remembered until its edge was told to go down
    bool up;     // its edge was told to come up
};

struct node_graph {
    enum topology_kind kind;
    struct gossip_id self;
    struct gossip_id *view; // topology order
    size_t n_view, position;
    struct gossip_id neighbours[NODE_GRAPH_NEIGHBOURS];
    size_t n_neighbours;
    struct linked *links;
    size_t n_links;
};

static size_t position_of(const struct gossip_id *view, size_t n, const struct gossip_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (gossip_id_compare(&view[i], id) == 0)
            return i;
    return TOPOLOGY_NOBODY;
}

size_t node_graph_neighbours(enum topology_kind kind, const struct gossip_id *view, size_t n,
                             const struct gossip_id *self, struct gossip_id out[NODE_GRAPH_NEIGHBOURS])
{
    size_t positions[NODE_GRAPH_NEIGHBOURS], position = position_of(view, n, self);

    if (position == TOPOLOGY_NOBODY || n < 2)
        return 0;
    size_t count = topology_neighbours(kind, n, position, positions, NODE_GRAPH_NEIGHBOURS);
    BASE_ASSERT(count <= NODE_GRAPH_NEIGHBOURS);
    for (size_t i = 0; i < count; i++)
        out[i] = view[positions[i]];
    return count;
}

enum base_error node_graph_create(enum topology_kind kind, const struct gossip_id *self,
                                  struct node_graph **graph)
{
    struct node_graph *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        return BASE_ENOMEM;
    fresh->kind = kind;
    fresh->self = *self;
    fresh->position = TOPOLOGY_NOBODY;
    *graph = fresh;
    return BASE_OK;
}

void node_graph_destroy(struct node_graph *graph)
{
    if (!graph)
        return;
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

enum base_error node_graph_view(struct node_graph *graph, const struct gossip_id *view, size_t n)
{
    struct gossip_id *copy = malloc((n ? n : 1) * sizeof *copy);

    if (!copy)
        return BASE_ENOMEM;
    if (n)
        memcpy(copy, view, n * sizeof *copy);
    free(graph->view);
    graph->view = copy;
    graph->n_view = n;
    graph->position = position_of(copy, n, &graph->self);
    graph->n_neighbours = node_graph_neighbours(graph->kind, copy, n, &graph->self, graph->neighbours);
    return BASE_OK;
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

bool node_graph_partner(const struct node_graph *graph, uint64_t round, struct gossip_id *partner)
{
    if (graph->position == TOPOLOGY_NOBODY || graph->n_view < 2)
        return false;
    size_t position = topology_partner(graph->kind, graph->n_view, graph->position, round);
    if (position == TOPOLOGY_NOBODY)
        return false;
    *partner = graph->view[position];
    return true;
}
