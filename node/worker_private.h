// The worker's own state. Private to worker.c (mail, rounds, messages) and worker_edges.c (which edges there
// are).
#ifndef NODE_WORKER_PRIVATE_H
#define NODE_WORKER_PRIVATE_H

#include "node/graph.h"
#include "node/snapshot.h"
#include "node/worker.h"
#include <pthread.h>

#define NODE_WORKER_UP_MOST (2 * NODE_GRAPH_NEIGHBOURS) // between two views, those of both

struct node_worker {
    struct node_worker_options options;
    pthread_t thread;
    struct node_graph *graph;
    struct gossip_id up[NODE_WORKER_UP_MOST]; // whose edges the graph has told to come up
    size_t n_up;
    struct node_snapshot *snapshot;
    bool graph_changed;    // since the latest round
    bool absent_forgotten; // edges from a checkpoint whose peers did not come
    uint64_t started_ns;
    struct node_round *round; // being settled, or NULL
    bool asks;                // its schedule names a partner:
    struct gossip_id partner;
    bool edges_dirty;
    uint64_t edges_posted_ns;
};

// One event of the exchange and what follows from it; now_ns is filled in.
void node_worker_step(struct node_worker *worker, struct gossip_exchange_event *event);

// After a link or the view has changed, as `code` says: tells the exchange which edges came up or went down.
// While this node fetches a model it has none to average: all edges are down.
void node_worker_follow_graph(struct node_worker *worker, enum base_error code);
void node_worker_step_all_up(struct node_worker *worker, enum gossip_exchange_event_kind kind);
// `dead`: what the peer knew is gone with it. A stranger trains on and is only met no more.
void node_worker_forget(struct node_worker *worker, const struct gossip_id *peer, bool dead);
// At a boundary.
void node_worker_forget_edges(struct node_worker *worker);

#endif
