// Who is called and when, and what happens to links as time goes by.
#include "lab/sim/sim_link.h"
#include <stdlib.h>

#define HANDSHAKE_NS  (3 * SIM_SECOND)
#define CANDIDATE_NS  (3 * SIM_SECOND) // how long a silent older link stands in the way of a new one
#define IDLE_NS       (10 * SIM_SECOND)
#define BACKOFF_LEAST 100u  // ms
#define BACKOFF_MOST  2000u // ms

static struct sim_link *call(struct sim_node *node, size_t host)
{
    sim_world_trace(node->world, node->host, "call", NULL, host, 0);
    return sim_link_add(node, sim_net_call(&node->world->net, node->host, host), host, true);
}

static uint64_t backoff(struct sim_node *node, uint32_t *backoff_ms)
{
    *backoff_ms = *backoff_ms ? 2 * *backoff_ms : BACKOFF_LEAST;
    if (*backoff_ms > BACKOFF_MOST)
        *backoff_ms = BACKOFF_MOST;
    return sim_node_now(node) + (*backoff_ms / 2 + base_rng_below(&node->rng, *backoff_ms)) * SIM_MS;
}

static void take_up(struct sim_node *node, uint64_t stream, const struct sim_node *other, bool initiator)
{
    struct sim_link *link = sim_link_add(node, stream, other->host, initiator);

    link->peer = other->self;
    link->connected = link->proven = link->greeted = link->heard = true;
    link->heard_ns = link->opened_ns;
    sim_link_adopt(node, link);
}

// Where all is known nobody is called: a link is there as soon as one end wants it.
static void join(struct sim_node *node, size_t peer)
{
    struct sim_world *world = node->world;
    struct sim_node *other = world->node[peer];

    if (!other->running || other->paused || other->peer[node->self].link ||
        !sim_net_open(&world->net, node->host, other->host) ||
        !sim_net_open(&world->net, other->host, node->host))
        return;
    uint64_t stream = sim_net_join(&world->net, node->host, other->host);
    take_up(node, stream, other, true);
    take_up(other, stream, node, false);
    sim_node_wake(other);
}

static void call_member(struct sim_node *node, size_t peer)
{
    struct sim_peer *at = &node->peer[peer];
    struct gossip_member_info info;
    size_t host;

    if (node->world->options.known && !at->link)
        join(node, peer);
    if (node->world->options.known)
        return;

    if (at->link || at->calling || sim_node_now(node) < at->call_ns || !sim_member_info(node, peer, &info) ||
        !info.record->n_addresses ||
        !sim_net_host_of(&node->world->net, &info.record->addresses[at->turn++ % info.record->n_addresses],
                         &host))
        return;
    at->call_ns = backoff(node, &at->backoff_ms);
    at->calling = true;
    call(node, host)->member = peer;
}

static void seek(struct sim_node *node, size_t peer)
{
    if (node->peer[peer].sought)
        return;
    if (!node->sought)
        node->sought = sim_must(calloc(node->world->options.nodes, sizeof *node->sought));
    node->peer[peer].sought = true;
    node->sought[node->n_sought++] = (uint32_t)peer;
}

void sim_link_packet(struct sim_node *node, size_t peer, const uint8_t *bytes, size_t count)
{
    struct sim_peer *at = &node->peer[peer];
    const struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                           .as.members = {.packet = bytes, .packet_bytes = (uint32_t)count}};

    SIM_TELL(node, packet, node, count);
    sim_world_trace(node->world, node->host, "packet", NULL, peer, count);
    if (sim_link_send(node, peer, &message))
        return;
    if (!at->waiting)
        at->waiting = sim_must(calloc(SIM_WAITING_MOST, sizeof *at->waiting));
    if (at->n_waiting < SIM_WAITING_MOST) {
        at->waiting[at->n_waiting].bytes = sim_copy(bytes, count);
        at->waiting[at->n_waiting++].count = count;
    }
    seek(node, peer);
    call_member(node, peer);
}

static void tick_link(struct sim_node *node, struct sim_link *link, uint64_t now_ns)
{
    struct sim_link *current = link->proven ? node->peer[link->peer].link : NULL;

    if (!link->proven) {
        if (now_ns - link->opened_ns > HANDSHAKE_NS)
            sim_link_finish(node, link, "");
    } else if (link->in_use) {
        if (!node->peer[link->peer].wanted && now_ns - link->used_ns > IDLE_NS)
            sim_link_finish(node, link, "idle");
    } else if (!link->heard) {
        if (now_ns - link->opened_ns > 10 * SIM_SECOND)
            sim_link_finish(node, link, "no greeting in time");
    } else if (!current) {
        sim_link_adopt(node, link);
    } else if (now_ns - link->heard_ns > CANDIDATE_NS) {
        sim_link_replace(node, link);
    }
}

static void tick_entry(struct sim_node *node, size_t i, uint64_t now_ns)
{
    struct sim_entry *entry = &node->entry[i];
    struct gossip_member_info info;
    bool stands = entry->stands_for != SIZE_MAX && sim_member_info(node, entry->stands_for, &info) &&
                  info.state != GOSSIP_MEMBER_DEAD && info.state != GOSSIP_MEMBER_LEFT;

    if (entry->self || entry->calling || stands || entry->host == node->host || now_ns < entry->call_ns)
        return;
    entry->call_ns = backoff(node, &entry->backoff_ms);
    entry->calling = true;
    call(node, entry->host)->entry = i;
}

void sim_link_want(struct sim_node *node, size_t peer)
{
    node->peer[peer].wanted = true;
    seek(node, peer);
}

void sim_link_want_none(struct sim_node *node)
{
    for (size_t i = 0; i < node->n_sought; i++)
        node->peer[node->sought[i]].wanted = false;
}

static void tick_sought(struct sim_node *node)
{
    size_t kept = 0, count = node->n_sought;

    for (size_t i = 0; i < count; i++) {
        size_t peer = node->sought[i];
        struct sim_peer *at = &node->peer[peer];
        at->sought = at->wanted || at->n_waiting;
        if (!at->sought)
            continue;
        node->sought[kept++] = (uint32_t)peer;
        call_member(node, peer);
    }
    node->n_sought = kept;
}

void sim_link_tick(struct sim_node *node, uint64_t now_ns)
{
    for (struct sim_link *link = node->links; link && node->running; link = link->next)
        if (!link->closed)
            tick_link(node, link, now_ns);
    for (struct sim_link **at = &node->links; *at;) {
        struct sim_link *link = *at;
        if (!link->closed) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        sim_link_free(link);
    }
    for (size_t i = 0; i < node->entries; i++)
        tick_entry(node, i, now_ns);
    tick_sought(node);
}
