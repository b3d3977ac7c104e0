// The mailboxes of a learner thread. The test plays the loop, which gives orders, and the worker.
#ifndef TEST_SUPPORT_LEARNER_BOXES_H
#define TEST_SUPPORT_LEARNER_BOXES_H

#include "node/queue/mailbox.h"
#include "node/queue/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct learner_boxes {
    struct node_mailbox *inbox, *worker, *loop;
};

static inline void boxes_create(struct learner_boxes *boxes)
{
    assert_int_equal(node_mailbox_create(64, &boxes->inbox), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &boxes->worker), BASE_OK);
    assert_int_equal(node_mailbox_create(1024, &boxes->loop), BASE_OK);
}

static inline void boxes_destroy(struct learner_boxes *boxes)
{
    node_mailbox_destroy(boxes->inbox, node_message_free);
    node_mailbox_destroy(boxes->worker, node_message_free);
    node_mailbox_destroy(boxes->loop, node_message_free);
}

static inline void boxes_post(struct learner_boxes *boxes, struct node_message *message)
{
    assert_int_equal(node_mailbox_post(boxes->inbox, message), BASE_OK);
}

// `on`: a START or ALONE that fetches, or a PAUSE that begins.
static inline void boxes_order(struct learner_boxes *boxes, enum gossip_order_kind kind, bool on)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ORDER);
    message->as.order =
        (struct gossip_order){.kind = kind, .fetch = on && kind != GOSSIP_ORDER_PAUSE, .on = on};
    boxes_post(boxes, message);
}

// The next message of this kind from the learner to the worker.
static inline struct node_message *boxes_take(struct learner_boxes *boxes, enum node_message_kind kind)
{
    struct node_message *message = node_mailbox_take(boxes->worker, UINT64_MAX);
    assert_int_equal(message->kind, kind);
    return message;
}

#endif
