// The worker's own state. Private to worker.c (messages, rounds), edges.c (which edges exist) and step.c (an
// event and what follows).
#ifndef NODE_AVERAGE_PRIVATE_H
#define NODE_AVERAGE_PRIVATE_H

#include "gossip/graph/graph.h"
#include "gossip/merge/merge.h"
#include "node/average/snapshot.h"
#include "node/average/worker.h"
#include <pthread.h>

struct node_worker {
    struct node_worker_options options;
    pthread_t thread;
    struct gossip_edges *edges;
    struct node_snapshot *snapshot;
    struct gossip_merge *merge;
    struct node_round *round; // under way, or NULL
    bool asks;                // the schedule names `partner` for this round
    struct gossip_id partner;
    bool edges_dirty;
    uint64_t edges_posted_ns;
    uint64_t served_ns; // when the loop was last told that a member asks for the model
};

// merge.c
enum base_error node_worker_make_merge(struct node_worker *worker) BASE_CHECK;
bool node_worker_merging(const struct node_worker *worker); // the learner waits for it
void node_worker_begin_merge(struct node_worker *worker, struct node_round *round);
void node_worker_end_merge(struct node_worker *worker);
void node_worker_merge_heard(struct node_worker *worker, const struct node_message *message);
void node_worker_take_among(struct node_worker *worker, const struct node_message *message);
void node_worker_merge_tick(struct node_worker *worker, uint64_t now_ns);

// step.c. One event of the exchange and what follows from it; now_ns is filled in.
void node_worker_step(struct node_worker *worker, struct gossip_exchange_event *event);
void node_worker_round_done(struct node_worker *worker); // does nothing if no round is under way
void node_worker_post(struct node_worker *worker,
                      struct node_message *message); // to the loop; takes the message
// `owner` is the worker: these two are also the callbacks of the snapshot.
void node_worker_send(void *owner, const struct gossip_id *peer, const struct gossip_message *message);
void node_worker_close(void *owner, const struct gossip_id *peer, const char *why);

// edges.c. After a link, the view or `fetching` has changed: tells the exchange which edges came up or went
// down.
void node_worker_follow_edges(struct node_worker *worker);
void node_worker_link(struct node_worker *worker, const struct gossip_id *peer);
void node_worker_fetching(struct node_worker *worker, bool fetching);
// `dead`: the peer has died. Otherwise it continues to train and is only no longer met.
void node_worker_forget(struct node_worker *worker, const struct gossip_id *peer, bool dead);
// Called at a boundary, before the exchange.
void node_worker_forget_edges(struct node_worker *worker);

#endif
