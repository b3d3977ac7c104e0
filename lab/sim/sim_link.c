// The links of a process: gossip/links decides which exist, this file carries out its decisions.
#include "lab/sim/sim_link.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX (1u << 26)

struct sim_link *sim_link_find(const struct sim_node *node, uint64_t stream)
{
    for (struct sim_link *link = node->links.list; link; link = link->next)
        if (link->stream == stream && !link->closed)
            return link;
    return NULL;
}

bool sim_link_send(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct sim_link *link = node->peer[peer].link;

    if (!link)
        return false;
    gossip_links_sent(node->links.rules, link->handle, sim_node_now(node));
    sim_link_say(node, link, message);
    return true;
}

// -- actions

static void greet(struct sim_node *node, struct sim_link *link)
{
    const struct gossip_message message = {.kind = GOSSIP_GREETING, .as.greeting = node->links.greeting};
    struct sim_node *other = node->world->node[link->host];

    if (!node->world->options.known) {
        sim_link_say(node, link, &message);
        return;
    }
    struct sim_link *theirs = sim_link_find(other, link->stream); // both ends know at once
    if (theirs)
        sim_link_tell(other, (struct gossip_links_event){.kind = GOSSIP_LINKS_GREETING,
                                                         .link = theirs->handle,
                                                         .greeting = &node->links.greeting});
}

static void close_link(struct sim_node *node, struct sim_link *link, enum gossip_close why)
{
    const char *reason = gossip_close_bye(why);
    struct gossip_message bye = {.kind = GOSSIP_BYE};

    if (link->closed)
        return;
    if (reason && link->authenticated) {
        snprintf(bye.as.bye.reason, sizeof bye.as.bye.reason, "%s", reason);
        sim_link_say(node, link, &bye);
    }
    sim_link_end(node, link, GOSSIP_END_OTHER);
}

static void up(struct sim_node *node, struct sim_link *link)
{
    struct sim_peer *at = &node->peer[link->peer];

    at->link = link;
    sim_average_link(node, link->peer, true);
    node->world->counts.links++;
    sim_world_trace(node->world, node->host, "linked", NULL, link->peer, link->initiator);
    if (!node->world->options.known)
        sim_world_trace(node->world, node->host, "tell", NULL, GOSSIP_MEMBERSHIP_LINKED, link->peer);
}

static void down(struct sim_node *node, struct sim_link *link)
{
    node->peer[link->peer].link = NULL;
    sim_average_link(node, link->peer, false);
    sim_world_trace(node->world, node->host, "unlinked", NULL, link->peer, 0);
}

static void unreachable(struct sim_node *node, const struct gossip_id *id)
{
    size_t peer = sim_world_find(node->world, id);

    sim_world_trace(node->world, node->host, "evidence", NULL, peer, 0);
    sim_member_unreachable(node, peer);
}

static void send_packet(struct sim_node *node, struct sim_link *link, const uint8_t *bytes, size_t count)
{
    const struct gossip_message message = {.kind = GOSSIP_MEMBERS,
                                           .as.members = {.packet = bytes, .packet_bytes = (uint32_t)count}};

    if (!link->closed)
        sim_link_say(node, link, &message);
}

static void explain(struct sim_node *node, struct sim_link *link, const struct gossip_id *peer)
{
    uint8_t bytes[LIMIT_DATAGRAM_BYTES];
    const size_t count = node->member.membership
                             ? gossip_membership_about(node->member.membership, peer, bytes, sizeof bytes)
                             : 0;

    if (count > 0)
        send_packet(node, link, bytes, count);
}

void sim_link_act(struct sim_node *node, const struct gossip_links_action *action)
{
    struct sim_link *link = action->owner;

    switch (action->kind) {
    case GOSSIP_LINKS_RESOLVE:
        sim_call_resolve(node, &action->target);
        break;
    case GOSSIP_LINKS_CALL:
        sim_call_open(node, action);
        break;
    case GOSSIP_LINKS_GREET:
        if (!link->closed)
            greet(node, link);
        break;
    case GOSSIP_LINKS_CLOSE:
        if (link) // else its call could not be made
            close_link(node, link, action->why);
        break;
    case GOSSIP_LINKS_UP:
        up(node, link);
        break;
    case GOSSIP_LINKS_DOWN:
        down(node, link);
        break;
    case GOSSIP_LINKS_DELIVER:
        sim_link_deliver(node, link);
        break;
    case GOSSIP_LINKS_SEND:
        send_packet(node, link, action->bytes, action->count);
        break;
    case GOSSIP_LINKS_EXPLAIN:
        explain(node, link, &action->peer);
        break;
    case GOSSIP_LINKS_UNREACHABLE:
        unreachable(node, &action->peer);
        break;
    case GOSSIP_LINKS_MISSING:
        sim_world_trace(node->world, node->host, "no link", NULL, sim_world_find(node->world, &action->peer),
                        action->since_ns);
        break;
    case GOSSIP_LINKS_DUPLICATE: // these two: for its life
    case GOSSIP_LINKS_ENTRY:
    case GOSSIP_LINKS_REACHED: // every host can call every other
        break;
    }
}

// -- events

void sim_link_tell_later(struct sim_node *node, struct gossip_links_event event)
{
    event.now_ns = sim_node_now(node);
    if (event.kind != GOSSIP_LINKS_MESSAGE)
        event.entropy = base_rng_u64(&node->rng);
    BASE_ASSERT(!gossip_links_step(node->links.rules, &event));
}

void sim_link_tell(struct sim_node *node, struct gossip_links_event event)
{
    sim_link_tell_later(node, event);
    sim_node_act(node, GOSSIP_CONTROL_LINKS_TOO);
}

void sim_link_close(struct sim_node *node, size_t peer, enum gossip_close why)
{
    if (node->world->options.known && !node->peer[peer].link)
        return;
    sim_link_tell_later(node, (struct gossip_links_event){
                                  .kind = GOSSIP_LINKS_PART, .peer = *sim_member_id(node, peer), .why = why});
}

void sim_link_leave(struct sim_node *node)
{
    sim_link_tell_later(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_LEAVE});
}

// -- streams

struct sim_link *sim_link_add(struct sim_node *node, uint64_t stream, size_t host, bool initiator)
{
    const struct sim_world *world = node->world;
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = &world->identity[node->self],
                                             .secrets = &world->secrets,
                                             .cluster = "sim",
                                             .message_limit = MESSAGE_MAX};
    struct sim_link *link = sim_must(calloc(1, sizeof *link));

    *link = (struct sim_link){
        .next = node->links.list, .stream = stream, .host = host, .peer = SIZE_MAX, .initiator = initiator};
    node->links.list = link;
    if (world->options.sealed && !world->options.known) {
        for (size_t i = 0; i < sizeof options.entropy; i++)
            options.entropy[i] = (uint8_t)base_rng_below(&node->rng, 256);
        BASE_ASSERT(!gossip_session_create(&options, &link->session));
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
    BASE_ASSERT(!gossip_session_start(link->session, &out));
    sim_link_write(node, link, &out);
}

void sim_link_accepted(struct sim_node *node, uint64_t stream, size_t from)
{
    struct sim_link *link = sim_link_add(node, stream, from, false);

    link->handle = gossip_links_accept(node->links.rules, sim_node_now(node), from, false, link);
    if (!link->handle) {
        sim_net_close(&node->world->net, node->host, stream);
        link->closed = true;
    } else if (!link->session) {
        say_who(node, link);
    }
}

void sim_link_connected(struct sim_node *node, uint64_t stream)
{
    struct sim_link *link = sim_link_find(node, stream);

    if (link)
        say_who(node, link);
}

void sim_link_authenticated(struct sim_node *node, struct sim_link *link, size_t peer)
{
    struct gossip_member_info info;

    if (peer == SIZE_MAX) {
        sim_world_break(node->world, node->host, "a session proved an unknown id");
        return;
    }
    link->peer = peer;
    link->authenticated = true;
    bool alive = sim_member_info(node, peer, &info) && info.state != GOSSIP_MEMBER_DEAD &&
                 info.state != GOSSIP_MEMBER_LEFT;
    sim_link_tell(node, (struct gossip_links_event){.kind = GOSSIP_LINKS_AUTHENTICATED,
                                                    .link = link->handle,
                                                    .peer = *sim_member_id(node, peer),
                                                    .protocol = GOSSIP_PROTOCOL,
                                                    .alive = alive});
}

// Links are freed at the next tick, so that no pointer to a freed one remains.
void sim_link_end(struct sim_node *node, struct sim_link *link, enum gossip_link_end end)
{
    link->closed = true;
    node->links.closed = true;
    if (link->stream != SIM_NO_STREAM)
        sim_net_close(&node->world->net, node->host, link->stream);
    sim_link_tell(node,
                  (struct gossip_links_event){.kind = GOSSIP_LINKS_ENDED, .link = link->handle, .end = end});
}

static void free_link(struct sim_link *link)
{
    gossip_session_destroy(link->session);
    gossip_sealer_destroy(link->sealer);
    gossip_opener_destroy(link->opener);
    base_buffer_free(&link->in);
    free(link);
}

void sim_link_free_closed(struct sim_node *node)
{
    for (struct sim_link **at = &node->links.list; *at && node->links.closed;) {
        struct sim_link *link = *at;
        if (!link->closed) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free_link(link);
    }
    node->links.closed = false;
}

// -- life

void sim_link_start(struct sim_node *node)
{
    const struct sim_learner *learner = node->world->options.learner;
    const bool known = node->world->options.known;
    struct gossip_greeting *greeting = &node->links.greeting;

    *greeting = (struct gossip_greeting){
        .version = "sim", .model = "softmax", .parameters = learner ? learner->learner.parameters : 0};
    snprintf(greeting->name, sizeof greeting->name, "node-%02zu", node->self);
    const struct gossip_links_options options = {.self = *sim_member_id(node, node->self),
                                                 .greeting = greeting,
                                                 .entries = node->entries,
                                                 .call_ns = known ? UINT64_MAX / 4 : 0, // sim_call.c
                                                 .now_ns = sim_node_now(node)};
    BASE_ASSERT(!gossip_links_create(&options, &node->links.rules));
    node->links.join_ns = UINT64_MAX;
    const struct gossip_links_event start = {
        .kind = GOSSIP_LINKS_START, .now_ns = options.now_ns, .entropy = base_rng_u64(&node->rng)};
    BASE_ASSERT(!gossip_links_step(node->links.rules, &start));
}

void sim_link_stop(struct sim_node *node)
{
    gossip_links_destroy(node->links.rules);
    node->links.rules = NULL;
    while (node->links.list) {
        struct sim_link *link = node->links.list;
        node->links.list = link->next;
        free_link(link);
    }
    node->links.closed = false;
}
