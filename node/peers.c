#include "node/clock.h"
#include "node/greet.h"
#include "node/peers_private.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GREETING_NS  (10 * NODE_SECOND_NS) // after the handshake
#define CANDIDATE_NS (3 * NODE_SECOND_NS)  // how long a silent older link stands in the way of a new one

static void entry_calling(void *owner, size_t entry, int socket, const char *address)
{
    struct node_peers *peers = owner;
    struct node_origin origin = {.entry = entry};
    if (!node_channel_add(peers, socket, origin, address, ""))
        node_dial_failed(peers->dial, entry, false);
}

static void entry_turned(void *owner, size_t entry)
{
    struct node_peers *peers = owner;
    if (!node_entries_turned(peers->entries, entry, node_clock_ns()))
        return;
    base_log(BASE_LOG_INFO, "peer_self", "peers: %s is this node itself; left out",
             node_entries_at(peers->entries, entry)->text);
    peers->options.handler->changed(peers->options.owner);
}

static bool entry_blocked(void *owner, size_t entry)
{
    struct node_peers *peers = owner;
    const struct node_entry *e = node_entries_at(peers->entries, entry);
    return e->known && node_faults_has(peers->options.faults, &e->id);
}

static size_t member_addresses(void *owner, const struct gossip_id *id,
                               struct node_address out[LIMIT_ADDRESSES])
{
    struct node_peers *peers = owner;
    if (node_faults_has(peers->options.faults, id))
        return 0; // as if nothing came back
    return peers->options.handler->addresses(peers->options.owner, id, out);
}

static void member_calling(void *owner, const struct gossip_id *id, int socket, const char *address)
{
    struct node_peers *peers = owner;
    struct node_origin origin = {.entry = NO_ENTRY, .called = id};
    if (!node_channel_add(peers, socket, origin, address, ""))
        node_calls_failed(peers->calls, id, false, false);
}

static void member_turned(void *owner, const struct gossip_id *id, bool closed)
{
    struct node_peers *peers = owner;
    if (!node_calls_keeps(peers->calls, id))
        node_packets_drop(peers, id);
    if (closed && !node_channel_adopted(peers, id))
        peers->options.handler->unreachable(peers->options.owner, id);
}

static void accepted(void *owner, int socket, const char *address, const char *host)
{
    struct node_peers *peers = owner;
    struct node_origin origin = {.entry = NO_ENTRY};
    peers->counters.accepted++;
    if (!node_channel_add(peers, socket, origin, address, host))
        node_gate_settled(peers->gate, host);
}

static enum base_error make_parts(struct node_peers *peers)
{
    const struct node_peers_options *o = &peers->options;
    struct node_dial_options dial = {.base = o->base,
                                     .peers = &o->config->peers,
                                     .calling = entry_calling,
                                     .turned = entry_turned,
                                     .blocked = entry_blocked,
                                     .owner = peers};
    struct node_calls_options calls = {.base = o->base,
                                       .addresses = member_addresses,
                                       .calling = member_calling,
                                       .turned = member_turned,
                                       .owner = peers};
    peers->told = calloc(o->config->peers.count + 1, sizeof *peers->told);
    enum base_error code = peers->told ? BASE_OK : BASE_ENOMEM;
    if (code == BASE_OK)
        code = node_entries_create(&o->config->peers, node_clock_ns(), &peers->entries);
    if (code == BASE_OK)
        code = node_dial_create(&dial, &peers->dial);
    if (code == BASE_OK)
        code = node_calls_create(&calls, &peers->calls);
    if (code == BASE_OK)
        code = node_gate_create(o->base, o->listener, accepted, peers, &peers->gate);
    return code;
}

enum base_error node_peers_create(const struct node_peers_options *options, struct node_peers **out)
{
    struct node_peers *peers = calloc(1, sizeof *peers);
    if (!peers)
        return BASE_ENOMEM;
    peers->options = *options;
    LIST_INIT(&peers->channels);
    STAILQ_INIT(&peers->packets);
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
    while (!LIST_EMPTY(&peers->channels)) {
        struct channel *c = LIST_FIRST(&peers->channels);
        LIST_REMOVE(c, others);
        node_link_destroy(c->link);
        free(c);
    }
    node_packets_drop(peers, NULL);
    node_calls_destroy(peers->calls);
    node_dial_destroy(peers->dial);
    node_gate_destroy(peers->gate);
    node_entries_destroy(peers->entries);
    explicit_bzero(peers->options.psk, sizeof peers->options.psk);
    free(peers->accounts);
    free(peers->told);
    free(peers);
}

void node_peers_start(struct node_peers *peers)
{
    node_gate_open(peers->gate);
    node_dial_start(peers->dial);
}

void node_peers_say(struct node_peers *peers, enum base_log_level level, const char *event,
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

bool node_peers_send(struct node_peers *peers, const struct gossip_id *peer, uint8_t *bytes, size_t count)
{
    struct channel *c = node_channel_adopted(peers, peer);
    if (!c) {
        free(bytes);
        return false;
    }
    c->used_ns = node_clock_ns();
    return node_link_give(c->link, bytes, count) == BASE_OK;
}

void node_peers_want(struct node_peers *peers, const struct gossip_id *ids, size_t count)
{
    if (peers->leaving)
        return;
    node_calls_keep_only(peers->calls, ids, count);
    for (size_t i = 0; i < count; i++)
        if (node_calls_begin(peers->calls, &ids[i], true) && node_channel_adopted(peers, &ids[i]))
            node_calls_reached(peers->calls, &ids[i]);
}

void node_peers_entries_of(struct node_peers *peers, const struct gossip_id *id,
                           void (*act)(struct node_dial *, size_t))
{
    for (size_t i = 0; i < node_entries_count(peers->entries); i++) {
        const struct node_entry *e = node_entries_at(peers->entries, i);
        if (e->known && gossip_id_compare(&e->id, id) == 0)
            act(peers->dial, i);
    }
}

void node_peers_member(struct node_peers *peers, const struct gossip_id *id, bool alive)
{
    if (peers->leaving)
        return;
    if (alive)
        node_peers_entries_of(peers, id, node_dial_hold);
    else if (!node_channel_adopted(peers, id))
        node_peers_entries_of(peers, id, node_dial_release);
}

void node_peers_part(struct node_peers *peers, const struct gossip_id *peer, const char *reason)
{
    struct channel *c = node_channel_adopted(peers, peer);
    node_packets_drop(peers, peer);
    if (!c)
        return;
    node_channel_bye(c, reason);
    node_link_finish(c->link);
}

void node_peers_close(struct node_peers *peers, const struct gossip_id *peer, const char *why)
{
    struct channel *c = node_channel_adopted(peers, peer);
    if (!c)
        return;
    node_channel_bye(c, "your messages break the protocol");
    node_link_close(c->link, BASE_EFORMAT, why);
}

void node_peers_pause(struct node_peers *peers, bool paused)
{
    struct channel *c;
    peers->paused = paused;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->adopted)
        node_link_pause(c->link, paused);
}

void node_peers_allow_changed(struct node_peers *peers)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    {
        if (!c->proven || !peers->options.allow || gossip_allow_list_has(peers->options.allow, &c->id))
            continue;
        if (c->adopted)
            node_channel_bye(c, "no longer on the allow-list of this node");
        node_link_close(c->link, BASE_OK, "no longer on the allow-list");
    }
}

void node_peers_faults_changed(struct node_peers *peers)
{
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->adopted)
        node_link_stall(c->link, node_faults_has(peers->options.faults, &c->id));
}

// Nothing went over it for a while, and neither end keeps it.
static void end_if_idle(struct channel *c, uint64_t now_ns)
{
    struct node_peers *peers = c->peers;
    if (c->parted || now_ns - c->used_ns < NODE_PEERS_IDLE_NS || now_ns < c->used_ns ||
        node_calls_keeps(peers->calls, &c->id) || node_faults_has(peers->options.faults, &c->id))
        return;
    c->idle = true;
    node_channel_bye(c, NODE_BYE_IDLE);
    node_link_finish(c->link);
}

void node_peers_tick(struct node_peers *peers, uint64_t now_ns)
{
    struct channel *c;
    node_packets_expire(peers, now_ns);
    LIST_FOREACH(c, &peers->channels, others)
    {
        if (c->adopted)
            end_if_idle(c, now_ns);
        if (!c->proven || c->adopted || c->refused)
            continue;
        struct channel *current = node_channel_adopted(peers, &c->id);
        if (c->heard && current && now_ns - c->heard_ns > CANDIDATE_NS && now_ns > c->heard_ns) {
            node_channel_adopt(c, current);
            return; // the list has changed
        }
        if (!c->heard && now_ns - c->proven_ns > GREETING_NS && now_ns > c->proven_ns)
            node_link_close(c->link, BASE_EFORMAT, "no greeting in time");
    }
}

void node_peers_leave(struct node_peers *peers)
{
    struct channel *c;
    peers->leaving = true;
    node_gate_close(peers->gate);
    for (size_t i = 0; i < node_entries_count(peers->entries); i++)
        node_dial_stop(peers->dial, i);
    node_calls_keep_only(peers->calls, NULL, 0);
    LIST_FOREACH(c, &peers->channels, others)
    {
        if (c->adopted)
            node_channel_bye(c, NODE_BYE_LEAVING);
        node_link_finish(c->link);
    }
}

bool node_peers_gone(const struct node_peers *peers)
{
    return LIST_EMPTY(&peers->channels);
}

bool node_peers_has(const struct node_peers *peers, const struct gossip_id *peer)
{
    return node_channel_adopted(peers, peer) != NULL;
}

const char *node_peers_address(const struct node_peers *peers, const struct gossip_id *peer)
{
    const struct channel *c = node_channel_adopted(peers, peer);
    return c ? c->address : "";
}

size_t node_peers_linked(const struct node_peers *peers)
{
    size_t count = 0;
    struct channel *c;
    LIST_FOREACH(c, &peers->channels, others)
    count += c->adopted;
    return count;
}

const struct node_entries *node_peers_entries(const struct node_peers *peers)
{
    return peers->entries;
}

struct node_peers_counters node_peers_counters(const struct node_peers *peers)
{
    struct node_peers_counters counters = peers->counters;
    counters.turned_away = node_gate_turned_away(peers->gate);
    counters.half_open = node_gate_half_open(peers->gate);
    counters.links = node_peers_linked(peers);
    return counters;
}

struct node_link_traffic node_peers_traffic(const struct node_peers *peers, const struct gossip_id *peer)
{
    struct node_link_traffic sum = {0};
    struct channel *c;
    for (size_t i = 0; i < peers->n_accounts; i++)
        if (gossip_id_compare(&peers->accounts[i].id, peer) == 0)
            sum = peers->accounts[i].traffic;
    LIST_FOREACH(c, &peers->channels, others)
    if (c->proven && gossip_id_compare(&c->id, peer) == 0) {
        struct node_link_traffic t = node_link_traffic(c->link);
        sum.sent += t.sent;
        sum.received += t.received;
    }
    return sum;
}
