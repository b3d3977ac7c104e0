// The topology of the living nodes: the partners that the schedule names in a round, and the neighbours
// of each node. Numbers are those of the nodes, whether or not some are gone. One owner.
#ifndef LAB_METHODS_GRAPH_H
#define LAB_METHODS_GRAPH_H

#include "lab/experiment/experiment.h"
#include "lab/graph/graph.h"

#define ROUNDS_PEERS_MAX (1u << 23) // of all nodes together

// Neighbours: those of node i, ascending, are peers[first[i]] to before peers[first[i + 1]].
struct rounds_edges {
    size_t *first, *peers; // first: [n + 1]; peers NULL: they are more than ROUNDS_PEERS_MAX
};
void rounds_edges_free(struct rounds_edges *edges);
bool rounds_edges_join(const struct rounds_edges *edges, size_t a, size_t b);
static inline size_t rounds_edges_degree(const struct rounds_edges *edges, size_t node)
{
    return edges->first[node + 1] - edges->first[node];
}
// Metropolis-Hastings weight of the edge between two neighbours: 1 / (1 + the larger degree).
double rounds_edges_metropolis(const struct rounds_edges *edges, size_t a, size_t b);

struct rounds_graph {
    size_t n, living;
    struct lab_topology topology; // of all nodes
    struct topology_plan *plan;   // of the living
    size_t *member, *node;        // [n] node -> member of the plan, or TOPOLOGY_NOBODY; and back
    struct rounds_edges edges;
    size_t *partner; // [n] in the round that was listed, or TOPOLOGY_NOBODY
    double *weight;  // [n] of that meeting
};

// The graph of all nodes. The reason names the key at fault.
enum base_error rounds_graph_create(const struct lab_experiment *experiment, struct rounds_graph *graph,
                                    struct base_reason *why) BASE_CHECK;
void rounds_graph_drop(struct rounds_graph *graph);
// Rebuilds the graph without the nodes in gone[n]. *before receives the edges as they were; the caller frees
// them.
enum base_error rounds_graph_rewire(struct rounds_graph *graph, const bool *gone, struct rounds_edges *before,
                                    struct base_reason *why) BASE_CHECK;
void rounds_graph_list(struct rounds_graph *graph, uint64_t round); // fills partner and weight

#endif
