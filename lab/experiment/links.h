// Properties of the links between simulated hosts: sim.latency, sim.jitter, sim.loss and sim.bandwidth, and
// the exceptions of sim.links. Pure functions.
#ifndef LAB_EXPERIMENT_LINKS_H
#define LAB_EXPERIMENT_LINKS_H

#include "base/error.h"
#include "node/schema/tree.h"

struct lab_link {
    uint64_t latency_ns, jitter_ns; // one way; mean of an exponential delay on top
    double loss;                    // chance that a packet is lost
    double bandwidth;               // Mbit/s; 0: no bound
};

struct lab_link_rule;
struct lab_links {
    size_t nodes;
    struct lab_link common; // bandwidth: of a host's access, each way
    struct lab_link_rule *rules;
    size_t count;
};

// Reads and checks sim.links for `nodes` nodes. BASE_EINVAL: the reason does not name the place in the file;
// *where does, and *links is empty.
enum base_error lab_links_read(const struct node_tree *tree, size_t nodes, const struct lab_link *common,
                               struct lab_links *links, const struct node_tree **where,
                               struct base_reason *why) BASE_CHECK;
void lab_links_free(struct lab_links *links);

// The properties of the link between a and b, the same both ways. Its bandwidth is 0 unless an exception has
// one, which is then a limit in addition to those of the two hosts.
void lab_links_between(const struct lab_links *links, size_t a, size_t b, struct lab_link *link);
bool lab_links_bound(const struct lab_links *links); // an exception has a bandwidth

#endif
