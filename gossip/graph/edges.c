// The edges of a node: they follow from its graph and its links, and are forgotten when no longer needed.
#include "base/array.h"
#include "gossip/exchange/exchange.h"
#include "gossip/graph/graph.h"
#include <stdlib.h>
#include <string.h>

struct linked {
    struct gossip_id peer;
    bool linked;
    bool neighbour;
    bool up, awaited; // as last told: up: its edge is up; awaited: it is a neighbour, so an ended link may
                      // come back
};

struct gossip_edges {
    struct gossip_graph *graph;
    bool local, fetching;
    struct linked *link; // [count] ascending by id
    size_t count;
    enum { SETTLED, GOING_DOWN, COMING_UP } turn;  // the changes that gossip_edges_next looks for
    size_t at;                                     // the first link it still has to check
    enum { NOTHING, NEW_GRAPH, EDGES, KEPT } look; // the list that gossip_edges_forget processes
    size_t left;                                   // how many of the list are left
};

enum base_error gossip_edges_create(bool local, struct gossip_edges **edges)
{
    struct gossip_edges *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        return BASE_ENOMEM;
    fresh->local = local;
    *edges = fresh;
    return BASE_OK;
}

void gossip_edges_destroy(struct gossip_edges *edges)
{
    if (!edges)
        return;
    gossip_graph_drop(edges->graph);
    free(edges->link);
    free(edges);
}

static void changed(struct gossip_edges *edges)
{
    edges->turn = GOING_DOWN;
    edges->at = 0;
}

void gossip_edges_follow(struct gossip_edges *edges, struct gossip_graph *graph)
{
    BASE_ASSERT(graph && graph != edges->graph);
    gossip_graph_drop(edges->graph);
    edges->graph = graph;
    for (size_t i = 0; i < edges->count; i++)
        edges->link[i].neighbour = gossip_graph_meets(graph, &edges->link[i].peer);
    edges->look = NEW_GRAPH;
    changed(edges);
}

const struct gossip_graph *gossip_edges_graph(const struct gossip_edges *edges)
{
    return edges->graph;
}

bool gossip_edges_local(const struct gossip_edges *edges)
{
    return edges->local;
}

static size_t find(const struct gossip_edges *edges, const struct gossip_id *peer, bool *there)
{
    return gossip_id_place(peer, edges->link, edges->count, sizeof *edges->link, there);
}

static enum base_error insert(struct gossip_edges *edges, size_t at, const struct gossip_id *peer)
{
    BASE_ASSERT(at <= edges->count);
    struct linked *link = base_array_grow(edges->link, edges->count, sizeof *link);
    if (!link)
        return BASE_ENOMEM;
    edges->link = link;
    memmove(&edges->link[at + 1], &edges->link[at], (edges->count - at) * sizeof *edges->link);
    edges->link[at] = (struct linked){.peer = *peer, .neighbour = gossip_graph_meets(edges->graph, peer)};
    edges->count++;
    return BASE_OK;
}

enum base_error gossip_edges_linked(struct gossip_edges *edges, const struct gossip_id *peer)
{
    bool there;
    size_t at = find(edges, peer, &there);

    if (!there && insert(edges, at, peer))
        return BASE_ENOMEM;
    BASE_ASSERT(at < edges->count && gossip_id_compare(&edges->link[at].peer, peer) == 0);
    edges->link[at].linked = true;
    edges->link[at].up = false; // an edge of an older link to the same peer must compare states again
    changed(edges);
    return BASE_OK;
}

void gossip_edges_unlinked(struct gossip_edges *edges, const struct gossip_id *peer)
{
    bool there;
    size_t at = find(edges, peer, &there);

    if (!there)
        return;
    BASE_ASSERT(at < edges->count);
    edges->link[at].linked = false;
    changed(edges);
}

void gossip_edges_fetching(struct gossip_edges *edges, bool fetching)
{
    if (edges->fetching == fetching)
        return;
    edges->fetching = fetching;
    changed(edges);
}

static void drop_unlinked(struct gossip_edges *edges)
{
    size_t kept = 0;

    BASE_ASSERT(edges->turn == SETTLED);
    for (size_t i = 0; i < edges->count; i++)
        if (edges->link[i].linked || edges->link[i].awaited)
            edges->link[kept++] = edges->link[i];
    edges->count = kept;
}

// Is there a change of this peer in this turn, and which one?
static bool tell(const struct gossip_edges *edges, struct linked *link, struct gossip_edge_change *change)
{
    const bool up = link->linked && link->neighbour && !edges->fetching && !edges->local;
    const bool unmet = link->awaited && !link->neighbour && !edges->fetching;

    BASE_ASSERT(edges->turn != SETTLED);
    if ((link->up == up && !unmet) || up != (edges->turn == COMING_UP))
        return false;
    link->up = up;
    link->awaited = up || (link->awaited && !unmet);
    *change = (struct gossip_edge_change){.peer = link->peer, .up = up, .unmet = unmet};
    return true;
}

bool gossip_edges_next(struct gossip_edges *edges, struct gossip_edge_change *change)
{
    BASE_ASSERT(edges->turn == SETTLED || edges->at <= edges->count);
    while (edges->turn != SETTLED) {
        while (edges->at < edges->count)
            if (tell(edges, &edges->link[edges->at++], change))
                return true;
        edges->turn = edges->turn == GOING_DOWN ? COMING_UP : SETTLED;
        edges->at = 0;
        if (edges->turn == SETTLED)
            drop_unlinked(edges);
    }
    return false;
}

// Is the peer in the graph, like this node, but no longer met? While this node is not in the graph it meets
// no peer, and does not know which it will meet.
static bool is_stranger(const struct gossip_edges *edges, const struct gossip_id *peer)
{
    return gossip_graph_counts(edges->graph) && gossip_graph_has(edges->graph, peer) &&
           !gossip_graph_meets(edges->graph, peer);
}

static void look_at(struct gossip_edges *edges, const struct gossip_exchange *exchange,
                    struct gossip_id *peer)
{
    struct gossip_edge_info info;

    if (edges->look == KEPT) {
        *peer = gossip_exchange_orphan_at(exchange, edges->left).peer;
        return;
    }
    gossip_exchange_edge_info(exchange, edges->left, &info);
    *peer = info.peer;
}

// While a view grows neighbours come and go, so it is only known at a boundary which edges are not needed.
// The correction of a dead neighbour is dropped when that node is back elsewhere in the graph.
bool gossip_edges_forget(struct gossip_edges *edges, const struct gossip_exchange *exchange,
                         struct gossip_id *peer)
{
    BASE_ASSERT(edges->look == NEW_GRAPH || edges->look == NOTHING || edges->graph);
    if (edges->look == NEW_GRAPH) {
        edges->look = EDGES;
        edges->left = gossip_exchange_edges(exchange);
    }
    while (edges->look != NOTHING) {
        while (edges->left > 0) {
            edges->left--;
            look_at(edges, exchange, peer);
            if (is_stranger(edges, peer))
                return true;
        }
        edges->look = edges->look == EDGES ? KEPT : NOTHING;
        edges->left = edges->look == KEPT ? gossip_exchange_orphans(exchange) : 0;
    }
    return false;
}
