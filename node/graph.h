// Which of the linked peers are neighbours: the topology applied to the view. Edges exist towards neighbours
// only, whatever other links there are. Pure; the worker owns one object, the loop asks
// node_graph_neighbours.
#ifndef NODE_GRAPH_H
#define NODE_GRAPH_H

#include "base/error.h"
#include "gossip/id.h"
#include "topology/topology.h"
#include <stdbool.h>

#define NODE_GRAPH_NEIGHBOURS 64 // a butterfly of 1,024 has 10, some more where nodes have to pair up

// Neighbours of `self` among view[n] into out; none when self is not in the view. *slot: what self is to
// claim.
enum base_error node_graph_neighbours(const struct topology_options *topology,
                                      const struct topology_member *view, size_t n,
                                      const struct gossip_id *self,
                                      struct gossip_id out[NODE_GRAPH_NEIGHBOURS], size_t *count,
                                      uint32_t *slot) BASE_CHECK;

struct node_graph;

enum base_error node_graph_create(const struct topology_options *topology, const struct gossip_id *self,
                                  struct node_graph **graph) BASE_CHECK;
void node_graph_destroy(struct node_graph *graph);

// A link that replaces another to the same peer makes its edge come up anew. BASE_ENOMEM changes nothing.
enum base_error node_graph_link(struct node_graph *graph, const struct gossip_id *peer) BASE_CHECK;
void node_graph_unlink(struct node_graph *graph, const struct gossip_id *peer);
enum base_error node_graph_view(struct node_graph *graph, const struct topology_member *view,
                                size_t n) BASE_CHECK;

// What follows for the edges, one at a time until it returns false: an edge comes up (linked, and a neighbour
// now) or goes down (no neighbour any more, or no link).
struct node_graph_change {
    struct gossip_id peer;
    bool up;
};
bool node_graph_next(struct node_graph *graph, struct node_graph_change *change);

bool node_graph_has(const struct node_graph *graph, const struct gossip_id *peer); // in the view
// A member of the view that is no neighbour: its edge can be forgotten.
bool node_graph_is_stranger(const struct node_graph *graph, const struct gossip_id *peer);
// Whom the schedule names for a round, and the weight w of that meeting: x' = (1-w) x + w x_partner; false:
// nobody.
bool node_graph_partner(const struct node_graph *graph, uint64_t round, struct gossip_id *partner,
                        float *weight);

#endif
