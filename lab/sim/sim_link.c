// The life of a link: proof of who is there, greetings, one link a pair (the node with the lower id decides),
// and its end.
#include "lab/sim/sim_link.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWINS_LEAST  3u // words of one peer
#define TWIN_NS      (5 * SIM_SECOND)
#define MESSAGE_MOST (1u << 26)

struct sim_link *sim_link_find(const struct sim_node *node, uint64_t stream)
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
void sim_link_drop(struct sim_node *node, struct sim_link *link)
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

void sim_link_finish(struct sim_node *node, struct sim_link *link, const char *why)
{
    if (link->proven) {
        struct gossip_message bye = {.kind = GOSSIP_BYE};
        snprintf(bye.as.bye.reason, sizeof bye.as.bye.reason, "%s", why);
        sim_link_say(node, link, &bye);
    }
    sim_net_close(&node->world->net, node->host, link->stream);
    sim_link_drop(node, link);
}

void sim_link_close(struct sim_node *node, size_t peer, const char *why)
{
    if (node->peer[peer].link)
        sim_link_finish(node, node->peer[peer].link, why);
}

void sim_link_free(struct sim_link *link)
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
        sim_link_free(link);
    }
}

struct sim_link *sim_link_add(struct sim_node *node, uint64_t stream, size_t host, bool initiator)
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
    struct sim_link *link = sim_link_add(node, stream, from, false);

    if (!link->session)
        say_who(node, link);
}

void sim_link_connected(struct sim_node *node, uint64_t stream)
{
    struct sim_link *link = sim_link_find(node, stream);

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
                                                     .parameters = learner ? learner->learner.parameters : 0,
                                                     .life = node->instance}};

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

void sim_link_proven(struct sim_node *node, struct sim_link *link, size_t peer)
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
        sim_link_finish(node, link, "not needed");
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

void sim_link_adopt(struct sim_node *node, struct sim_link *link)
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
    sim_fetch_linked(node, link->peer);
}

void sim_link_replace(struct sim_node *node, struct sim_link *link)
{
    sim_link_finish(node, node->peer[link->peer].link, "replaced");
    sim_link_adopt(node, link);
}

static void stop_as_twin(struct sim_node *node)
{
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_TWIN});
}

// Our own id has answered: this very process, or another one.
static void greeted_by_self(struct sim_node *node, struct sim_link *link, uint64_t life)
{
    if (life != node->instance)
        stop_as_twin(node);
    else if (link->entry != SIZE_MAX)
        node->entry[link->entry].self = true;
    sim_link_finish(node, link, "self");
}

// The other end has a working link to this id, and this process has none to it. Once or twice that is the
// rest of a link that was given up here.
void sim_link_suspect_twin(struct sim_node *node, size_t peer)
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

void sim_link_greeted(struct sim_node *node, struct sim_link *link, const struct gossip_greeting *theirs)
{
    bool decides = is_lower(node, link);

    link->heard = true;
    link->heard_ns = sim_node_now(node);
    if (link->peer == node->self) {
        greeted_by_self(node, link, theirs->life);
        return;
    }
    if (!node->peer[link->peer].link)
        sim_link_adopt(node, link);
    else if (!decides)
        sim_link_replace(node, link); // the lower id has taken this one
}
