// The loop's message to a slower thread. The loop must never wait, and some message must not be lost: what
// does not fit into the mailbox waits here, in order, and the owner is told to stop reading from peers
// meanwhile. Loop's thread.
#ifndef NODE_QUEUE_OUTBOX_H
#define NODE_QUEUE_OUTBOX_H

#include "node/queue/mailbox.h"
#include "node/queue/message.h"

struct event_base;
struct node_outbox;

// `congested(owner, true)` when message begins to wait, (owner, false) when none does any more.
enum base_error node_outbox_create(struct event_base *base, struct node_mailbox *to,
                                   void (*congested)(void *owner, bool is), void *owner,
                                   struct node_outbox **outbox) BASE_CHECK;
void node_outbox_destroy(struct node_outbox *outbox); // frees what waits
void node_outbox_post(struct node_outbox *outbox, struct node_message *message);
// At the end, with no loop any more: waits until all is in the mailbox, at most two seconds.
void node_outbox_drain(struct node_outbox *outbox);

#endif
