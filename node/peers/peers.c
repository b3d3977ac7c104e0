#include "node/peers/peers.h"
#include "base/hash.h"
#include "gossip/reach/relays.h"
#include "node/peers/endpoints.h"
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// -- events

static void waiting_now(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_peers *peers = argument;
    peers->options.ready(peers->options.owner);
}

static void timer_now(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_peers *peers = argument;
    BASE_ASSERT(peers->armed_ns != 0);
    peers->armed_ns = 0;
    node_peers_say_now(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_TIMER});
}

static bool is_stuck(const struct peer_link *link, uint64_t now_ns)
{
    return link->relayed ? gossip_relay_is_late(link->peers->relay, link->stream, now_ns)
                         : node_link_is_stuck(link->link, now_ns);
}

static void look_at_link(struct peer_link *link, uint64_t now_ns)
{
    const bool stuck = link->active && is_stuck(link, now_ns);
    if (stuck == link->stuck)
        return;
    link->stuck = stuck;
    if (stuck)
        peer_tell_stuck(link);
    node_peers_say_later(link->peers, (struct gossip_links_event){
                                          .kind = GOSSIP_LINKS_STUCK, .link = link->handle, .on = stuck});
}

// A member that this node relays for needs their link, even if nothing goes over it for a while.
static bool relays_for(const struct node_peers *peers, const struct gossip_id *peer)
{
    struct gossip_member_info info;
    return !gossip_membership_find(peers->options.membership, peer, &info) &&
           gossip_record_names(info.record, &peers->options.identity->id);
}

void node_peers_tick(struct node_peers *peers, uint64_t now_ns)
{
    struct peer_link *link;
    LIST_FOREACH(link, &peers->links, others) {
        look_at_link(link, now_ns);
        if (link->active && !link->relayed && relays_for(peers, &link->id))
            gossip_links_sent(peers->rules, link->handle, now_ns);
    }
    node_peers_say_now(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_TIMER, .now_ns = now_ns});
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
                                       base_hash_bytes(peers->salt, host, strlen(host)), false, link);
    if (link->handle == 0) {
        peer_tell_turned_away(peers, address);
        peer_link_free(link);
        close(socket);
    } else {
        (void)peer_link_open(peers, link, socket);
    }
    peers->options.ready(peers->options.owner); // an older connection may give way
}

// -- life

static enum base_error make_rules(struct node_peers *peers)
{
    const struct node_peers_options *o = &peers->options;
    uint64_t seed = 0;
    BASE_ASSERT(!peers->rules);
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return BASE_EIO;
    base_rng_seed(&peers->rng, seed);
    peers->salt = base_rng_u64(&peers->rng);
    const struct gossip_links_options options = {.self = o->identity->id,
                                                 .greeting = o->greeting,
                                                 .allow = o->allow,
                                                 .entries = o->config->peers.count,
                                                 .join_rate = o->config->cluster.join_rate,
                                                 .callers_look = true,
                                                 .salt = peers->salt,
                                                 .now_ns = node_clock_ns()};
    return gossip_links_create(&options, &peers->rules);
}

static enum base_error make_parts(struct node_peers *peers)
{
    struct event_base *base = peers->options.base;
    BASE_ASSERT(!peers->timer && !peers->waiting && !peers->listener);
    enum base_error error = make_rules(peers);
    peers->timer = event_new(base, -1, 0, timer_now, peers);
    peers->waiting = event_new(base, -1, 0, waiting_now, peers);
    if (!error && (!peers->timer || !peers->waiting))
        error = BASE_ENOMEM;
    if (!error)
        error = peer_relayed_create(peers);
    if (!error)
        error = peer_call_create(peers);
    if (!error)
        error = node_listener_create(base, peers->options.listener, accepted, peers, &peers->listener);
    return error;
}

enum base_error node_peers_create(const struct node_peers_options *options, struct node_peers **out)
{
    struct node_peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return BASE_ENOMEM;
    peers->options = *options;
    if (peers->options.protocols.most == 0)
        peers->options.protocols = gossip_own_protocols;
    peers->sessions = &peer_link_handler;
    LIST_INIT(&peers->links);
    LIST_INIT(&peers->relayed);
    enum base_error error = make_parts(peers);
    if (!error)
        *out = peers;
    else
        node_peers_destroy(peers);
    return error;
}

void node_peers_destroy(struct node_peers *peers)
{
    if (!peers)
        return;
    while (!LIST_EMPTY(&peers->links))
        peer_link_free(LIST_FIRST(&peers->links));
    peer_relayed_destroy(peers);
    node_listener_destroy(peers->listener);
    peer_call_destroy(peers);
    if (peers->timer)
        event_free(peers->timer);
    if (peers->waiting)
        event_free(peers->waiting);
    gossip_links_destroy(peers->rules);
    free(peers->accounts);
    free(peers->settings);
    free(peers);
}

void node_peers_start(struct node_peers *peers)
{
    node_listener_open(peers->listener);
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_START});
}

// -- the owner's requests

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
    return !node_link_give(link->link, bytes, count);
}

void node_peers_send_all(struct node_peers *peers, const uint8_t *bytes, size_t count)
{
    struct peer_link *link;
    LIST_FOREACH(link, &peers->links, others)
        if (link->active)
            (void)!node_link_send(link->link, bytes, count); // without memory it hears of it from another one
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
    BASE_ASSERT(why[0]);
    snprintf(peers->broken, sizeof peers->broken, "%s", why);
    node_peers_part(peers, peer, GOSSIP_CLOSE_BROKEN);
}

void node_peers_pause(struct node_peers *peers, bool paused)
{
    struct peer_link *link;
    BASE_ASSERT(paused != peers->paused); // the backlog tells each change once
    peers->paused = paused;
    LIST_FOREACH(link, &peers->links, others)
        if (link->active)
            node_link_pause(link->link, paused);
}

void node_peers_allow_changed(struct node_peers *peers)
{
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_ALLOW});
}

void node_peers_secrets_changed(struct node_peers *peers)
{
    struct peer_link *link;
    LIST_FOREACH(link, &peers->links, others)
        if (link->authenticated && !gossip_secrets_marked(peers->options.secrets, link->secret))
            node_peers_say_later(
                peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_REVOKED, .link = link->handle});
}

void node_peers_reachable(struct node_peers *peers, bool reachable)
{
    peers->reachable = reachable;
}

void node_peers_moved(struct node_peers *peers)
{
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_LOOK_ALL});
}

void node_peers_faults_changed(struct node_peers *peers)
{
    struct peer_link *link;
    LIST_FOREACH(link, &peers->links, others) {
        struct gossip_links_event event = {.kind = GOSSIP_LINKS_STALLED, .link = link->handle};
        if (!link->active)
            continue;
        event.on = node_faults_has(peers->options.faults, &link->id);
        node_link_stall(link->link, event.on);
        node_peers_say_later(peers, event);
    }
}

void node_peers_stop_accepting(struct node_peers *peers)
{
    node_listener_close(peers->listener);
}

void node_peers_leave(struct node_peers *peers)
{
    node_peers_stop_accepting(peers);
    node_peers_say_later(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_LEAVE});
}

// -- questions

struct gossip_links *node_peers_rules(struct node_peers *peers)
{
    return peers->rules;
}

struct base_rng *node_peers_rng(struct node_peers *peers)
{
    return &peers->rng;
}

bool node_peers_has(const struct node_peers *peers, const struct gossip_id *peer)
{
    return active(peers, peer) != NULL;
}

const struct gossip_id *node_peers_via(const struct node_peers *peers, const struct gossip_id *peer)
{
    const struct peer_link *link = active(peers, peer);
    return link && link->relayed ? &link->via : NULL;
}

bool node_peers_called(const struct node_peers *peers, const struct gossip_id *peer,
                       struct node_address *theirs)
{
    const struct peer_link *link = active(peers, peer);
    return link && !link->relayed && !link->caller && node_link_peer_address(link->link, theirs);
}

bool node_peers_path(const struct node_peers *peers, const struct gossip_id *peer, struct node_path *path)
{
    const struct peer_link *link = active(peers, peer);
    *path = (struct node_path){0};
    return link && !link->relayed && node_link_path(link->link, path);
}

size_t node_peers_entries(const struct node_peers *peers)
{
    return peers->n_entries;
}

const struct gossip_entry *node_peers_entry(const struct node_peers *peers, size_t entry)
{
    return gossip_links_entry(peers->rules, entry);
}

bool node_peers_entry_is_at(const struct node_peers *peers, size_t entry,
                            const struct gossip_address *addresses, size_t count)
{
    BASE_ASSERT(entry < peers->n_entries);
    const struct node_resolution *r = peers->entry[entry].resolution;
    struct node_address address;
    for (size_t i = 0; i < count; i++) {
        node_address_of(&addresses[i], &address);
        for (size_t k = 0; r && k < r->count; k++)
            if (node_address_equal(&address, &r->addresses[k]))
                return true;
    }
    return false;
}

size_t node_peers_missing(const struct node_peers *peers, struct gossip_missing *missing, size_t capacity)
{
    return gossip_links_missing(peers->rules, node_clock_ns(), missing, capacity);
}

uint64_t node_peers_banned_ns(const struct node_peers *peers, const struct gossip_id *peer)
{
    return gossip_links_banned_ns(peers->rules, node_clock_ns(), peer);
}

struct node_peers_counters node_peers_counters(const struct node_peers *peers)
{
    struct gossip_links_totals totals;
    struct gossip_missing none;
    struct gossip_relay_totals relay;
    gossip_links_totals(peers->rules, &totals);
    gossip_relay_totals(peers->relay, &relay);
    return (struct node_peers_counters){.accepted = totals.accepted + totals.turned_away,
                                        .strangers = peers->strangers,
                                        .turned_away = totals.turned_away,
                                        .refused = totals.refused,
                                        .links = totals.active,
                                        .half_open = totals.half_open,
                                        .forwarded = relay.forwarded,
                                        .forwarded_bytes = relay.bytes,
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
        if (link->authenticated && gossip_id_compare(&link->id, peer) == 0) {
            struct node_link_traffic t = node_link_traffic(link->link);
            sum.sent += t.sent;
            sum.received += t.received;
        }
    return sum;
}
