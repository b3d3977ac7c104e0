// A graph from a file: one edge per line, "name name [weight]"; # begins a comment. Either each edge is given
// once, or all edges are given in both directions with the same weight. A weight is checked and otherwise not
// used: all meetings have 1/2. Pure: the caller reads the file.
#ifndef TOPOLOGY_FILE_H
#define TOPOLOGY_FILE_H

#include "topology/topology.h"
#include <stdbool.h>

#define TOPOLOGY_FILE_BYTES_MAX (1u << 26)

// text[bytes]: the content of the file `path`, which is used only in messages. known[n_known]: the existing
// nodes; NULL: the nodes that the file names. Refused, with the line: a line that is not an edge, an unknown
// node, an edge from a node to itself, an edge given twice, two directions that differ. Also refused: a graph
// that is not connected, and more nodes than TOPOLOGY_MEMBERS_MAX.
enum base_error topology_graph_read(const char *path, const char *text, size_t bytes,
                                    const struct topology_member *known, size_t n_known,
                                    struct topology_graph **graph, struct base_reason *why) BASE_CHECK;
void topology_graph_destroy(struct topology_graph *graph);
size_t topology_graph_nodes(const struct topology_graph *graph);
const char *topology_graph_name(const struct topology_graph *graph, size_t node); // in order of first mention
bool topology_graph_has(const struct topology_graph *graph, const char *name);
// The node with the most neighbours, and their number. BASE_ENOMEM.
enum base_error topology_graph_widest(const struct topology_graph *graph, size_t *node,
                                      size_t *degree) BASE_CHECK;
// A hash of the edges in the order of their lines: nodes with equal hashes make the same plans of the same
// members.
uint64_t topology_graph_hash(const struct topology_graph *graph);

#endif
