// Counts the bytes of messages of peers that wait for the worker. Beyond the limit the owner reads nothing
// more from any link until the worker has caught up. A message counts with its struct, so this bounds their
// number, too. Loop's thread; a message that is charged may be freed on any thread.
#ifndef NODE_QUEUE_BACKLOG_H
#define NODE_QUEUE_BACKLOG_H

#include "base/error.h"
#include "node/queue/message.h"

#define NODE_BACKLOG_BYTES                                                                                   \
    (16u * 1024u * 1024u) // and two messages of the largest size; a message counts with its struct

struct event_base;
struct node_backlog;

// `bytes` outlives every message that was charged. `congested(owner, true)` when it goes over the limit,
// (owner, false) when it is below half of it again.
enum base_error node_backlog_create(struct event_base *base, _Atomic size_t *bytes, size_t limit,
                                    void (*congested)(void *owner, bool is), void *owner,
                                    struct node_backlog **backlog) BASE_CHECK;
void node_backlog_destroy(struct node_backlog *backlog);
void node_backlog_charge(struct node_backlog *backlog, struct node_message *message); // until it is freed

#endif
