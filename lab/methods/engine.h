// Shared by the engine and its methods. One owner; each job uses one node only.
#ifndef LAB_METHODS_ENGINE_H
#define LAB_METHODS_ENGINE_H

#include "lab/experiment/network.h"
#include "lab/experiment/step_times.h"
#include "lab/methods/graph.h"
#include "lab/methods/rounds.h"

struct rounds_method;

struct rounds_packet { // that a node sends in a round (rounds_compress)
    size_t bytes;
    double kept, whole; // |C(v)|^2, |v|^2 of v = x - replica
};

struct rounds_world {
    const struct lab_rounds_options *options;
    const struct node_config *config; // the experiment's view
    struct node_config view;
    const struct kernels *kernels; // the CPU's
    const struct rounds_method *method;
    void *state; // the method's
    size_t n, d, living;
    bool *gone;         // [n]
    float **x;          // [n] models [d], in host memory
    float *own;         // where the models are, without shard_trainers
    const float *start; // [d] where all begin: the seed model, or zero
    float *zero;
    const float *given; // to rounds_take
    float *scale;       // [n] learning rate x local steps of this round
    struct rounds_graph graph;
    struct lab_links links;
    struct lab_network *network;
    struct lab_step_times step_times;
    struct lab_rounds_node *node; // [n] counters
    struct rounds_packet *packet; // [n] of the latest round
    uint64_t round;               // under way, from 1
    uint64_t ready_ns;            // when the slowest node is at its boundary
    uint64_t end_ns;              // when the last message of the round has arrived
    uint64_t begin_ns;            // of training: after the initial messages of a method
    double energy;                // sim.vector: at the start
};

// A method of averaging. It reads and writes world->x, sends the data that it reads of other nodes, and
// counts the models that it uses. A round's messages begin at ready_ns.
struct rounds_method {
    const char *name; // as in average.method
    bool meets;       // by the schedule: the round's partners are listed
    bool has_graph;   // reads neighbours
    bool has_ring;    // a ring of all, in their order
    bool has_all;     // every pair
    enum base_error (*prepare)(struct rounds_world *world, struct base_reason *why);
    enum base_error (*mix)(struct rounds_world *world, struct base_reason *why);
    // After nodes died: the graph has changed, `before` has the old edges. NULL: not needed.
    enum base_error (*rewire)(struct rounds_world *world, const struct rounds_edges *before,
                              struct base_reason *why);
    void (*drop)(struct rounds_world *world); // state may be NULL or half made
};

extern const struct rounds_method rounds_choco, rounds_dpsgd, rounds_model_average, rounds_allreduce,
    rounds_diloco, rounds_noloco, rounds_sparseloco, rounds_local, rounds_edge_ref;
const struct rounds_method *rounds_method_of(const struct lab_experiment *experiment);

// Bytes on the wire of one exchange message with so many bytes of payload: its header (gossip/wire/README.md,
// messages), in sealed records.
size_t rounds_wire_bytes(const struct rounds_world *world, size_t payload_bytes);
// Sends wire_bytes at at_ns. Returns when they arrive, and extends the round to that time.
uint64_t rounds_wire_send(struct rounds_world *world, size_t from, size_t to, size_t wire_bytes,
                          uint64_t at_ns);
// A ring all-reduce of `bytes` among the living: 2 (n - 1) steps, in each every node sends a part to the next
// (Patarasu, Yuan 2009).
enum base_error rounds_wire_ring(struct rounds_world *world, size_t bytes) BASE_CHECK;
// The partners of the round send each other `bytes` of payload.
void rounds_wire_meetings(struct rounds_world *world, size_t bytes);
// The partners of the round send each other their packets.
void rounds_wire_packets(struct rounds_world *world);
// Every node sends to all its neighbours: its packet, or where `dense` its model.
void rounds_wire_neighbours(struct rounds_world *world, bool dense);
// Every node sends its packet to all others.
void rounds_wire_all(struct rounds_world *world);

// Makes world->packet[node]: the largest elements of x - replica, by average.select, ratio and values, in a
// real packet. The replica receives the values that a receiver decodes. BASE_EFORMAT where an element is not
// finite.
enum base_error rounds_compress(struct rounds_world *world, size_t node, const float *x,
                                float *replica) BASE_CHECK;

// For each living node: run(world, node), on the pool. Returns the error of the first node that has one.
enum base_error rounds_each(struct rounds_world *world,
                            enum base_error (*run)(struct rounds_world *world, size_t node)) BASE_CHECK;
// All living nodes take this model.
enum base_error rounds_take(struct rounds_world *world, const float *model) BASE_CHECK;
// Momentum of the outer step: average.outer_nesterov, or `own` where that is 0.
float rounds_momentum(const struct rounds_world *world, float own);
// Vectors [n] of [d], zeroed; NULL: no memory. Free with rounds_vectors_free; NULL is fine.
float **rounds_vectors(size_t n, size_t d);
void rounds_vectors_free(float **vectors);
void rounds_drop_vectors(struct rounds_world *world); // for methods whose state is such vectors
// Over the living, on the pool, whose number of threads does not change the result: the mean of vectors[n] in
// double precision, rounded once; distance: sum |v_i - mean|^2, norm: |mean|^2. mean: [d].
struct rounds_spread {
    double distance, norm;
};
enum base_error rounds_mean(struct rounds_world *world, float *const *vectors, float *mean,
                            struct rounds_spread *spread) BASE_CHECK;

// Measures the sample of this moment; accuracies and losses go to the nodes' counters, too.
enum base_error rounds_observe(struct rounds_world *world, struct lab_sample *point,
                               struct base_reason *why) BASE_CHECK;

#endif
