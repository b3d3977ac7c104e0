// From the view to the edges of a node: the plan of the view (topology/), this node's place in it, which
// edges are up, which slot is claimed and to which nodes links are wanted. Daemon and simulator run these
// objects; the rules below stand nowhere else (gossip/graph/README.md).
//
//     view (gossip/member) -> plan -> graph of this node -+-> links that are wanted (gossip/links), the slot
//     edges, with links and fetching -> gossip/exchange <-+
//
// Pure. A plan and a graph never change once they are made; they are reference-counted, so that several
// owners on any threads can share one: each _keep and each _create needs one _drop. The edges have one owner
// (the worker's thread; the process of a simulation).
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

// view[count], ascending by id, as membership gives it; copied. `options` are read while it is made.
// BASE_EINVAL: options that can't be, more than TOPOLOGY_MEMBERS_MAX members, or members out of order;
// BASE_ENOMEM.
enum base_error gossip_plan_create(const struct topology_options *options, const struct gossip_record *view,
                                   size_t count, struct gossip_plan **plan) BASE_CHECK;
struct gossip_plan *gossip_plan_keep(struct gossip_plan *plan);
void gossip_plan_drop(struct gossip_plan *plan); // NULL is fine
// Whether the plan of this view would be the same; equal views have equal hashes. For an owner that keeps the
// plans of many nodes.
bool gossip_plan_is_of(const struct gossip_plan *plan, const struct gossip_record *view, size_t count);
uint64_t gossip_plan_hash(const struct gossip_record *view, size_t count);

// -- the graph as one node sees it. NULL stands for no view yet: it has no members

struct gossip_graph;

// Takes a reference to the plan. A node that is not in the view has no neighbours. BASE_ELIMIT: it has more
// than `limit` of them; BASE_ENOMEM.
enum base_error gossip_graph_create(struct gossip_plan *plan, const struct gossip_id *self, size_t limit,
                                    struct gossip_graph **graph) BASE_CHECK;
struct gossip_graph *gossip_graph_keep(struct gossip_graph *graph);
void gossip_graph_drop(struct gossip_graph *graph);

size_t gossip_graph_members(const struct gossip_graph *graph);
const struct gossip_id *gossip_graph_member(const struct gossip_graph *graph,
                                            size_t index);                           // ascending by id
bool gossip_graph_has(const struct gossip_graph *graph, const struct gossip_id *id); // it counts
bool gossip_graph_counts(const struct gossip_graph *graph);                          // this node does
// The nodes that this node ever meets, ascending by id.
size_t gossip_graph_neighbours(const struct gossip_graph *graph);
const struct gossip_id *gossip_graph_neighbour(const struct gossip_graph *graph, size_t index);
bool gossip_graph_meets(const struct gossip_graph *graph, const struct gossip_id *id);
// Which node it meets in `round`, and the weight w of that meeting, the same for both: x' = (1-w) x + w
// x_partner. False: none.
bool gossip_graph_partner(const struct gossip_graph *graph, uint64_t round, struct gossip_id *partner,
                          float *weight);
// The slot that this node's record, which now claims `claimed`, is to claim. `trains`: its record says so.
uint32_t gossip_graph_slot(const struct gossip_graph *graph, uint32_t claimed, bool trains);
// The nodes to which links are wanted: all neighbours and more[n_more] (donors), into ids[neighbours +
// n_more]; returns how many. An id may occur twice.
size_t gossip_graph_links(const struct gossip_graph *graph, const struct gossip_id *more, size_t n_more,
                          struct gossip_id *ids);

// -- edges: to neighbours that are linked, and to no others

struct gossip_edges;
struct gossip_exchange;

struct gossip_edge_change {
    struct gossip_id peer;
    bool up;    // LINK_UP or LINK_DOWN of the exchange
    bool unmet; // down: the graph does without the peer now, its link may have ended before
};

// `local`: no edge ever comes up.
enum base_error gossip_edges_create(bool local, struct gossip_edges **edges) BASE_CHECK;
void gossip_edges_destroy(struct gossip_edges *edges);                            // NULL is fine
void gossip_edges_follow(struct gossip_edges *edges, struct gossip_graph *graph); // takes over this reference
const struct gossip_graph *gossip_edges_graph(const struct gossip_edges *edges);  // NULL: none yet
bool gossip_edges_local(const struct gossip_edges *edges);
// A link to `peer` is in use. If it replaces another the edge comes up anew: what the other carried may be
// lost. BASE_ENOMEM changes nothing.
enum base_error gossip_edges_linked(struct gossip_edges *edges, const struct gossip_id *peer) BASE_CHECK;
void gossip_edges_unlinked(struct gossip_edges *edges, const struct gossip_id *peer);
// While the node fetches a model it has none to average: all edges are down.
void gossip_edges_fetching(struct gossip_edges *edges, bool fetching);
// The changes that follow, one at a time until it returns false: first the edges that go down, then those
// that come up, each ascending by id. Events may come in between.
bool gossip_edges_next(struct gossip_edges *edges, struct gossip_edge_change *change);
// At a boundary, before a meeting, until it returns false: `peer` counts but is no longer met, so its edge,
// or what it left when it died, is to be forgotten (FORGET, not dead) before the next call.
bool gossip_edges_forget(struct gossip_edges *edges, const struct gossip_exchange *exchange,
                         struct gossip_id *peer);

#endif
