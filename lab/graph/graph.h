// `p2pml topology show`: a graph, its quality, the cost of a death, as text, JSON, dot or a picture.
// Main thread.
#ifndef LAB_GRAPH_GRAPH_H
#define LAB_GRAPH_GRAPH_H

#include "base/error.h"
#include "topology/file.h"
#include "topology/spectrum.h"
#include <stdio.h>

struct lab_topology {
    struct topology_options options;
    struct topology_graph *graph;    // file: owned
    struct topology_member *members; // [n], named as those of p2pml run
    size_t n, group_size;            // hierarchical: so many consecutive members form a group
    uint64_t rounds;                 // whose meetings the JSON lists, from 1
    struct topology_plan *plan;
    double parameters, ratio; // of the model, of an exchange
};

// With path: the graph of that file; n 0: its nodes. Fills members and plan from the rest.
enum base_error lab_topology_make(struct lab_topology *t, const char *path,
                                  struct base_reason *why) BASE_CHECK;
void lab_topology_drop(struct lab_topology *t);

struct lab_topology_spread { // over the victims that were measured
    double mean, worst;
};

// NaN: too many nodes to compute it.
struct lab_topology_facts {
    struct topology_shape shape;
    uint64_t period, rounds; // period 0: never repeats
    bool rounds_known;       // else: more than `rounds`
    double gap_static, gap_mean;
    double meetings, meetings_max; // per node and round: mean, busiest node
    double index_bits, packet_bytes, dense_bytes;
    bool halves; // all weights are 1/2
    struct {
        size_t victims;
        struct lab_topology_spread torn, fresh, gap, diameter; // torn, fresh: edges between survivors
        size_t disconnected;                                   // victims whose death disconnects the graph
    } death;
};

// Calls `take` with the two members of every edge, the lower index first.
enum base_error lab_topology_each_edge(const struct lab_topology *t,
                                       void (*take)(const struct lab_topology *t, size_t a, size_t b,
                                                    void *context),
                                       void *context) BASE_CHECK;
enum base_error lab_topology_measure(const struct lab_topology *t,
                                     struct lab_topology_facts *facts) BASE_CHECK;

enum base_error lab_topology_text(const struct lab_topology *t, const struct lab_topology_facts *facts,
                                  FILE *out) BASE_CHECK;
enum base_error lab_topology_json(const struct lab_topology *t, const struct lab_topology_facts *facts,
                                  FILE *out) BASE_CHECK;
enum base_error lab_topology_dot(const struct lab_topology *t, FILE *out) BASE_CHECK;
// Writes to stdout: drawn by graphviz where it is installed, for up to 200 nodes, otherwise as a circle.
enum base_error lab_topology_svg(const struct lab_topology *t, struct base_reason *why) BASE_CHECK;

#endif
