// The cluster as the loop sees it: adapts gossip/host to sockets and time. It owns the membership object, the
// sealing of datagrams, the datagram socket, the links and events.jsonl; it turns actions into datagrams,
// stream messages and calls, and persists generations. What a change means for this node is decided by
// gossip/host. Loop's thread.
#ifndef NODE_CLUSTER_CLUSTER_H
#define NODE_CLUSTER_CLUSTER_H

#include "gossip/graph/graph.h"
#include "gossip/host/control.h"
#include "gossip/member/member.h"
#include "node/net/udp.h"
#include "node/peers/peers.h"
#include "node/store/events.h"
#include "node/store/starts.h"

struct node_cluster;
struct node_streams;

enum node_cluster_event_kind {
    NODE_CLUSTER_LINK,     // `link`: UP, DOWN, MESSAGE, STATISTICS, REMOVED, CONFLICT or SETTINGS
    NODE_CLUSTER_MEMBER,   // `peer` has a new `state`
    NODE_CLUSTER_VIEW,     // `graph` is that of a new view; the owner releases it
    NODE_CLUSTER_LIFE,     // `life`: what the life of this node has decided
    NODE_CLUSTER_CONFLICT, // membership says that another process runs with this identity and was here first
    NODE_CLUSTER_CHANGED,  // something that a decision may depend on
};
struct node_cluster_event {
    enum node_cluster_event_kind kind;
    struct node_peers_event link;
    struct gossip_id peer;
    enum gossip_member_state state;
    struct gossip_graph *graph;
    struct gossip_life_action life; // its pointers are valid until the next event
};

struct node_cluster_options {
    struct node_peers_options links;  // its last two fields are ignored
    struct topology_options topology; // its graph borrowed
    const char *name;
    struct node_starts starts;
    uint64_t first_model; // of this node's record, as `examples`
    uint32_t examples;
    uint64_t instance_id;
    const char *starts_path, *events_path; // NULL: not persisted
    struct gossip_address pages;           // of the HTTP port, as a record has it
    struct gossip_life_edges edges;        // what the life reads of this node's exchange
    bool (*gathered)(const void *owner, const struct gossip_id *peer); // struct gossip_life_world
    int datagrams; // bound to the listener's address and port; becomes this object's after success
};

// BASE_EIO, with the reason: node.advertise cannot be resolved, or events.jsonl or the fault file cannot be
// opened.
enum base_error node_cluster_create(const struct node_cluster_options *options, struct node_cluster **cluster,
                                    struct base_reason *why) BASE_CHECK;
void node_cluster_destroy(struct node_cluster *cluster); // NULL is fine. Members see this as a crash
void node_cluster_start(struct node_cluster *cluster);
// The next event, to be taken when the links call `ready`; false: there is none. The order is that of
// gossip_control_next.
bool node_cluster_next(struct node_cluster *cluster, struct node_cluster_event *event);
// Accepts no more links, tells all members that this node leaves, then ends the links. It keeps telling while
// the loop runs.
void node_cluster_leave(struct node_cluster *cluster);

// What this node's life, links and members are to each other. Events of its life go there.
struct gossip_control *node_cluster_control(const struct node_cluster *cluster);
void node_cluster_reload_faults(struct node_cluster *cluster);
// Datagrams use these secrets from now on. BASE_ENOMEM: nothing has changed.
enum base_error node_cluster_secrets(struct node_cluster *cluster,
                                     const struct gossip_secrets *secrets) BASE_CHECK;
// An event about this node, without a member: start, paused, ...
void node_cluster_tell(struct node_cluster *cluster, const char *event, const char *line);
void node_cluster_warn(struct node_cluster *cluster, const char *event,
                       const char *line); // a warning in the log

void node_cluster_tell_takeover(struct node_cluster *cluster, const uint32_t *orphans, size_t count);

struct node_peers *node_cluster_peers(struct node_cluster *cluster);
// An entry of the peer list. An entry that has not answered this node's calls is shown as the member that
// announces its address; such a member is not missing.
struct gossip_entry node_cluster_entry(const struct node_cluster *cluster, size_t entry);
// How others reach this node; `outside`: where they see it, if that is another address than its own; else "".
enum gossip_reach_state node_cluster_reach(const struct node_cluster *cluster,
                                           char outside[NODE_ADDRESS_TEXT]);
// What the router does for this node.
struct node_cluster_mapping {
    const char *state; // "off", "not built", "not asked", "no answer", "refused", "mapped", "not told"
    const char *by;    // "UPnP", "NAT-PMP"; NULL: nobody has answered
    char address[NODE_ADDRESS_TEXT]; // that it forwards; "": none
};
struct node_cluster_mapping node_cluster_mapping(const struct node_cluster *cluster);
// The link in use to this member was called from outside over the port that the router forwards.
bool node_cluster_came_mapped(const struct node_cluster *cluster, const struct gossip_id *peer);
const struct gossip_membership *node_cluster_membership(const struct node_cluster *cluster);
const struct node_events *node_cluster_events(const struct node_cluster *cluster);
const struct gossip_graph *node_cluster_graph(const struct node_cluster *cluster); // NULL: no view yet

struct node_cluster_counters {
    struct node_udp_counters datagrams;
    uint64_t refused;            // datagrams that did not open, and packets that broke the layout
    uint64_t suspicions, deaths; // of others
};
struct node_cluster_counters node_cluster_counters(const struct node_cluster *cluster);

#endif
