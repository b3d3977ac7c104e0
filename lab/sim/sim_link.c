// Streams of one process: who is called and when, the proof of who is there, greetings, one link a pair (the
// node with the lower id decides), and what the end of a link says about the other end.
#include "gossip/wire/message.h"
#include "lab/sim/sim_process.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDSHAKE_NS  (3 * SIM_SECOND)
#define CANDIDATE_NS  (3 * SIM_SECOND) // how long a silent older link stands in the way of a new one
#define IDLE_NS       (10 * SIM_SECOND)
#define TWINS_LEAST   3u // words of one peer
#define TWIN_NS       (5 * SIM_SECOND)
#define MESSAGE_MOST  (1u << 26)
#define TWIN          "twin" // BYE: there is a working link already
#define BACKOFF_LEAST 100u   // ms
#define BACKOFF_MOST  2000u  // ms

static struct sim_link *find(const struct sim_node *node, uint64_t stream)
{
    for (struct sim_link *link = node->links; link; link = link->next)
        if (link->stream == stream && !link->closed)
            return link;
    return NULL;
}

bool sim_link_send(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct sim_link *link = node->peer[peer].link;

    if (!link)
        return false;
    sim_link_say(node, link, message);
    if (message->kind != GOSSIP_MEMBERS)
        link->used_ns = sim_node_now(node);
    return true;
}

// Links are freed at the next tick, so that nobody holds one that is gone.
static void drop(struct sim_node *node, struct sim_link *link)
{
    link->closed = true;
    if (link->entry != SIZE_MAX)
        node->entry[link->entry].calling = false;
    if (link->member != SIZE_MAX)
        node->peer[link->member].calling = false;
    if (link->in_use) {
        node->peer[link->peer].link = NULL;
        node->links_changed = true;
        sim_world_trace(node->world, node->host, "unlinked", NULL, link->peer, link->bye);
    }
    link->in_use = false;
}

static void finish(struct sim_node *node, struct sim_link *link, const char *why)
{
    if (link->proven) {
        struct gossip_message bye = {.kind = GOSSIP_BYE};
        snprintf(bye.as.bye.reason, sizeof bye.as.bye.reason, "%s", why);
        sim_link_say(node, link, &bye);
    }
    sim_net_close(&node->world->net, node->host, link->stream);
    drop(node, link);
}

void sim_link_close(struct sim_node *node, size_t peer, const char *why)
{
    if (node->peer[peer].link)
        finish(node, node->peer[peer].link, why);
}

static void free_link(struct sim_link *link)
{
    gossip_session_destroy(link->session);
    gossip_sealer_destroy(link->sealer);
    gossip_opener_destroy(link->opener);
    base_buffer_free(&link->in);
    free(link);
}

void sim_link_free_all(struct sim_node *node)
{
    while (node->links) {
        struct sim_link *link = node->links;
        node->links = link->next;
        free_link(link);
    }
}

static struct sim_link *add(struct sim_node *node, uint64_t stream, size_t host, bool initiator)
{
    const struct sim_world *world = node->world;
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = &world->identity[node->self],
                                             .cluster = "sim",
                                             .message_limit = MESSAGE_MOST};
    struct sim_link *link = sim_must(calloc(1, sizeof *link));

    *link = (struct sim_link){.next = node->links,
                              .stream = stream,
                              .host = host,
                              .peer = SIZE_MAX,
                              .entry = SIZE_MAX,
                              .member = SIZE_MAX,
                              .initiator = initiator,
                              .connected = !initiator,
                              .opened_ns = sim_node_now(node)};
    node->links = link;
    if (world->options.sealed && !world->options.known) {
        memcpy(options.psk, world->psk, sizeof options.psk);
        for (size_t i = 0; i < sizeof options.entropy; i++)
            options.entropy[i] = (uint8_t)base_rng_below(&node->rng, 256);
        BASE_ASSERT(gossip_session_create(&options, &link->session) == BASE_OK);
    }
    return link;
}

static void say_who(struct sim_node *node, struct sim_link *link)
{
    struct base_buffer out = {0};

    if (!link->session) {
        sim_link_introduce(node, link);
        return;
    }
    BASE_ASSERT(gossip_session_start(link->session, &out) == BASE_OK);
    sim_link_write(node, link, &out);
}

void sim_link_accepted(struct sim_node *node, uint64_t stream, size_t from)
{
    struct sim_link *link = add(node, stream, from, false);

    if (!link->session)
        say_who(node, link);
}

void sim_link_connected(struct sim_node *node, uint64_t stream)
{
    struct sim_link *link = find(node, stream);

    if (!link)
        return;
    link->connected = true;
    say_who(node, link);
}

static void greet(struct sim_node *node, struct sim_link *link)
{
    const struct sim_learner *learner = node->world->options.learner;
    struct gossip_message message = {.kind = GOSSIP_GREETING,
                                     .as.greeting = {.protocol = GOSSIP_PROTOCOL,
                                                     .version = "sim",
                                                     .parameters = learner ? learner->parameters : 0,
                                                     .life = node->life}};

    snprintf(message.as.greeting.name, sizeof message.as.greeting.name, "node-%02zu", node->self);
    snprintf(message.as.greeting.model, sizeof message.as.greeting.model, "softmax");
    sim_link_say(node, link, &message);
    link->greeted = true;
}

static bool is_lower(const struct sim_node *node, const struct sim_link *link)
{
    return gossip_id_compare(sim_member_id(node, node->self), sim_member_id(node, link->peer)) < 0;
}

static void take_entry(struct sim_node *node, const struct sim_link *link)
{
    if (link->entry == SIZE_MAX)
        return;
    struct sim_entry *entry = &node->entry[link->entry];
    entry->stands_for = link->peer;
    entry->backoff_ms = 0;
}

static void proven(struct sim_node *node, struct sim_link *link, size_t peer)
{
    if (peer == SIZE_MAX) {
        sim_world_break(node->world, node->host, "a session proved an id that nobody has");
        return;
    }
    link->peer = peer;
    link->proven = true;
    take_entry(node, link);
    if (link->member == peer)
        node->peer[peer].backoff_ms = 0;
    if (link->initiator && node->peer[peer].link)
        finish(node, link, "not needed");
    else if (peer == node->self ? !link->initiator : !is_lower(node, link))
        greet(node, link);
}

static void send_waiting(struct sim_node *node, size_t peer)
{
    struct sim_peer *at = &node->peer[peer];
    size_t count = at->n_waiting;

    at->n_waiting = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gossip_message message = {
            .kind = GOSSIP_MEMBERS,
            .as.members = {.packet = at->waiting[i].bytes, .packet_bytes = (uint32_t)at->waiting[i].count}};
        sim_link_send(node, peer, &message);
        free(at->waiting[i].bytes);
    }
}

static void adopt(struct sim_node *node, struct sim_link *link)
{
    if (!link->greeted)
        greet(node, link);
    link->in_use = true;
    link->used_ns = sim_node_now(node);
    node->peer[link->peer].link = link;
    node->peer[link->peer].backoff_ms = 0;
    node->peer[link->peer].twins = 0;
    node->peer[link->peer].edge_up = false; // a link that replaces another: the edge comes up anew
    node->links_changed = true;
    node->world->counts.links++;
    sim_world_trace(node->world, node->host, "linked", NULL, link->peer, link->initiator);
    send_waiting(node, link->peer);
    sim_member_tell(node, GOSSIP_MEMBERSHIP_LINKED, link->peer);
}

static void replace(struct sim_node *node, struct sim_link *link)
{
    finish(node, node->peer[link->peer].link, "replaced");
    adopt(node, link);
}

static void stop_as_twin(struct sim_node *node)
{
    node->world->counts.conflicts++;
    sim_world_trace(node->world, node->host, "conflict", "twin", 0, 0);
    SIM_TELL(node, conflict, node);
    node->stop = true;
}

// Our own id has answered: this very process, or another one.
static void greeted_by_self(struct sim_node *node, struct sim_link *link, uint64_t life)
{
    if (life != node->life)
        stop_as_twin(node);
    else if (link->entry != SIZE_MAX)
        node->entry[link->entry].self = true;
    finish(node, link, "self");
}

// The other end has a working link to this id, and this process has none to it. Once or twice that is the
// rest of a link that was given up here.
static void suspect_twin(struct sim_node *node, size_t peer)
{
    struct sim_peer *at = &node->peer[peer];
    uint64_t now_ns = sim_node_now(node);

    if (at->link)
        return;
    if (at->twins++ == 0)
        at->twin_ns = now_ns;
    if (at->twins >= TWINS_LEAST && now_ns - at->twin_ns >= TWIN_NS)
        stop_as_twin(node);
}

static void greeted(struct sim_node *node, struct sim_link *link, const struct gossip_greeting *theirs)
{
    bool decides = is_lower(node, link);

    link->heard = true;
    link->heard_ns = sim_node_now(node);
    if (link->peer == node->self) {
        greeted_by_self(node, link, theirs->life);
        return;
    }
    if (!node->peer[link->peer].link)
        adopt(node, link);
    else if (!decides)
        replace(node, link); // the lower id has taken this one
}

// A message on the link in use shows that it works: whoever waits to take over is not needed.
static void drop_candidates(struct sim_node *node, const struct sim_link *current)
{
    for (struct sim_link *link = node->links; link; link = link->next)
        if (link != current && !link->closed && link->heard && link->peer == current->peer)
            finish(node, link, TWIN);
}

static void take_members(struct sim_node *node, struct sim_link *link, const struct gossip_message *message)
{
    size_t peer = link->peer;

    if (sim_member_packet(node, peer, GOSSIP_BY_STREAM, message->as.members.packet,
                          message->as.members.packet_bytes))
        return;
    SIM_TELL(node, refused, node, peer);
    sim_link_close(node, peer, "a broken packet");
}

static void take_message(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_message message;

    if (gossip_message_decode(bytes, count, &message) != BASE_OK) {
        SIM_TELL(node, refused, node, link->peer);
        finish(node, link, "a broken message");
    } else if (message.kind == GOSSIP_GREETING) {
        greeted(node, link, &message.as.greeting);
    } else if (message.kind == GOSSIP_BYE) {
        link->bye = true;
        if (strcmp(message.as.bye.reason, TWIN) == 0)
            suspect_twin(node, link->peer);
    } else if (link->in_use) {
        drop_candidates(node, link);
        if (message.kind == GOSSIP_MEMBERS) {
            take_members(node, link, &message);
        } else {
            link->used_ns = sim_node_now(node);
            sim_train_message(node, link->peer, &message);
        }
    }
}

// Returns how many bytes were the handshake's.
static size_t shake_hands(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_session_event event;
    struct base_buffer out = {0};
    size_t consumed = 0;
    enum base_error error = gossip_session_receive(link->session, bytes, count, &consumed, &out, &event);

    sim_link_write(node, link, &out);
    if (error != BASE_OK) {
        sim_world_break(node->world, node->host, "a session broke");
    } else if (event.kind == GOSSIP_SESSION_ESTABLISHED) {
        BASE_ASSERT(gossip_session_split(link->session, &link->sealer, &link->opener) == BASE_OK);
        proven(node, link, sim_world_find(node->world, &event.peer));
    }
    return consumed;
}

static void receive_sealed(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_opened message = {0};

    if (!link->opener) {
        size_t used = shake_hands(node, link, bytes, count);
        bytes += used;
        count -= used;
    }
    if (!link->opener || !count)
        return;
    BASE_ASSERT(base_buffer_append(&link->in, bytes, count, SIZE_MAX) == BASE_OK);
    do {
        size_t consumed = 0;
        if (link->closed || !node->running)
            return;
        if (gossip_opener_take(link->opener, base_buffer_head(&link->in), base_buffer_length(&link->in),
                               &consumed, &message) != BASE_OK) {
            sim_world_break(node->world, node->host, "a session broke");
            return;
        }
        base_buffer_consume(&link->in, consumed);
        if (message.bytes)
            take_message(node, link, message.bytes, message.count);
        free(message.bytes);
    } while (message.bytes);
}

void sim_link_received(struct sim_node *node, uint64_t stream, const uint8_t *bytes, size_t count)
{
    struct sim_link *link = find(node, stream);
    uint32_t peer;

    if (!link)
        return;
    sim_link_count_received(node, link, count);
    if (link->session) {
        receive_sealed(node, link, bytes, count);
    } else if (!link->proven) {
        memcpy(&peer, bytes, sizeof peer);
        proven(node, link, peer);
    } else {
        take_message(node, link, bytes, count);
    }
}

// A link in use that ended without a word, and a refused call of a member, say that its process is gone. A
// timeout says nothing.
void sim_link_ended(struct sim_node *node, uint64_t stream, bool refused, enum sim_end how)
{
    struct sim_link *link = find(node, stream);

    if (!link)
        return;
    bool evidence = refused ? link->member != SIZE_MAX : link->in_use && !link->bye && how != SIM_END_TIMEOUT;
    size_t peer = refused ? link->member : link->peer;
    if (!refused)
        sim_net_close(&node->world->net, node->host, stream);
    drop(node, link);
    sim_world_trace(node->world, node->host, refused ? "refused" : "ended",
                    how == SIM_END_TIMEOUT ? "timeout"
                    : evidence             ? "evidence"
                                           : NULL,
                    link->host, 0);
    if (evidence)
        sim_member_tell(node, GOSSIP_MEMBERSHIP_UNREACHABLE, peer);
}

static struct sim_link *call(struct sim_node *node, size_t host)
{
    sim_world_trace(node->world, node->host, "call", NULL, host, 0);
    return add(node, sim_net_call(&node->world->net, node->host, host), host, true);
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
    struct sim_link *link = add(node, stream, other->host, initiator);

    link->peer = other->self;
    link->connected = link->proven = link->greeted = link->heard = true;
    link->heard_ns = link->opened_ns;
    adopt(node, link);
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
            finish(node, link, "");
    } else if (link->in_use) {
        if (!node->peer[link->peer].wanted && now_ns - link->used_ns > IDLE_NS)
            finish(node, link, "idle");
    } else if (!link->heard) {
        if (now_ns - link->opened_ns > 10 * SIM_SECOND)
            finish(node, link, "no greeting in time");
    } else if (!current) {
        adopt(node, link);
    } else if (now_ns - link->heard_ns > CANDIDATE_NS) {
        replace(node, link);
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
        free_link(link);
    }
    for (size_t i = 0; i < node->entries; i++)
        tick_entry(node, i, now_ns);
    tick_sought(node);
}
