// The event loop's thread: the cluster (membership, links), HTTP, signals, and the phases of this node from
// waiting to leaving. It never computes on model vectors and never waits for the other threads. Runs on the
// thread that calls node_loop_run.
#ifndef NODE_LOOP_H
#define NODE_LOOP_H

#include "gossip/session/identity.h"
#include "gossip/wire/message.h"
#include "node/config/config.h"
#include "node/queue/counters.h"
#include "node/queue/mailbox.h"
#include "node/store/rounds.h"
#include "node/store/starts.h"
#include "topology/topology.h"
#include "train/scale.h"

struct node_loop;

struct node_loop_options {
    const struct node_config *config; // borrowed, as all below
    struct topology_options topology; // its graph borrowed
    const struct gossip_identity *identity;
    const char *name;                      // node.name, or the beginning of the id
    struct gossip_secrets *secrets;        // reloaded on SIGHUP, as is
    struct gossip_allow_list *allow;       // NULL: any node with the secret
    const struct gossip_id *remover;       // the operator, who may remove members; NULL: nobody
    struct gossip_greeting greeting;       // ours, complete
    size_t message_limit;                  // largest message of a peer, from the model's schema
    struct node_mailbox *inbox;            // to the loop
    struct node_mailbox *worker, *learner; // from the loop
    struct node_mailbox *answers;          // to NODE_MESSAGE_ASK_STATUS: malloc'ed texts; NULL: never asked
    struct node_rounds *rounds;            // the latest, for the page; NULL: none
    struct node_counters *counters;
    struct node_starts starts;
    uint64_t instance_id;                  // random number of this process
    const char *starts_path, *events_path; // NULL: nothing is written
    uint64_t round, step;                  // done so far, from a checkpoint
    uint64_t reach, behind;                // gossip_exchange_reach, gossip_exchange_behind
    const struct train_spread *spreads;    // [columns] of `rows` examples; NULL unless the scaling is
    uint32_t columns;                      // computed from the examples of all nodes
    uint64_t rows;
    uint64_t first_model; // digest of the weights it begins with; 0: resumed
    bool resumed;         // from a checkpoint: this node's state is complete
    bool program;         // a program of the user's own trains
    bool joins; // takes settings of a cluster that trains already: node_loop_run may return NODE_LOOP_JOINS
    bool told_shard; // ... and its shard is one of them: it takes another if a second node has taken the same
    bool signals;    // SIGTERM, SIGINT and SIGHUP are handled
    bool manager;    // this node reports to a service manager, if there is one (notify.h)
};

// Binds both ports, the peers' one for TCP and UDP. BASE_EIO with the reason (a port in use: which, and what
// to do); BASE_EAUTH when a bind that is not loopback has neither secret nor allow-list.
enum base_error node_loop_create(const struct node_loop_options *options, struct node_loop **loop,
                                 struct base_reason *why) BASE_CHECK;
// Runs until NODE_MESSAGE_LEFT is handled, tells the worker to stop, and returns the status of that message.
// SIGTERM and SIGINT make the node leave. After a second SIGINT (base/stop.h), or if another process has this
// identity, it returns NODE_LOOP_ABANDONED at once, while the other threads still work.
#define NODE_LOOP_ABANDONED (-1)
// Returned in the same way if this node is to start again with settings of the cluster: node_loop_taken.
#define NODE_LOOP_JOINS (-3)
int node_loop_run(struct node_loop *loop);
// After the loop has run: why this node did not end normally, as a clause; "": not known.
const char *node_loop_cause(const struct node_loop *loop);
// The settings, one "key=value" per line, and the reason, as a clause; borrowed until the loop is destroyed.
const char *node_loop_taken(const struct node_loop *loop, const char **why);
void node_loop_destroy(struct node_loop *loop);
uint16_t node_loop_port(const struct node_loop *loop);      // the bound peer port
uint16_t node_loop_http_port(const struct node_loop *loop); // 0: none

#endif
