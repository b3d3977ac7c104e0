#include "node/calls.h"
#include "base/rng.h"
#include "node/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_LEAST_NS (200 * NODE_MILLISECOND_NS)
#define PAUSE_MOST_NS  (10 * NODE_SECOND_NS)
#define PAUSE_LATER_NS (30 * NODE_SECOND_NS)

enum state { CALL_PAUSE, CALL_UNDER_WAY, CALL_REACHED };

struct call {
    struct node_calls *calls;
    struct gossip_id id;
    bool keep, open; // open: somewhere in this turn it was not a closed port
    enum state state;
    struct node_address addresses[LIMIT_ADDRESSES];
    size_t count, next;
    uint64_t pause_ns;
    struct event *timer;
};

struct node_calls {
    struct node_calls_options options;
    struct base_rng rng; // jitter
    struct call *list[NODE_CALLS_MOST];
    size_t count;
};

static struct call *find(const struct node_calls *calls, const struct gossip_id *id)
{
    for (size_t i = 0; i < calls->count; i++)
        if (gossip_id_compare(&calls->list[i]->id, id) == 0)
            return calls->list[i];
    return NULL;
}

static void remove_call(struct node_calls *calls, struct call *call)
{
    for (size_t i = 0; i < calls->count; i++)
        if (calls->list[i] == call)
            calls->list[i] = calls->list[--calls->count];
    event_free(call->timer);
    free(call);
}

static void pause_for(struct call *call, uint64_t ns)
{
    double jitter = 0.5 + base_rng_uniform(&call->calls->rng); // 0.5 to 1.5
    struct timeval wait = node_clock_timeval((uint64_t)((double)ns * jitter));
    call->state = CALL_PAUSE;
    event_add(call->timer, &wait);
}

// The owner is told last: what he does may end this call.
static void turn_over(struct call *call)
{
    struct node_calls *calls = call->calls;
    struct gossip_id id = call->id;
    bool closed = call->count > 0 && !call->open;
    if (call->keep) {
        uint64_t pause_ns = call->pause_ns;
        call->pause_ns = 2 * pause_ns < PAUSE_MOST_NS ? 2 * pause_ns : PAUSE_MOST_NS;
        pause_for(call, pause_ns);
    } else {
        remove_call(calls, call);
    }
    calls->options.turned(calls->options.owner, &id, closed);
}

static int open_socket(struct call *call, const struct node_address *address)
{
    int s = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) {
        call->open = true; // says nothing about the other end
        return -1;
    }
    if (connect(s, (const struct sockaddr *)&address->storage, address->bytes) != 0 && errno != EINPROGRESS) {
        call->open |= errno != ECONNREFUSED;
        close(s);
        return -1;
    }
    return s;
}

static void next_address(struct call *call)
{
    while (call->next < call->count) {
        const struct node_address *address = &call->addresses[call->next++];
        int s = open_socket(call, address);
        if (s < 0)
            continue;
        char text[NODE_ADDRESS_TEXT];
        node_address_text(address, text);
        call->state = CALL_UNDER_WAY;
        call->calls->options.calling(call->calls->options.owner, &call->id, s, text);
        return;
    }
    turn_over(call);
}

static void turn(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct call *call = argument;
    call->open = false;
    call->next = 0;
    call->count = call->calls->options.addresses(call->calls->options.owner, &call->id, call->addresses);
    next_address(call);
}

enum base_error node_calls_create(const struct node_calls_options *options, struct node_calls **out)
{
    struct node_calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return BASE_ENOMEM;
    calls->options = *options;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = node_clock_ns();
    base_rng_seed(&calls->rng, seed);
    *out = calls;
    return BASE_OK;
}

void node_calls_destroy(struct node_calls *calls)
{
    if (!calls)
        return;
    while (calls->count > 0)
        remove_call(calls, calls->list[0]);
    free(calls);
}

bool node_calls_begin(struct node_calls *calls, const struct gossip_id *id, bool keep)
{
    struct call *call = find(calls, id);
    if (call) {
        if (keep && !call->keep)
            call->pause_ns = PAUSE_LEAST_NS;
        call->keep |= keep;
        return true;
    }
    call = calls->count < NODE_CALLS_MOST ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return false;
    call->calls = calls;
    call->id = *id;
    call->keep = keep;
    call->pause_ns = PAUSE_LEAST_NS;
    call->timer = event_new(calls->options.base, -1, 0, turn, call);
    if (!call->timer) {
        free(call);
        return false;
    }
    calls->list[calls->count++] = call;
    event_active(call->timer, EV_TIMEOUT, 0); // from the loop, not from inside the owner's call
    return true;
}

void node_calls_failed(struct node_calls *calls, const struct gossip_id *id, bool closed, bool later)
{
    struct call *call = find(calls, id);
    if (!call || call->state != CALL_UNDER_WAY)
        return;
    call->open |= !closed;
    if (later && call->keep)
        pause_for(call, PAUSE_LATER_NS);
    else
        next_address(call);
}

void node_calls_reached(struct node_calls *calls, const struct gossip_id *id)
{
    struct call *call = find(calls, id);
    if (!call)
        return;
    if (!call->keep) {
        remove_call(calls, call);
        return;
    }
    event_del(call->timer);
    call->state = CALL_REACHED;
    call->pause_ns = PAUSE_LEAST_NS;
}

void node_calls_ended(struct node_calls *calls, const struct gossip_id *id)
{
    struct call *call = find(calls, id);
    if (call && call->state == CALL_REACHED)
        pause_for(call, call->pause_ns);
}

void node_calls_stop(struct node_calls *calls, const struct gossip_id *id)
{
    struct call *call = find(calls, id);
    if (call)
        remove_call(calls, call);
}

bool node_calls_keeps(const struct node_calls *calls, const struct gossip_id *id)
{
    const struct call *call = find(calls, id);
    return call && call->keep;
}

void node_calls_keep_only(struct node_calls *calls, const struct gossip_id *ids, size_t count)
{
    for (size_t i = calls->count; i-- > 0;) {
        bool kept = !calls->list[i]->keep;
        for (size_t k = 0; k < count && !kept; k++)
            kept = gossip_id_compare(&ids[k], &calls->list[i]->id) == 0;
        if (!kept)
            remove_call(calls, calls->list[i]);
    }
}
