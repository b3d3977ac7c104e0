#include "node/dial.h"
#include "base/log.h"
#include "base/rng.h"
#include "node/clock.h"
#include "node/config.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_LEAST_NS   (200 * NODE_MILLISECOND_NS)
#define PAUSE_MOST_NS    (10 * NODE_SECOND_NS)
#define PAUSE_REFUSED_NS (30 * NODE_SECOND_NS)
#define REMIND_NS        (300 * NODE_SECOND_NS) // a name that still does not resolve is told again so often

enum call { CALL_PAUSE, CALL_ASKED, CALL_UNDER_WAY, CALL_HELD, CALL_STOPPED };

struct entry {
    struct node_dial *dial;
    size_t index;
    const char *text; // "host:port" as configured
    char host[LIMIT_HOST_BYTES];
    uint16_t port;
    enum call state;
    struct node_address addresses[NODE_RESOLVE_ADDRESSES];
    size_t count, next;
    uint64_t pause_ns, told_ns;
    struct event *timer;
};

struct node_dial {
    struct node_dial_options options;
    struct node_resolver *resolver;
    struct event *answered;
    struct base_rng rng; // jitter
    size_t count;
    struct entry *entries;
};

static void pause_for(struct entry *entry, uint64_t ns)
{
    double jitter = 0.5 + base_rng_uniform(&entry->dial->rng); // 0.5 to 1.5
    struct timeval wait = node_clock_timeval((uint64_t)((double)ns * jitter));
    entry->state = CALL_PAUSE;
    event_add(entry->timer, &wait);
}

static void next_turn(struct entry *entry)
{
    uint64_t pause_ns = entry->pause_ns;
    entry->pause_ns = 2 * pause_ns < PAUSE_MOST_NS ? 2 * pause_ns : PAUSE_MOST_NS;
    pause_for(entry, pause_ns);
}

static int open_socket(const struct node_address *address)
{
    int s = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -1;
    if (connect(s, (const struct sockaddr *)&address->storage, address->bytes) != 0 && errno != EINPROGRESS) {
        close(s);
        return -1;
    }
    return s;
}

static void call_next_address(struct entry *entry)
{
    while (entry->next < entry->count) {
        const struct node_address *address = &entry->addresses[entry->next++];
        int s = open_socket(address);
        if (s < 0)
            continue;
        char text[NODE_ADDRESS_TEXT];
        node_address_text(address, text);
        entry->state = CALL_UNDER_WAY;
        entry->dial->options.calling(entry->dial->options.owner, entry->index, s, text);
        return;
    }
    next_turn(entry);
    entry->dial->options.turned(entry->dial->options.owner, entry->index); // may stop it
}

static void turn(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct entry *entry = argument;
    const struct node_dial_options *o = &entry->dial->options;
    if ((o->blocked && o->blocked(o->owner, entry->index)) ||
        node_resolver_ask(entry->dial->resolver, entry->index, entry->host, entry->port) != BASE_OK)
        next_turn(entry);
    else
        entry->state = CALL_ASKED;
}

static void unresolved(struct entry *entry, const char *problem)
{
    uint64_t now = node_clock_ns();
    if (entry->told_ns == 0 || now - entry->told_ns > REMIND_NS) {
        base_log(BASE_LOG_WARN, "peer_unresolved",
                 "peers: %s can't be resolved (%s); training goes on without it, it is tried again",
                 entry->text, problem);
        entry->told_ns = now;
    }
    next_turn(entry);
}

static void answered(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_dial *dial = argument;
    for (struct node_resolution *r; (r = node_resolver_take(dial->resolver)) != NULL; free(r)) {
        if (r->ticket >= dial->count || dial->entries[r->ticket].state != CALL_ASKED)
            continue;
        struct entry *entry = &dial->entries[r->ticket];
        if (r->count == 0) {
            unresolved(entry, r->problem);
            continue;
        }
        entry->told_ns = 0;
        entry->count = r->count;
        entry->next = 0;
        // Not all begin with the same one of a name's addresses.
        size_t first = base_rng_below(&dial->rng, r->count);
        for (size_t i = 0; i < r->count; i++)
            entry->addresses[i] = r->addresses[(first + i) % r->count];
        call_next_address(entry);
    }
}

static enum base_error make_entries(struct node_dial *dial)
{
    const struct node_texts *peers = dial->options.peers;
    dial->entries = calloc(peers->count ? peers->count : 1, sizeof *dial->entries);
    if (!dial->entries)
        return BASE_ENOMEM;
    for (size_t i = 0; i < peers->count; i++) {
        struct entry *entry = &dial->entries[i];
        dial->count = i + 1;
        entry->dial = dial;
        entry->index = i;
        entry->text = peers->items[i];
        entry->pause_ns = PAUSE_LEAST_NS;
        struct base_reason why;
        enum base_error code = node_address_parse(entry->text, entry->host, &entry->port, &why);
        if (code != BASE_OK)
            return code;
        entry->timer = event_new(dial->options.base, -1, 0, turn, entry);
        if (!entry->timer)
            return BASE_ENOMEM;
    }
    return BASE_OK;
}

enum base_error node_dial_create(const struct node_dial_options *options, struct node_dial **out)
{
    struct node_dial *dial = calloc(1, sizeof *dial);
    if (!dial)
        return BASE_ENOMEM;
    dial->options = *options;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = node_clock_ns();
    base_rng_seed(&dial->rng, seed);
    enum base_error code = node_resolver_create(&dial->resolver);
    if (code == BASE_OK)
        code = make_entries(dial);
    if (code != BASE_OK)
        goto fail;
    code = BASE_ENOMEM;
    dial->answered = event_new(options->base, node_resolver_descriptor(dial->resolver), EV_READ | EV_PERSIST,
                               answered, dial);
    if (!dial->answered || event_add(dial->answered, NULL) != 0)
        goto fail;
    *out = dial;
    return BASE_OK;
fail:
    node_dial_destroy(dial);
    return code;
}

void node_dial_destroy(struct node_dial *dial)
{
    if (!dial)
        return;
    for (size_t i = 0; i < dial->count; i++)
        if (dial->entries[i].timer)
            event_free(dial->entries[i].timer);
    if (dial->answered)
        event_free(dial->answered);
    node_resolver_destroy(dial->resolver);
    free(dial->entries);
    free(dial);
}

void node_dial_start(struct node_dial *dial)
{
    for (size_t i = 0; i < dial->count; i++)
        turn(-1, 0, &dial->entries[i]);
}

void node_dial_failed(struct node_dial *dial, size_t index, bool refused)
{
    struct entry *entry = &dial->entries[index];
    if (entry->state != CALL_UNDER_WAY)
        return;
    if (refused)
        pause_for(entry, PAUSE_REFUSED_NS);
    else
        call_next_address(entry);
}

void node_dial_hold(struct node_dial *dial, size_t index)
{
    struct entry *entry = &dial->entries[index];
    if (entry->state == CALL_STOPPED)
        return;
    event_del(entry->timer);
    entry->state = CALL_HELD;
    entry->pause_ns = PAUSE_LEAST_NS;
}

void node_dial_release(struct node_dial *dial, size_t index)
{
    struct entry *entry = &dial->entries[index];
    if (entry->state == CALL_HELD)
        pause_for(entry, PAUSE_LEAST_NS);
}

void node_dial_release_later(struct node_dial *dial, size_t index)
{
    struct entry *entry = &dial->entries[index];
    if (entry->state == CALL_HELD)
        pause_for(entry, PAUSE_REFUSED_NS);
}

void node_dial_stop(struct node_dial *dial, size_t index)
{
    struct entry *entry = &dial->entries[index];
    event_del(entry->timer);
    entry->state = CALL_STOPPED;
}
