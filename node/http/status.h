// What a node reports about itself, from one snapshot: JSON for programs, the Prometheus text format (version
// 0.0.4) for monitoring. Pure: no clock, no sockets. NaN becomes null in JSON and is left out of the metrics.
#ifndef NODE_HTTP_STATUS_H
#define NODE_HTTP_STATUS_H

#include "gossip/life/life.h"
#include "gossip/member/member.h"
#include "node/cluster/cluster.h"
#include "node/http/history.h"
#include "node/net/connection.h"
#include "node/queue/message.h"
#include "node/store/rounds.h"

struct node_status_edge {
    struct gossip_edge_info edge;
    const char *name; // of the peer; "" when not (or no longer) known
    struct node_link_traffic traffic;
    double sent_per_s, received_per_s; // bytes; NAN: not known
};

struct node_status_member {
    const struct gossip_record *record;
    enum gossip_member_state state;
    uint64_t since_ns;
    bool linked, neighbour;
    const char *via; // name of the member over which the link goes; NULL: it is direct, or there is none
    bool mapped;     // it is direct, and came over the port that this node's router forwards
    struct node_path path; // of a direct link; zeros: not known
    uint64_t banned_ns;    // for how long it is not let in; 0: it is
    uint64_t quiet_ns;     // of a neighbour: node_meets_quiet_ns
    uint64_t round, step;  // last reported; 0: never
    double steps_per_s;    // NAN: not known
};

struct node_status_entry { // of the peer list
    const char *text;
    struct gossip_entry shown;
};

struct node_status_settings { // those that node_fit_of compares with what is measured
    const char *profile;      // "lan"
    bool sync;
    uint64_t local_steps, ceiling_ns; // ceiling 0: nothing is averaged
};

struct node_status {
    const char *name, *cluster, *version, *model, *directory; // borrowed, as all pointers
    struct gossip_id id;
    uint64_t parameters, bytes_sent, bytes_received;
    uint64_t started_ns, now_ns; // monotonic
    double time;                 // unix, in seconds
    struct node_status_settings settings;
    struct node_progress progress;
    uint64_t steps;                    // at which training ends; 0: it trains until it is stopped
    uint64_t still_ns;                 // since the latest step, if that is unusually long; else 0
    double weight;                     // of its gradients, by the examples of all nodes; 0: all count alike
    double expected_exchanges;         // of its own rounds, by the graph now; 0: none or not known
    unsigned pauses;                   // enum gossip_life_pause bits
    double sent_per_s, received_per_s; // bytes to and from all peers; NAN: not known
    const struct node_history *history;
    struct gossip_exchange_totals totals;
    struct node_peers_counters peers;
    const char *reach;               // "unknown", "reachable", "private"
    double relay;                    // node.relay
    char outside[NODE_ADDRESS_TEXT]; // where others see this node, if not at an address of its own; ""
    struct node_cluster_mapping mapping;
    const struct gossip_removed *removed;     // the operator's list; NULL: this node has no operator
    const struct node_status_member *members; // this node first
    size_t n_members;
    struct gossip_membership_totals membership;
    struct node_cluster_counters cluster_counters;
    const struct node_status_entry *entries;
    size_t n_entries;
    const struct gossip_missing *missing; // neighbours that have had no link for long
    size_t n_missing;
    const struct node_events *events;
    struct node_rounds *rounds; // the latest
    const struct node_status_edge *edges;
    size_t n_edges;
};

// NULL: no such member.
const struct node_status_member *node_status_member_of(const struct node_status *status,
                                                       const struct gossip_id *id);

char *node_status_json(const struct node_status *status);    // malloc'ed; NULL: out of memory
char *node_status_metrics(const struct node_status *status); // malloc'ed; NULL: out of memory
char *node_status_history(const struct node_status *status); // the curve's points as JSON, likewise
// What `p2pml why` tells of a round (0: the latest), as JSON: "first" and "last" round that can be told;
// "rows", lines of metrics.jsonl (node_rounds_about); "events" from the line before the round to the one
// after; "events_from", the time from which all events are kept, or null; "set_back",
// node_rounds_part.set_back_s; "names" of members in the rows; "wait".
char *node_status_round(const struct node_status *status, uint64_t round);

#endif
