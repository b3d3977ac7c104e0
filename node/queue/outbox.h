// The loop's messages to a slower thread. The loop must never wait, and some messages must not be lost: those
// that do not fit into the mailbox wait here, in order, and the owner is told to stop reading from peers
// meanwhile. Loop's thread.
#ifndef NODE_QUEUE_OUTBOX_H
#define NODE_QUEUE_OUTBOX_H

#include "node/queue/mailbox.h"
#include "node/queue/message.h"

struct event_base;
struct node_outbox;

// `congested(owner, true)` when messages begin to wait, (owner, false) when none waits any more.
enum base_error node_outbox_create(struct event_base *base, struct node_mailbox *to,
                                   void (*congested)(void *owner, bool is), void *owner,
                                   struct node_outbox **outbox) BASE_CHECK;
void node_outbox_destroy(struct node_outbox *outbox); // frees what waits
void node_outbox_post(struct node_outbox *outbox, struct node_message *message);
// At the end, with no loop any more: waits until all is in the mailbox, at most two seconds.
void node_outbox_drain(struct node_outbox *outbox);

#endif
