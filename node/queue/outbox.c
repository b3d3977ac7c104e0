#include "node/queue/outbox.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdlib.h>

#define RETRY_NS (2 * NODE_MILLISECOND_NS)

struct waiting {
    struct waiting *next;
    struct node_message *message;
};

struct node_outbox {
    struct node_mailbox *to;
    struct waiting *first, **last;
    struct event *retry;
    void (*congested)(void *owner, bool is);
    void *owner;
};

static bool push(struct node_outbox *outbox)
{
    while (outbox->first && node_mailbox_post(outbox->to, outbox->first->message) == BASE_OK) {
        struct waiting *sent = outbox->first;
        outbox->first = sent->next;
        free(sent);
    }
    if (!outbox->first)
        outbox->last = &outbox->first;
    BASE_ASSERT(!*outbox->last); // the list ends there
    return !outbox->first;
}

static void retry(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_outbox *outbox = argument;
    struct timeval wait = node_clock_timeval(RETRY_NS);
    if (push(outbox))
        outbox->congested(outbox->owner, false);
    else
        event_add(outbox->retry, &wait);
}

enum base_error node_outbox_create(struct event_base *base, struct node_mailbox *to,
                                   void (*congested)(void *owner, bool is), void *owner,
                                   struct node_outbox **out)
{
    struct node_outbox *outbox = calloc(1, sizeof *outbox);
    if (!outbox)
        return BASE_ENOMEM;
    outbox->to = to;
    outbox->last = &outbox->first;
    outbox->congested = congested;
    outbox->owner = owner;
    outbox->retry = event_new(base, -1, 0, retry, outbox);
    if (!outbox->retry) {
        free(outbox);
        return BASE_ENOMEM;
    }
    *out = outbox;
    return BASE_OK;
}

void node_outbox_destroy(struct node_outbox *outbox)
{
    if (!outbox)
        return;
    while (outbox->first) {
        struct waiting *left = outbox->first;
        outbox->first = left->next;
        node_message_free(left->message);
        free(left);
    }
    event_free(outbox->retry);
    free(outbox);
}

void node_outbox_post(struct node_outbox *outbox, struct node_message *message)
{
    BASE_ASSERT(message && !*outbox->last);
    if (!outbox->first && node_mailbox_post(outbox->to, message) == BASE_OK)
        return;
    struct waiting *waiting = calloc(1, sizeof *waiting);
    BASE_ASSERT(waiting != NULL); // like node_message_new: a few bytes
    bool begins = !outbox->first;
    waiting->message = message;
    *outbox->last = waiting;
    outbox->last = &waiting->next;
    if (begins) {
        struct timeval wait = node_clock_timeval(RETRY_NS);
        event_add(outbox->retry, &wait);
        outbox->congested(outbox->owner, true);
    }
}

void node_outbox_drain(struct node_outbox *outbox)
{
    uint64_t deadline_ns = node_clock_ns() + 2 * NODE_SECOND_NS;
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    while (!push(outbox) && node_clock_ns() < deadline_ns)
        nanosleep(&moment, NULL);
}
