#include "node/queue/backlog.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdlib.h>

#define LOOK_NS (2 * NODE_MILLISECOND_NS)

struct node_backlog {
    _Atomic size_t *bytes;
    size_t limit;
    bool full;
    struct event *look;
    void (*congested)(void *owner, bool is);
    void *owner;
};

static void look_again(struct node_backlog *backlog)
{
    struct timeval wait = node_clock_timeval(LOOK_NS);
    event_add(backlog->look, &wait);
}

static void look(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_backlog *backlog = argument;
    BASE_ASSERT(backlog->full); // else no link waits
    if (atomic_load(backlog->bytes) > backlog->limit / 2) {
        look_again(backlog);
        return;
    }
    backlog->full = false;
    backlog->congested(backlog->owner, false);
}

enum base_error node_backlog_create(struct event_base *base, _Atomic size_t *bytes, size_t limit,
                                    void (*congested)(void *owner, bool is), void *owner,
                                    struct node_backlog **out)
{
    struct node_backlog *backlog = calloc(1, sizeof *backlog);
    if (!backlog)
        return BASE_ENOMEM;
    *backlog = (struct node_backlog){.bytes = bytes, .limit = limit, .congested = congested, .owner = owner};
    backlog->look = event_new(base, -1, 0, look, backlog);
    if (!backlog->look) {
        free(backlog);
        return BASE_ENOMEM;
    }
    *out = backlog;
    return BASE_OK;
}

void node_backlog_destroy(struct node_backlog *backlog)
{
    if (!backlog)
        return;
    event_free(backlog->look);
    free(backlog);
}

void node_backlog_charge(struct node_backlog *backlog, struct node_message *message)
{
    BASE_ASSERT(!message->charged); // its bytes count once
    message->charged = backlog->bytes;
    const size_t size = node_message_size(message);
    const size_t before = atomic_fetch_add(backlog->bytes, size);
    if (backlog->full || before + size <= backlog->limit)
        return;
    backlog->full = true;
    look_again(backlog);
    backlog->congested(backlog->owner, true);
}
