// From the view to the edges of a node: the plan of the view (topology/), the place of this node in it, which
// edges are up, which slot is claimed and to which nodes links are wanted. The daemon and the simulator use
// these objects; these rules are nowhere else (gossip/graph/README.md).
//
//     view (gossip/member) -> plan -> graph of this node -+-> wanted links (gossip/links), the record's slot
//                                                         +-> edges, with links and fetching
//                                                                 -> gossip/exchange
//
// Pure. Plans and graphs are immutable and reference-counted, so several owners on any threads can share one:
// each _keep and each _create needs one _drop. The edges have one owner (the worker's thread; the process of
// a simulation).
#ifndef GOSSIP_GRAPH_GRAPH_H
#define GOSSIP_GRAPH_GRAPH_H

#include "base/error.h"
#include "gossip/member/record.h"
#include "topology/topology.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// -- the plan of a view, the same on all nodes

struct gossip_plan;

// view[count], ascending by id, as membership provides it; copied. `options` are read only during the call.
// BASE_EINVAL: invalid options, more than TOPOLOGY_MEMBERS_MAX members, or members out of order. BASE_ENOMEM.
enum base_error gossip_plan_create(const struct topology_options *options, const struct gossip_record *view,
                                   size_t count, struct gossip_plan **plan) BASE_CHECK;
struct gossip_plan *gossip_plan_keep(struct gossip_plan *plan);
void gossip_plan_drop(struct gossip_plan *plan); // NULL is fine
// Whether the plan of this view would be the same; equal views have equal hashes. For an owner that shares
// plans between many nodes.
bool gossip_plan_is_of(const struct gossip_plan *plan, const struct gossip_record *view, size_t count);
uint64_t gossip_plan_hash(const struct gossip_record *view, size_t count);

// -- the graph as one node sees it. NULL: there is no view yet, and no members

struct gossip_graph;

// Takes a reference to the plan. A node that is not in the view has no neighbours. BASE_ELIMIT: the node has
// more than `limit` neighbours. BASE_ENOMEM.
enum base_error gossip_graph_create(struct gossip_plan *plan, const struct gossip_id *self, size_t limit,
                                    struct gossip_graph **graph) BASE_CHECK;
struct gossip_graph *gossip_graph_keep(struct gossip_graph *graph);
void gossip_graph_drop(struct gossip_graph *graph);

size_t gossip_graph_members(const struct gossip_graph *graph);
bool gossip_graph_has(const struct gossip_graph *graph, const struct gossip_id *id); // is it in the graph?
bool gossip_graph_counts(const struct gossip_graph *graph); // is this node in the graph?
// The nodes that this node ever meets, ascending by id.
size_t gossip_graph_neighbours(const struct gossip_graph *graph);
const struct gossip_id *gossip_graph_neighbour(const struct gossip_graph *graph, size_t index);
bool gossip_graph_meets(const struct gossip_graph *graph, const struct gossip_id *id);
// The node that this node meets in `round`, and the weight w of that meeting, the same for both: x' = (1-w) x
// + w x_partner. False: it meets none.
bool gossip_graph_partner(const struct gossip_graph *graph, uint64_t round, struct gossip_id *partner,
                          float *weight);
// The most rounds from one meeting with a neighbour to the next with it; where the schedule never repeats, or
// names a neighbour very rarely, a bound. A neighbour in step is at most this far ahead: then it waits for
// this node.
uint64_t gossip_graph_turn(const struct gossip_graph *graph);
// The slot that this node's record should claim; it now claims `claimed`. `trains`: the record says that the
// node trains.
uint32_t gossip_graph_slot(const struct gossip_graph *graph, uint32_t claimed, bool trains);
// Writes the nodes to which links are wanted, all neighbours and more[n_more] (donors), to ids[neighbours +
// n_more]; returns their number. An id may occur twice.
size_t gossip_graph_links(const struct gossip_graph *graph, const struct gossip_id *more, size_t n_more,
                          struct gossip_id *ids);

// -- edges: to linked neighbours only

struct gossip_edges;
struct gossip_exchange;

struct gossip_edge_change {
    struct gossip_id peer;
    bool up;    // LINK_UP or LINK_DOWN of the exchange
    bool unmet; // down: the graph no longer contains an edge to the peer, whose link may have ended earlier
};

// `local`: no edge ever comes up.
enum base_error gossip_edges_create(bool local, struct gossip_edges **edges) BASE_CHECK;
void gossip_edges_destroy(struct gossip_edges *edges);                            // NULL is fine
void gossip_edges_follow(struct gossip_edges *edges, struct gossip_graph *graph); // takes over this reference
const struct gossip_graph *gossip_edges_graph(const struct gossip_edges *edges);  // NULL: none yet
bool gossip_edges_local(const struct gossip_edges *edges);
// A link to `peer` is in use. If it replaces another link the edge starts again, because messages on the
// other link may be lost. BASE_ENOMEM changes nothing.
enum base_error gossip_edges_linked(struct gossip_edges *edges, const struct gossip_id *peer) BASE_CHECK;
void gossip_edges_unlinked(struct gossip_edges *edges, const struct gossip_id *peer);
// While the node fetches a model, it has none to average, and all edges are down.
void gossip_edges_fetching(struct gossip_edges *edges, bool fetching);
// Returns the pending changes, one per call until it returns false: first the edges that go down, then those
// that come up, each ascending by id. Other functions may be called in between.
bool gossip_edges_next(struct gossip_edges *edges, struct gossip_edge_change *change);
// Call this at a boundary, before a meeting, until it returns false: `peer` is in the graph but no longer
// met. Send FORGET (not dead) for it before the next call; that drops its edge, or the correction that was
// kept when it died.
bool gossip_edges_forget(struct gossip_edges *edges, const struct gossip_exchange *exchange,
                         struct gossip_id *peer);

#endif
