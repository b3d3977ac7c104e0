// A few exchange objects, joined by ordered links in one process under virtual time, for tests of averaging
// without sockets and threads. Links deliver in order, may be cut at any message, and may be slow. All
// randomness comes from one seed.
#ifndef TEST_SUPPORT_EXCHANGE_NET_H
#define TEST_SUPPORT_EXCHANGE_NET_H

#include "base/rng.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/tell.h"
#include "topology/topology.h"

struct net_message {
    size_t from, to;
    uint64_t due_ns;
    uint8_t *bytes;
    size_t count;
    struct net_message *next;
};

struct net_node {
    struct gossip_exchange *exchange;
    struct gossip_exchange_options options;
    float *x, *v, *correction; // the trainer's vectors; v may be NULL
    float *held;               // the same; NULL without options.hold
    bool in_round;             // between ROUND and ROUND_DONE
    uint64_t round;            // of the latest ROUND
    uint64_t rounds_done;
    bool paused; // takes neither messages nor timers
    uint64_t pace_ns;
    bool idle;
    bool others, unusable;           // of the next ROUND
    enum gossip_standing standing;   // of the next ROUND
    uint64_t goes_on;                // the round that the latest ROUND_DONE gave
    uint64_t free_ns;                // when its line is free again (bandwidth)
    uint64_t bytes_out, payload_out; // whole messages; only deltas, blocks and moments
};

struct net_refusal { // a REFUSE that is not carried out yet: the link of the two ends then
    size_t by, peer;
    enum gossip_refusal why;
};
#define NET_REFUSALS 16u

struct net;
struct net {
    size_t nodes, parameters;
    struct net_node *node;
    bool *up; // [nodes * nodes] links, symmetric
    enum topology_kind topology;
    struct topology_plan *plan; // node i is member i, at position i of the ring or in slot i
    struct base_rng rng;
    uint64_t now_ns, delay_ns, jitter_ns;
    double cut_chance;  // probability that a message cuts its link, and is lost with everything else on it
    double loss_chance; // probability that a message is lost and its link stays: a sender out of memory
    uint64_t bandwidth; // bytes per second that a node can send over all its links; 0: unlimited
    size_t cuts, implausible; // implausible: messages refused because of their values
    struct net_refusal refusal[NET_REFUSALS];
    size_t n_refusals;
    bool correction_stays; // struct gossip_exchange_event, of all nodes
    bool forgets;          // a node may return to an older state: messages that do not fit end their links
    // Called after every step with its actions, before they are carried out; may be NULL.
    void (*watch)(struct net *net, size_t node, const struct gossip_exchange_event *event,
                  const struct gossip_exchange_actions *actions);
    void *watcher;
    const struct gossip_teller *teller; // told of every step; may be NULL
    struct net_message *first, **last;
    float step_scale;
    float *start;
};

#define NET_GROUP 3u // nodes 0 to 2 are a group (hierarchical), and so on

// Node i's id sorts as i. options->self, kernels, parameters, start and model are filled in; all nodes
// publish `start` (zero).
struct net *net_create(size_t nodes, size_t parameters, enum topology_kind topology, uint64_t seed,
                       const struct gossip_exchange_options *options);
void net_destroy(struct net *net);
struct gossip_id net_id(size_t node);
size_t net_index(const struct gossip_id *id);         // of net_id
void net_link(struct net *net, size_t a, size_t b);   // LINK_UP on both ends
void net_unlink(struct net *net, size_t a, size_t b); // drops what is under way; LINK_DOWN on both ends
void net_link_all(struct net *net);                   // all pairs that the topology lets meet
// Tells only `a`, while the link stays, that `b` is no longer a neighbour, or is one.
void net_tell(struct net *net, size_t a, enum gossip_exchange_event_kind kind, size_t b);
// Passes one event to a node and carries out its actions, except refusals: net_settle closes those links,
// with `forgets`, and opens them again. Returns the error of the step.
enum base_error net_step(struct net *net, size_t node, struct gossip_exchange_event *event);
// Starts round `round` on a node with the partner that the topology gives (or none).
void net_round(struct net *net, size_t node, uint64_t round);
// Delivers messages and timers until nothing is under way and no node waits, or until `limit_ns` of virtual
// time have passed.
void net_settle(struct net *net, uint64_t limit_ns);
// One round of every node, and then net_settle.
void net_round_all(struct net *net, uint64_t round);
void net_node_restart(struct net *net, size_t node, struct gossip_exchange *fresh);
// Draws what the node sends (values, selection, filters) and restarts it: the other end reads anything.
void net_node_chooses_sending(struct net *net, size_t node, struct base_rng *rng);

double net_energy(const struct net *net);           // sum over nodes of |x_i - mean|^2
void net_mean(const struct net *net, double *mean); // [parameters]
bool net_references_match(const struct net *net);   // r bit-identical, c opposite, on every live edge
bool net_edge_matches(const struct net *net, size_t a, size_t b); // for one edge; true if it is not live
uint64_t net_count(const struct net *net,
                   size_t offset); // sum of a counter over all edges: offsetof(struct gossip_edge_info, ...)
const struct gossip_edge_info *net_edge(const struct net *net, size_t a, size_t b,
                                        struct gossip_edge_info *info);
uint64_t net_seed(uint64_t initial); // P2PML_SEED or `initial`; prints it

#endif
