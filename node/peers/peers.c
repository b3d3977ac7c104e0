#include "node/peers/peers.h"
#include "base/hash.h"
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void node_peers_log(struct node_peers *peers, enum base_log_level level, const char *event,
                    const char *format, ...)
{
    struct base_reason text;
    uint64_t left_out = 0;
    va_list arguments;
    if (!node_allowance_take(&peers->lines, node_clock_ns(), &left_out))
        return;
    va_start(arguments, format);
    vsnprintf(text.text, sizeof text.text, format, arguments);
    va_end(arguments);
    if (left_out > 0)
        base_log(BASE_LOG_WARN, "left_out", "%llu lines about peers were too many and are not here",
                 (unsigned long long)left_out);
    base_log(level, event, "%s", text.text);
}

// -- actions

static void on_entry(struct node_peers *peers, size_t entry)
{
    if (gossip_links_entry(peers->rules, entry)->state == GOSSIP_ENTRY_SELF)
        base_log(BASE_LOG_INFO, "peer_self", "peers: %s is this node itself; left out",
                 node_peers_entry_text(peers, entry));
    peers->options.handler->changed(peers->options.owner);
}

static void on_duplicate(struct node_peers *peers, const struct gossip_links_action *action)
{
    const struct peer_link *link = action->owner;
    const char *said = gossip_close_bye(GOSSIP_CLOSE_DUPLICATE_IDENTITY);
    bool told = !action->at && peers->heard && peers->heard->kind == GOSSIP_BYE;
    peers->options.handler->duplicate(peers->options.owner,
                                      told ? peers->heard->as.bye.reason + strlen(said) : link->address);
}

static void explain(struct node_peers *peers, const struct gossip_links_action *action)
{
    uint8_t packet[LIMIT_DATAGRAM_BYTES];
    const size_t count =
        peers->options.handler->about(peers->options.owner, &action->peer, packet, sizeof packet);
    if (count > 0)
        peer_link_send_members(action->owner, packet, count);
}

static void on_down(struct node_peers *peers, const struct gossip_links_action *action)
{
    struct peer_link *link = action->owner;
    link->active = false;
    peers->options.handler->down(peers->options.owner, &action->peer);
    peers->options.handler->changed(peers->options.owner);
}

static void act(struct node_peers *peers, const struct gossip_links_action *action)
{
    const struct node_peers_handler *handler = peers->options.handler;
    struct peer_link *link = action->owner;
    switch (action->kind) {
    case GOSSIP_LINKS_RESOLVE:
        peer_call_resolve(peers, &action->target);
        break;
    case GOSSIP_LINKS_CALL:
        peer_call_open(peers, action);
        break;
    case GOSSIP_LINKS_GREET:
        peer_link_greet(link);
        break;
    case GOSSIP_LINKS_CLOSE:
        peer_link_close(link, action);
        break;
    case GOSSIP_LINKS_UP:
        peer_link_up(link);
        handler->changed(peers->options.owner);
        break;
    case GOSSIP_LINKS_DOWN:
        on_down(peers, action);
        break;
    case GOSSIP_LINKS_DELIVER:
        peer_link_deliver(link);
        break;
    case GOSSIP_LINKS_SEND:
        peer_link_send_members(link, action->bytes, action->count);
        break;
    case GOSSIP_LINKS_EXPLAIN:
        explain(peers, action);
        break;
    case GOSSIP_LINKS_UNREACHABLE:
        handler->unreachable(peers->options.owner, &action->peer);
        break;
    case GOSSIP_LINKS_DUPLICATE:
        on_duplicate(peers, action);
        break;
    case GOSSIP_LINKS_MISSING:
        handler->missing(peers->options.owner, &action->peer);
        break;
    case GOSSIP_LINKS_ENTRY:
        on_entry(peers, action->target.entry);
        break;
    }
}

static void arm(struct node_peers *peers)
{
    uint64_t due_ns = gossip_links_deadline(peers->rules), now_ns = node_clock_ns();
    if (due_ns == peers->armed_ns || due_ns == UINT64_MAX)
        return;
    struct timeval wait = node_clock_timeval(due_ns > now_ns ? due_ns - now_ns + 1000 : 0);
    peers->armed_ns = due_ns;
    event_add(peers->timer, &wait);
}

void node_peers_carry_out(struct node_peers *peers)
{
    struct gossip_links_action action;
    while (gossip_links_next(peers->rules, &action))
        act(peers, &action);
    arm(peers);
}

// -- events

static void step(struct node_peers *peers, struct gossip_links_event *event)
{
    if (event->now_ns == 0)
        event->now_ns = node_clock_ns();
    event->entropy = base_rng_u64(&peers->rng);
    if (gossip_links_step(peers->rules, event) != BASE_OK)
        base_log(BASE_LOG_ERROR, "links", "out of memory: an event about links was not taken");
}

// From the loop only: what follows calls the owner.
void node_peers_say_now(struct node_peers *peers, struct gossip_links_event event)
{
    step(peers, &event);
    node_peers_carry_out(peers);
}

// From inside a call of the owner, or of an action: what follows comes from the loop.
void node_peers_say_later(struct node_peers *peers, struct gossip_links_event event)
{
    step(peers, &event);
    event_active(peers->waiting, EV_TIMEOUT, 0);
}

static void waiting_now(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    node_peers_carry_out(argument);
}

static void timer_now(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_peers *peers = argument;
    peers->armed_ns = 0;
    node_peers_say_now(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_TIMER});
}

void node_peers_tick(struct node_peers *peers, uint64_t now_ns)
{
    node_peers_say_now(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_TIMER, .now_ns = now_ns});
}

static void turn_away(struct node_peers *peers, int socket, const char *host)
{
    struct gossip_links_totals totals;
    uint64_t now_ns = node_clock_ns();
    close(socket);
    if (peers->turned_away_told_ns != 0 && now_ns - peers->turned_away_told_ns < 10 * NODE_SECOND_NS)
        return;
    peers->turned_away_told_ns = now_ns;
    gossip_links_totals(peers->rules, &totals);
    base_log(
        BASE_LOG_WARN, "half_open_limit",
        "connections wait for their handshake: %zu in all, the latest from %s; more are closed (%llu so far)",
        totals.half_open, host, (unsigned long long)totals.turned_away);
}

static void accepted(void *owner, int socket, const char *address, const char *host)
{
    struct node_peers *peers = owner;
    struct peer_link *link = peer_link_make(peers, address);
    if (!link) {
        close(socket);
        return;
    }
    link->handle = gossip_links_accept(peers->rules, node_clock_ns(),
                                       base_hash_bytes(peers->salt, host, strlen(host)), link);
    if (link->handle == 0) {
        peer_link_free(link);
        turn_away(peers, socket, host);
        return;
    }
    (void)peer_link_open(peers, link, socket);
    arm(peers);
}

// -- life

static enum base_error make_rules(struct node_peers *peers)
{
    const struct node_peers_options *o = &peers->options;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return BASE_EIO;
    base_rng_seed(&peers->rng, seed);
    peers->salt = base_rng_u64(&peers->rng);
    const struct gossip_links_options options = {.self = o->identity->id,
                                                 .greeting = o->greeting,
                                                 .allow = o->allow,
                                                 .entries = o->config->peers.count,
                                                 .salt = peers->salt,
                                                 .now_ns = node_clock_ns()};
    return gossip_links_create(&options, &peers->rules);
}

static enum base_error make_parts(struct node_peers *peers)
{
    struct event_base *base = peers->options.base;
    enum base_error code = make_rules(peers);
    peers->timer = event_new(base, -1, 0, timer_now, peers);
    peers->waiting = event_new(base, -1, 0, waiting_now, peers);
    if (code == BASE_OK && (!peers->timer || !peers->waiting))
        code = BASE_ENOMEM;
    if (code == BASE_OK)
        code = peer_call_create(peers);
    if (code == BASE_OK)
        code = node_listener_create(base, peers->options.listener, accepted, peers, &peers->listener);
    return code;
}

enum base_error node_peers_create(const struct node_peers_options *options, struct node_peers **out)
{
    struct node_peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return BASE_ENOMEM;
    peers->options = *options;
    LIST_INIT(&peers->links);
    enum base_error code = make_parts(peers);
    if (code == BASE_OK)
        *out = peers;
    else
        node_peers_destroy(peers);
    return code;
}

void node_peers_destroy(struct node_peers *peers)
{
    if (!peers)
        return;
    while (!LIST_EMPTY(&peers->links))
        peer_link_free(LIST_FIRST(&peers->links));
    node_listener_destroy(peers->listener);
    peer_call_destroy(peers);
    if (peers->timer)
        event_free(peers->timer);
    if (peers->waiting)
        event_free(peers->waiting);
    gossip_links_destroy(peers->rules);
    explicit_bzero(peers->options.psk, sizeof peers->options.psk);
    free(peers->accounts);
    free(peers);
}

void node_peers_start(struct node_peers *peers)
{
    node_listener_open(peers->listener);
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_START});
}

// -- the owner's wishes

static struct peer_link *active(const struct node_peers *peers, const struct gossip_id *peer)
{
    void *owner;
    (void)gossip_links_active(peers->rules, peer, &owner);
    return owner;
}

bool node_peers_send(struct node_peers *peers, const struct gossip_id *peer, uint8_t *bytes, size_t count)
{
    struct peer_link *link = active(peers, peer);
    if (!link) {
        free(bytes);
        return false;
    }
    gossip_links_sent(peers->rules, link->handle, node_clock_ns());
    return node_link_give(link->link, bytes, count) == BASE_OK;
}

void node_peers_packet(struct node_peers *peers, const struct gossip_id *peer, const uint8_t *packet,
                       size_t count)
{
    struct peer_link *link = active(peers, peer);
    if (link) { // at once: the bytes are the caller's
        gossip_links_sent(peers->rules, link->handle, node_clock_ns());
        peer_link_send_members(link, packet, count);
        return;
    }
    node_peers_say_later(peers,
                         (struct gossip_links_event){
                             .kind = GOSSIP_LINKS_PACKET, .peer = *peer, .bytes = packet, .count = count});
}

void node_peers_want(struct node_peers *peers, const struct gossip_id *ids, size_t count)
{
    node_peers_say_later(peers,
                         (struct gossip_links_event){.kind = GOSSIP_LINKS_WANT, .ids = ids, .count = count});
}

void node_peers_member(struct node_peers *peers, const struct gossip_id *id, bool alive)
{
    node_peers_say_later(
        peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_MEMBER, .peer = *id, .alive = alive});
}

void node_peers_part(struct node_peers *peers, const struct gossip_id *peer, enum gossip_close why)
{
    node_peers_say_later(peers,
                         (struct gossip_links_event){.kind = GOSSIP_LINKS_PART, .peer = *peer, .why = why});
}

void node_peers_close(struct node_peers *peers, const struct gossip_id *peer, const char *why)
{
    struct peer_link *link = active(peers, peer);
    if (!link)
        return;
    snprintf(peers->broken, sizeof peers->broken, "%s", why);
    node_peers_part(peers, peer, GOSSIP_CLOSE_BROKEN);
}

void node_peers_pause(struct node_peers *peers, bool paused)
{
    struct peer_link *link;
    peers->paused = paused;
    LIST_FOREACH(link, &peers->links, others)
    if (link->active)
        node_link_pause(link->link, paused);
}

void node_peers_allow_changed(struct node_peers *peers)
{
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_ALLOW});
}

void node_peers_faults_changed(struct node_peers *peers)
{
    struct peer_link *link;
    LIST_FOREACH(link, &peers->links, others)
    {
        struct gossip_links_event event = {.kind = GOSSIP_LINKS_STALLED, .link = link->handle};
        if (!link->active)
            continue;
        event.on = node_faults_has(peers->options.faults, &link->id);
        node_link_stall(link->link, event.on);
        node_peers_say_later(peers, event);
    }
}

void node_peers_leave(struct node_peers *peers)
{
    node_listener_close(peers->listener);
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_LEAVE});
}

// -- to be seen

bool node_peers_gone(const struct node_peers *peers)
{
    return LIST_EMPTY(&peers->links);
}

bool node_peers_has(const struct node_peers *peers, const struct gossip_id *peer)
{
    return active(peers, peer) != NULL;
}

size_t node_peers_linked(const struct node_peers *peers)
{
    struct gossip_links_totals totals;
    gossip_links_totals(peers->rules, &totals);
    return totals.active;
}

size_t node_peers_entries(const struct node_peers *peers)
{
    return peers->n_entries;
}

const struct gossip_entry *node_peers_entry(const struct node_peers *peers, size_t entry)
{
    return gossip_links_entry(peers->rules, entry);
}

const char *node_peers_entry_text(const struct node_peers *peers, size_t entry)
{
    return peers->options.config->peers.items[entry];
}

size_t node_peers_missing(const struct node_peers *peers, struct gossip_missing *missing, size_t capacity)
{
    return gossip_links_missing(peers->rules, node_clock_ns(), missing, capacity);
}

struct node_peers_counters node_peers_counters(const struct node_peers *peers)
{
    struct gossip_links_totals totals;
    struct gossip_missing none;
    gossip_links_totals(peers->rules, &totals);
    return (struct node_peers_counters){.accepted = totals.accepted + totals.turned_away,
                                        .strangers = peers->strangers,
                                        .turned_away = totals.turned_away,
                                        .refused = totals.refused,
                                        .links = totals.active,
                                        .half_open = totals.half_open,
                                        .missing = node_peers_missing(peers, &none, 0)};
}

struct node_link_traffic node_peers_traffic(const struct node_peers *peers, const struct gossip_id *peer)
{
    struct node_link_traffic sum = {0};
    struct peer_link *link;
    for (size_t i = 0; i < peers->n_accounts; i++)
        if (gossip_id_compare(&peers->accounts[i].id, peer) == 0)
            sum = peers->accounts[i].traffic;
    LIST_FOREACH(link, &peers->links, others)
    if (link->proven && gossip_id_compare(&link->id, peer) == 0) {
        struct node_link_traffic t = node_link_traffic(link->link);
        sum.sent += t.sent;
        sum.received += t.received;
    }
    return sum;
}
