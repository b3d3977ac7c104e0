// The graph as it was read. Shared by topology/file.c, which reads it, and topology/file_plan.c, which makes
// plans of it.
#ifndef TOPOLOGY_FILE_PRIVATE_H
#define TOPOLOGY_FILE_PRIVATE_H

#include "topology/file.h"

#define TOPOLOGY_NO_NODE UINT32_MAX

struct topology_given { // an edge as a line gives it
    uint32_t from, to, line;
    double weight;
};

struct topology_graph {
    char (*names)[LIMIT_NODE_NAME_BYTES];
    uint32_t *line; // the first line that names each node; 0: none does
    uint32_t n, names_room;
    uint32_t *index; // [index_room] hash table of nodes by name, or TOPOLOGY_NO_NODE
    uint32_t index_room;
    struct topology_given *edges;
    size_t n_edges;
    unsigned directions; // 1: each edge is given once; 2: in both directions
};

uint32_t topology_graph_find(const struct topology_graph *graph, const char *name); // or TOPOLOGY_NO_NODE

// Connected parts by union-find: parent[n], in which each node is a part of its own at first (NULL: out of
// memory), and the part of one node.
uint32_t *topology_parts_alone(size_t n);
uint32_t topology_part_of(uint32_t *parent, uint32_t node);

#endif
