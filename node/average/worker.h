// The worker thread: owns the exchange object (published model, edge references, compression), sends
// snapshots to members that join late or fetches one for this node, and begins checkpoints while nothing
// changes. Messages in, messages out.
#ifndef NODE_AVERAGE_WORKER_H
#define NODE_AVERAGE_WORKER_H

#include "gossip/exchange/exchange.h"
#include "node/queue/counters.h"
#include "node/queue/mailbox.h"

struct node_worker;
struct node_round;

struct node_worker_options {
    struct gossip_exchange *exchange; // becomes the worker's while it runs
    struct gossip_id self;
    uint64_t merge_patience_ns; // struct gossip_merge_options
    bool judges;                // the learner answers JUDGE
    bool local;                 // no edge ever comes up and no round meets a peer; links stay as they are
    struct node_mailbox *inbox, *loop, *learner; // borrowed, like the counters
    struct node_counters *counters;
    // Begins a checkpoint, or writes it (the last one); called on the worker thread while learner and edges
    // are at rest. Also reports, at every rendezvous, the result of one that was begun: an error is reported
    // once. May be NULL.
    enum base_error (*checkpoint)(void *context, const struct node_round *round, struct base_reason *why);
    enum base_error (*checkpoint_ended)(void *context, struct base_reason *why);
    bool (*checkpoint_wanted)(const void *context); // soon, whenever the next one is due; may be NULL
    // Keeps the records of a step, before its messages are sent. May be NULL.
    void (*journal)(void *context, const uint8_t *records, size_t bytes);
    void *checkpoint_context;
};

enum base_error node_worker_start(const struct node_worker_options *options,
                                  struct node_worker **worker) BASE_CHECK;
void node_worker_join(struct node_worker *worker); // after NODE_MESSAGE_STOP was posted; frees

#endif
