// A bounded queue of pointers between two threads: any number of posters, one taker. Posting an item passes
// its ownership on.
#ifndef NODE_QUEUE_MAILBOX_H
#define NODE_QUEUE_MAILBOX_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

struct node_mailbox;

enum base_error node_mailbox_create(size_t capacity, struct node_mailbox **mailbox) BASE_CHECK;
// Items still inside are handed to `release` (may be NULL).
void node_mailbox_destroy(struct node_mailbox *mailbox, void (*release)(void *item));
// BASE_ELIMIT when full: the caller still owns the item.
enum base_error node_mailbox_post(struct node_mailbox *mailbox, void *item) BASE_CHECK;
// For the loop, which must not wait: posts even if the box is full, and never fails.
void node_mailbox_put(struct node_mailbox *mailbox, void *item);
// While it is full, tries again every millisecond until `deadline_ns`.
enum base_error node_mailbox_post_by(struct node_mailbox *mailbox, void *item,
                                     uint64_t deadline_ns) BASE_CHECK;
// The same without a deadline, for a box whose taker continues until it knows that nothing more comes.
void node_mailbox_deliver(struct node_mailbox *mailbox, void *item);
// Waits until `deadline_ns` (CLOCK_MONOTONIC; 0: don't wait, UINT64_MAX: for ever). NULL when nothing came.
void *node_mailbox_take(struct node_mailbox *mailbox, uint64_t deadline_ns);
// An eventfd that is readable while the box is not empty (level-triggered; take() clears it).
int node_mailbox_descriptor(struct node_mailbox *mailbox);

#endif
