// The worker's own state. Private to worker.c (messages in), act.c (what follows) and kept.c (what is given).
#ifndef NODE_AVERAGE_PRIVATE_H
#define NODE_AVERAGE_PRIVATE_H

#include "gossip/host/average.h"
#include "node/average/worker.h"
#include "node/queue/message.h"
#include <pthread.h>

struct node_worker {
    struct node_worker_options options;
    pthread_t thread;
    struct gossip_average *average;
    struct node_round *round;            // under way, or NULL
    const struct node_round *lent;       // at its end: its vectors are at rest
    struct gossip_snapshot_vectors kept; // owned; all but the model, if `keeps`
    bool keeps;
    uint64_t kept_ns, kept_step; // they are copied again then; the step of the copies
    bool edges_dirty;
    uint64_t edges_posted_ns;
    uint64_t served_ns; // when the loop was last told that a member asks for the model
};

// act.c
void node_worker_act(struct node_worker *worker); // carries out what has been decided
void node_worker_follow(struct node_worker *worker);
void node_worker_end_round(struct node_worker *worker);
void node_worker_post(struct node_worker *worker,
                      struct node_message *message); // to the loop; takes the message
void node_worker_live(struct node_worker *worker, struct gossip_life_event event); // for the life

// kept.c
void node_worker_keep(struct node_worker *worker, const struct node_round *round);
void node_worker_drop_kept(struct node_worker *worker);
bool node_worker_rests(const void *owner, struct gossip_snapshot_vectors *vectors); // gossip_average_options

#endif
