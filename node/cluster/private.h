// What node/cluster/step.c (events into membership), act.c (what follows from them), wires.c (sockets),
// addresses.c (how others reach this node), advertise.c (the addresses that the configuration names),
// mapping.c (the port that a router forwards), tell.c (reports to people and tools) and cluster.c (making,
// requests of the owner) share. Included nowhere else.
#ifndef NODE_CLUSTER_PRIVATE_H
#define NODE_CLUSTER_PRIVATE_H

#include "gossip/reach/mapping.h"
#include "gossip/session/datagram.h"
#include "node/cluster/cluster.h"
#include "node/net/mapper.h"
#include "node/peers/endpoints.h"

struct node_cluster {
    struct node_cluster_options options;
    struct gossip_membership *membership;
    struct gossip_control *control;
    struct gossip_datagrams *datagrams;
    struct node_udp *udp;
    struct node_peers *peers;
    struct node_faults *faults;
    struct node_endpoints *endpoints;
    struct node_events *events;
    struct event *timer;
    bool changed, leaving; // something that a decision may depend on; asked to leave
    struct node_cluster_counters counters;
    struct gossip_reach *reach;
    enum gossip_reach_state reached; // as told
    uint64_t interfaces_ns;          // when they were read
    bool listens_there_only;         // at one address, not at all
    uint16_t port, told_port;        // of the listener; in the addresses
    struct gossip_address told[LIMIT_ADDRESSES];
    size_t n_told;
    struct {                                              // node.advertise
        struct node_resolver *resolver;                   // NULL: it is a number, or not configured
        struct gossip_address addresses[LIMIT_ADDRESSES]; // in use
        size_t count;
        uint64_t asked_ns;
        bool failed; // and the log has said so
    } named;
    struct gossip_mapping mapping;
    struct node_mapper *mapper; // NULL: nothing has been asked
    bool maps;                  // a router may be between others and this host
    bool mapped;                // the address that it forwards is told
};

// step.c. One event of membership; its actions wait for node_cluster_next, and all earlier ones were taken.
enum base_error node_cluster_step(struct node_cluster *cluster,
                                  struct gossip_membership_event *event) BASE_CHECK;
void node_cluster_step_plainly(struct node_cluster *cluster, enum gossip_membership_event_kind kind,
                               const struct gossip_id *peer);
void node_cluster_unreachable(struct node_cluster *cluster, const struct gossip_id *id); // positive evidence
void node_cluster_arm(struct node_cluster *cluster);   // the timer, for membership's deadline
void node_cluster_ready(struct node_cluster *cluster); // the owner takes the events, from the event loop

// wires.c
extern const struct node_udp_handler node_cluster_udp_handler;
bool node_cluster_take_link(struct node_cluster *cluster,
                            const struct node_peers_event *link); // false: nothing for the owner

// addresses.c
enum base_error node_cluster_find_addresses(struct node_cluster *cluster, struct base_reason *why) BASE_CHECK;
void node_cluster_linked(struct node_cluster *cluster, const struct node_peers_event *link);
void node_cluster_unlinked(struct node_cluster *cluster, const struct gossip_id *peer); // directly
void node_cluster_called(struct node_cluster *cluster, const struct node_peers_event *link);
void node_cluster_follow_reach(struct node_cluster *cluster); // now and then: time changes the verdict

// advertise.c
enum base_error node_cluster_advertise(struct node_cluster *cluster, struct base_reason *why) BASE_CHECK;
void node_cluster_advertise_again(struct node_cluster *cluster, uint64_t now_ns); // now and then

// mapping.c
void node_cluster_map_begin(struct node_cluster *cluster, const struct node_address *bound);
void node_cluster_map_on(struct node_cluster *cluster, const struct gossip_address *interfaces,
                         size_t count);                                     // these interfaces from now on
void node_cluster_map_again(struct node_cluster *cluster, uint64_t now_ns); // now and then

// tell.c
void node_cluster_tell_change(struct node_cluster *cluster, const struct gossip_membership_action *action);
void node_cluster_tell_suspected(struct node_cluster *cluster, const struct gossip_membership_action *action);
void node_cluster_tell_generation(struct node_cluster *cluster, uint64_t generation);
void node_cluster_tell_view(struct node_cluster *cluster);
void node_cluster_tell_missing(struct node_cluster *cluster, const struct gossip_id *peer);

#endif
